"""Every edge that is declared to be ingress's is taken by its operations."""

import psycopg

from tests.edges import declared_of, note_edges
from tests.services.ingress.desk import Desk
from tests.services.ingress.intake.test_redrive import bury
from tests.services.ingress.intake.test_unwanted import CLOSE, PUSH, change_request
from tests.services.ingress.pulls import pull


async def test_taking_in_takes_each_declared_edge_and_no_other(desk: Desk, owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        taken = note_edges(owner)
        for number, body in enumerate((PUSH, CLOSE)):
            pr = await change_request(desk, repo_id=number + 1)
            await desk.rows.lease(await desk.rows.intent(pr))
            await desk.take(f"d-{number}", body.replace(b"186853002", b"%d" % (number + 1)))
        await bury(desk, (await desk.take("d-2", pull(number=3))).intent_ids[0])
        await desk.take("d-2", pull(number=3))
        assert taken() == declared_of("ingress")
