"""What requests may take together: room for the largest before one is read, then what it has."""

import asyncio
from typing import Any

import grpc
import pytest
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.errors import DeadlineTooShort, Overloaded

from shared.rpc import request_room
from shared.rpc.request_room import RequestRoom
from shared.settings import MIB
from tests.shared.rpc.raw import GET_INTENT, Stream, Unary, own_connection, raw_call
from tests.shared.rpc.served import serving, settings_for
from tests.waiting import until

REQUEST = GetIntentRequest(intent_id=1).SerializeToString()
LARGE = REQUEST + b"\x7a\x80\x80\x38" + bytes(56 << 14)
"""With a field that nobody knows, of seven eighths of a MiB."""

FOUR_FIT: dict[str, Any] = {"message_limit_bytes": MIB, "request_buffer_bytes_max": 4 * MIB}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_room, "WAIT_S", 0.05)


async def test_room_is_taken_for_the_largest_and_given_back() -> None:
    room = RequestRoom(bytes_max=20, message_limit_bytes=10)
    first, second = await room.enter(), await room.enter()
    assert room.free_bytes == 0
    first.shrink(3)
    second.shrink(4)
    assert room.free_bytes == 13
    third = await room.enter()
    for each in (first, second, third):
        each.shrink(0)
    assert room.free_bytes == 20


async def test_those_who_wait_get_room_in_the_order_in_which_they_came() -> None:
    room = RequestRoom(bytes_max=10, message_limit_bytes=10)
    holder = await room.enter()
    waiting = [asyncio.create_task(room.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    holder.shrink(0)
    first = await waiting[0]
    assert not waiting[1].done()
    first.shrink(0)
    (await waiting[1]).shrink(0)
    assert room.free_bytes == 10


@pytest.mark.usefixtures("impatient")
async def test_who_waits_too_long_is_told_to_come_again_and_holds_nothing() -> None:
    room = RequestRoom(bytes_max=10, message_limit_bytes=10)
    holder = await room.enter()
    with pytest.raises(Overloaded):
        await room.enter()
    holder.shrink(0)
    assert room.free_bytes == 10


@pytest.mark.parametrize("turn_came", [False, True])
async def test_who_goes_away_while_he_waits_holds_nothing(turn_came: bool) -> None:
    room = RequestRoom(bytes_max=10, message_limit_bytes=10)
    holder = await room.enter()
    waiting = asyncio.create_task(room.enter())
    await asyncio.sleep(0)
    if turn_came:
        holder.shrink(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    holder.shrink(0)
    assert room.free_bytes == 10
    (await room.enter()).shrink(0)


class Holding:
    """A method that answers when it is released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def answer(self, _request: object, _context: object) -> GetIntentResponse:
        await self.release.wait()
        return GetIntentResponse()


@pytest.mark.guarantee("X4")
@pytest.mark.usefixtures("impatient")
async def test_requests_beyond_the_room_are_refused_before_they_are_read() -> None:
    held = Holding()
    async with serving(**FOUR_FIT) as served:
        served.intents.answer = held.answer
        under_way = [asyncio.ensure_future(raw_call(served, LARGE)) for _ in range(4)]
        await until(lambda: served.intents.calls == 4, what="four calls to run")
        free_bytes = served.pipeline.room.free_bytes
        assert 0 < free_bytes < MIB
        for request in (LARGE, REQUEST):
            refused = await raw_call(served, request)
            assert await refused.code() is grpc.StatusCode.UNAVAILABLE
            assert await refused.details() == str(Overloaded())
        assert (served.intents.calls, served.pipeline.room.free_bytes) == (4, free_bytes)
        held.release.set()
        await asyncio.gather(*under_way)
        await until(lambda: served.pipeline.room.free_bytes == 4 * MIB, what="the room to be free")
        served.intents.calls = 0
        await raw_call(served, LARGE)
        assert served.intents.calls == 1


@pytest.mark.guarantee("X4")
async def test_a_caller_who_does_not_send_his_request_holds_no_room_for_long() -> None:
    async with serving(**FOUR_FIT, request_default_deadline_ms=200) as served:
        async with own_connection(served) as channel:
            open_call: Stream = channel.stream_unary(GET_INTENT)
            metadata = (("authorization", f"Bearer {served.api_key}"),)
            stalled = open_call(metadata=metadata, timeout=15)
            assert await stalled.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert await stalled.details() == str(DeadlineTooShort())
        assert served.intents.calls == 0
        await until(lambda: served.pipeline.room.free_bytes == 4 * MIB, what="the room to be free")


@pytest.mark.guarantee("X4")
async def test_a_call_without_a_request_is_told_so() -> None:
    async with serving() as served, own_connection(served) as channel:
        open_call: Stream = channel.stream_unary(GET_INTENT)
        metadata = (("authorization", f"Bearer {served.api_key}"),)
        empty = open_call(metadata=metadata, timeout=5)
        await empty.done_writing()
        assert await empty.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "must be sent" in (await empty.details())


@pytest.mark.guarantee("X4")
async def test_a_request_that_is_compressed_is_refused_before_it_grows() -> None:
    async with serving() as served, own_connection(served) as channel:
        send: Unary = channel.unary_unary(GET_INTENT)
        metadata = (("authorization", f"Bearer {served.api_key}"),)
        call = send(LARGE, metadata=metadata, timeout=5, compression=grpc.Compression.Gzip)
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        assert served.intents.calls == 0


def test_the_largest_message_must_have_room() -> None:
    with pytest.raises(ValueError, match=r"MESSAGE_LIMIT_.*exceed .*REQUEST_BUFFER_"):
        settings_for(message_limit_bytes=2 * MIB, request_buffer_bytes_max=MIB)
