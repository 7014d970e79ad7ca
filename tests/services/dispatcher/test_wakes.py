"""Work starts when it is told of, not at the next look; and within one look when it is not."""

from collections.abc import AsyncIterator, Iterator

import pytest
from fencepost.dispatcher.v1 import work_pb2

from tests.database_server import DatabaseServer, as_service
from tests.rows import from_now
from tests.service_process import service_process
from tests.services.dispatcher.floor import Floor, Serving, floor_on
from tests.services.dispatcher.wire import Line, enqueue, new_intent, settle

NEVER_MS = "60000"


@pytest.fixture(scope="module")
def patient(database_server: DatabaseServer) -> Iterator[tuple[str, str]]:
    """A dispatcher that does not look for work by itself while a test lasts."""
    for owner_url in database_server.each_database():
        url = as_service(owner_url, "dispatcher")
        with service_process(
            "dispatcher", url, {"DISPATCHER_POLL_INTERVAL_MS": NEVER_MS}
        ) as process:
            yield owner_url, process.grpc


@pytest.fixture
async def deaf_floor(serving: Serving) -> AsyncIterator[Floor]:
    """A tenant on a dispatcher that looks often; nobody wakes it."""
    async with floor_on(serving.owner_url, serving.address) as floor:
        yield floor


@pytest.fixture
async def deaf_line(deaf_floor: Floor) -> AsyncIterator[Line]:
    async with await deaf_floor.line() as line:
        yield line


@pytest.fixture
async def floor(patient: tuple[str, str]) -> AsyncIterator[Floor]:
    """A tenant on a dispatcher that hears wakes alone."""
    async with floor_on(*patient) as floor:
        yield floor


@pytest.fixture
async def line(floor: Floor) -> AsyncIterator[Line]:
    async with await floor.line("work", "wake", "intents_write") as line:
        yield line


async def test_credit_is_a_look_at_once(floor: Floor, line: Line) -> None:
    work = await floor.ready()
    stream, _ = await line.opened()
    await stream.credit(1)
    assert (await stream.dispatch()).intent_id == work.intent_id


async def test_intents_that_are_added_start_at_once(line: Line) -> None:
    stream, _ = await line.opened()
    await stream.credit(5)
    await stream.beat()
    [intent_id] = (await line.call("EnqueueIntents", enqueue())).intent_ids
    assert (await stream.dispatch()).intent_id == intent_id


async def test_a_wake_starts_what_another_service_added(floor: Floor, line: Line) -> None:
    stream, _ = await line.opened(queues=["a", "b"])
    await stream.credit(5)
    await stream.beat()
    work = await floor.ready(queue="b")
    await line.call("Wake", work_pb2.WakeRequest(queues=["b", "unknown"]))
    assert (await stream.dispatch()).intent_id == work.intent_id


async def test_what_is_given_back_comes_again_at_once(floor: Floor, line: Line) -> None:
    await floor.ready()
    stream, _ = await line.opened()
    await stream.credit(2)
    first = await stream.dispatch()
    await stream.settle(settle(first, release=work_pb2.Release(reason="not now")))
    again = await stream.dispatch()
    assert (again.intent_id, again.fence.epoch, again.attempt) == (first.intent_id, 2, 1)


@pytest.mark.guarantee("L5")
async def test_what_waited_for_a_holder_is_dealt_with_when_it_ends(
    floor: Floor, line: Line
) -> None:
    work = await floor.ready()
    stream, _ = await line.opened()
    await stream.credit(5)
    dispatch = await stream.dispatch()
    second = await floor.rows.intent(work.change_request)
    await floor.rows.waiting(second, waits_on="lease")
    fail = work_pb2.Fail(disposition=work_pb2.DISPOSITION_PERMANENT, reason="broken")
    await stream.settle(settle(dispatch, fail=fail))
    again = await stream.dispatch()
    assert (again.intent_id, again.fence.epoch) == (second.intent_id, 2)


async def test_a_wake_of_other_queues_is_none_of_ours(floor: Floor, line: Line) -> None:
    stream, _ = await line.opened()
    await stream.credit(1)
    await stream.beat()
    await floor.ready()
    await line.call("EnqueueIntents", enqueue(new_intent(queue="other")))
    await line.call("Wake", work_pb2.WakeRequest(queues=["other"]))
    await stream.beat()
    assert len(await floor.rows.all("ready", tenant=floor.rows.tenant)) == 2


async def test_what_nobody_told_of_starts_at_the_next_look(
    deaf_floor: Floor, deaf_line: Line
) -> None:
    stream, _ = await deaf_line.opened()
    await stream.credit(5)
    await stream.beat()
    work = await deaf_floor.ready()
    assert (await stream.dispatch()).intent_id == work.intent_id


async def test_what_becomes_due_starts_at_the_next_look(deaf_floor: Floor, deaf_line: Line) -> None:
    stream, _ = await deaf_line.opened()
    await stream.credit(5)
    await stream.beat()
    work = await deaf_floor.rows.intent()
    await deaf_floor.rows.waiting(work, due_in_ms=-1)
    assert (await stream.dispatch()).intent_id == work.intent_id


@pytest.mark.guarantee("L2")
async def test_the_work_of_a_lease_past_its_time_starts_at_the_next_look(
    deaf_floor: Floor, deaf_line: Line
) -> None:
    work = await deaf_floor.running()
    stream, _ = await deaf_line.opened()
    await stream.credit(1)
    await stream.beat()
    await deaf_floor.rows.change("leases", {"key": work.key}, claimable_at=from_now(-1))
    dispatch = await stream.dispatch()
    assert (dispatch.intent_id, dispatch.fence.epoch) == (work.intent_id, 2)
