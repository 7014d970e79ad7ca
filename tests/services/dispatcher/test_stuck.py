"""A row that stays locked, as a worker on its stream sees it."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import FencepostError, Overloaded
from fencepost.status import from_status

from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking
from tests.service_process import service_process
from tests.services.dispatcher.floor import Floor, floor_on
from tests.services.dispatcher.wire import Stream, renewal, settle

BRISK = {"DISPATCHER_DATABASE_LOCK_TIMEOUT_MS": "100", "DISPATCHER_POLL_INTERVAL_MS": "200"}
LOCK_LEASE = "SELECT FROM fencepost.leases WHERE intent_id = %(intent_id)s FOR UPDATE"
LOCK_CHANGE_REQUEST = "SELECT FROM fencepost.change_requests WHERE repo_id = %(repo_id)s FOR UPDATE"

Refusals = dict[int, FencepostError | None]


@pytest.fixture
def address(service_url: Callable[[Service], str]) -> Iterator[str]:
    """A dispatcher that soon gives a lock up."""
    with service_process("dispatcher", service_url("dispatcher"), BRISK) as process:
        yield process.grpc


@pytest.fixture
async def floor(owner_url: str, address: str) -> AsyncIterator[Floor]:
    async with floor_on(owner_url, address) as floor:
        yield floor


@pytest.fixture
async def stream(floor: Floor) -> AsyncIterator[Stream]:
    async with await floor.line() as line:
        stream, _ = await line.opened()
        yield stream


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def results(
    frame: work_pb2.WorkResponse,
) -> list[work_pb2.SettleResult | work_pb2.RenewResult]:
    return [*frame.settle_results, *frame.renew_results]


async def answers(stream: Stream, count: int) -> Refusals:
    """So many answers to outcomes and renewals, by their item ids."""
    found: Refusals = {}
    while len(found) < count:
        for result in await stream.first(results):
            refused = result.HasField("refusal")
            found[result.item_id] = from_status(result.refusal) if refused else None
    return found


@pytest.mark.guarantee("X7")
async def test_of_one_frame_what_is_stuck_is_refused_alone_and_may_be_sent_again(
    floor: Floor, stream: Stream, blocker: Blocker
) -> None:
    for _ in range(4):
        await floor.ready()
    await stream.credit(4)
    dispatches = await stream.dispatches(4)
    settles = [settle(dispatch) for dispatch in dispatches[:2]]
    renewals = [renewal(dispatch) for dispatch in dispatches[2:]]
    items: list[work_pb2.Settle | work_pb2.Renew] = [*settles, *renewals]
    stuck = items[::2]
    for item in stuck:
        await blocker.hold(LOCK_LEASE, intent_id=item.intent_id)
    await stream.send(settles=settles, renewals=renewals)
    refusals = await answers(stream, 4)
    for item in items:
        assert isinstance(refusals[item.item_id], Overloaded) == (item in stuck)
    await stream.beat()
    await blocker.roll_back()
    await stream.send(settles=settles[:1], renewals=renewals[:1])
    assert await answers(stream, 2) == {item.item_id: None for item in stuck}


@pytest.mark.guarantee("X7", "L5")
async def test_work_that_was_stuck_comes_by_itself_once_its_row_is_free(
    floor: Floor, stream: Stream, blocker: Blocker
) -> None:
    works = [await floor.ready() for _ in range(3)]
    stuck = works[1]
    assert stuck.change_request is not None
    await blocker.hold(LOCK_CHANGE_REQUEST, repo_id=stuck.change_request.repo_id)
    await stream.credit(3)
    neighbours = await stream.dispatches(2)
    assert [each.intent_id for each in neighbours] == [works[0].intent_id, works[2].intent_id]
    await blocker.roll_back()
    dispatch = await stream.dispatch()
    assert (dispatch.intent_id, dispatch.attempt) == (stuck.intent_id, 1)
