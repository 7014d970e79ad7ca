"""A delivery that was processed is delivered again, with and without a restart, and at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.cases.stored import bodies, refusals
from tests.database_server import DatabaseServer, as_service
from tests.services.ingress.pulls import pull
from tests.services.ingress.served import served
from tests.services.ingress.webhooks.posting import Door, opened, signed

AT_ONCE = 40
ID = "D1"
BODY, OTHER_BODY = pull(), pull(title="Other widgets")


def post(door: Door, body: bytes = BODY) -> tuple[int, str, str]:
    """Status, what was matched, and whose result it is; where it is refused, why."""
    answer = door.post(body, signed(body, x_github_delivery=ID))
    told = answer.json()
    return answer.status_code, told.get("matched", told["reason"]), told.get("first_delivery", "")


@pytest.mark.guarantee("I1", "I4")
def test_a_delivery_that_was_processed_makes_no_second_review(
    database_server: DatabaseServer,
) -> None:
    with opened(database_server) as door:
        assert post(door) == (202, "none", ID)
        door.owner.execute("DELETE FROM fencepost.ready")
        door.owner.execute(
            "UPDATE fencepost.intents SET status = 'succeeded', settled_at = clock_timestamp()"
        )
        written = door.written()
        again = (200, "delivery-id", ID)
        assert post(door) == again
        with ThreadPoolExecutor(AT_ONCE) as crowd:
            assert list(crowd.map(lambda _: post(door), range(AT_ONCE))) == [again] * AT_ONCE
        assert post(door, OTHER_BODY) == (409, "DELIVERY_CONFLICT", "")
        assert door.written() == written | {"deliveries": written["deliveries"] + 1}
        assert bodies(door, ID) == [BODY, OTHER_BODY]
        assert refusals(door, ID) == [("DELIVERY_CONFLICT", "", OTHER_BODY)]
        assert post(door) == again


@pytest.mark.guarantee("I1")
def test_a_restart_forgets_no_delivery(database_server: DatabaseServer) -> None:
    with opened(database_server) as door:
        assert post(door) == (202, "none", ID)
        door.ingress.kill()
        with served(as_service(door.owner_url, "ingress")) as restarted:
            assert post(replace(door, ingress=restarted)) == (200, "delivery-id", ID)
