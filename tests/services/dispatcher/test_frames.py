"""How large a worker's frame may be, and what becomes of its session when one is larger."""

from collections.abc import AsyncIterator

import grpc
import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import BodyTooLarge

from shared.settings import MIB
from tests.services.dispatcher.floor import Floor
from tests.services.dispatcher.wire import Line, hello, settle

LIMIT_BYTES = 4 * MIB
RESULT_BYTES = 30_000


@pytest.fixture
async def line(floor: Floor) -> AsyncIterator[Line]:
    async with await floor.line() as line:
        yield line


def settles_of(size_bytes: int, dispatch: work_pb2.Dispatch) -> list[work_pb2.Settle]:
    """Outcomes of one dispatch, alike but for the last, in a frame of exactly this size."""
    frame = work_pb2.WorkRequest()
    while size_bytes - frame.ByteSize() > 2 * RESULT_BYTES:
        frame.settles.append(outcome(dispatch, RESULT_BYTES))
    last = frame.settles.add()
    last.CopyFrom(outcome(dispatch, RESULT_BYTES))
    while missing_bytes := size_bytes - frame.ByteSize():
        last.complete.result = b"x" * (len(last.complete.result) + missing_bytes)
    return list(frame.settles)


def outcome(dispatch: work_pb2.Dispatch, result_bytes: int) -> work_pb2.Settle:
    return settle(dispatch, complete=work_pb2.Complete(result=b"x" * result_bytes))


async def test_a_frame_may_be_as_large_as_workers_count_on(floor: Floor, line: Line) -> None:
    work = await floor.ready()
    stream, _ = await line.opened()
    await stream.credit(1)
    first, *others = await stream.settle(*settles_of(LIMIT_BYTES, await stream.dispatch()))
    assert not first.HasField("refusal")
    assert others
    assert (await floor.intent(work))["status"] == "succeeded"


@pytest.mark.guarantee("X4")
async def test_a_larger_frame_ends_its_stream_with_its_name_and_nothing_of_it_is_done(
    floor: Floor, line: Line
) -> None:
    work = await floor.ready()
    stream, session_id = await line.opened()
    neighbour, _ = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    with pytest.raises(BodyTooLarge, match="A frame is over the limit") as refused:
        await stream.settle(*settles_of(LIMIT_BYTES + 1, dispatch))
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (refused.value.limit_bytes, refused.value.retriable) == (LIMIT_BYTES, False)
    assert (await floor.intent(work))["status"] == "open"
    await neighbour.beat()
    again = line.stream()
    assert (await again.open(hello(session_id=session_id, resume_session=True))).resumed
    assert (await again.dispatch()).fence == dispatch.fence
    [result] = await again.settle(outcome(dispatch, RESULT_BYTES))
    assert not result.HasField("refusal")
    assert (await floor.intent(work))["status"] == "succeeded"
