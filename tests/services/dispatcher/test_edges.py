"""Every edge that is declared to be the dispatcher's is taken by its operations."""

import psycopg

from shared.schema.states import Disposition
from tests.edges import declared_of, note_edges
from tests.services.dispatcher.desk import Desk, completed, failed, new_session, released
from tests.services.dispatcher.intents.test_operations import enqueue

LONG_AGO = "2026-01-01T00:00:00Z"


async def test_the_operations_take_each_declared_edge_and_no_other(
    desk: Desk, owner_url: str
) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        taken = note_edges(owner)
        await desk.intents.enqueue(enqueue())
        await _leases_end(desk)
        await _leases_are_granted(desk)
        await _intents_end_without_a_lease(desk)
        await _sessions_come_and_go(desk)
        assert taken() == declared_of("dispatcher")


async def _leases_end(desk: Desk) -> None:
    for outcome in (completed(), released(), failed(Disposition.PERMANENT)):
        assert not (await desk.settle(await desk.running(), outcome)).refusal


async def _leases_are_granted(desk: Desk) -> None:
    await desk.ready()
    for state in ("free", "succeeded", "superseded", "abandoned", "dead"):
        work = await desk.ready(generation=2)
        await desk.rows.lease(work, state=state, generation=1, settled_at=LONG_AGO)
    await desk.rival(await desk.running(claimable_in_ms=-1))
    await desk.grant()


async def _intents_end_without_a_lease(desk: Desk) -> None:
    succeeded = await desk.ready()
    await desk.rows.lease(succeeded, state="succeeded", settled_at=LONG_AGO)
    for mark in ("superseded_through", "abandoned_through"):
        pull = await desk.rows.change_request(generation=2, **{mark: 1})
        await desk.rows.ready(await desk.rows.intent(pull, generation=1))
    await desk.grant()


async def _sessions_come_and_go(desk: Desk) -> None:
    session = new_session()
    await desk.dispatching.open_session(session, resume=False)
    await desk.dispatching.open_session(session, resume=True)
    stream = await desk.stream()
    await desk.dispatching.detach_session(stream)
    await desk.dispatching.open_session(new_session(session_id=stream.session_id), resume=True)
    await desk.dispatching.end_session(await desk.stream())
