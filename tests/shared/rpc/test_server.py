"""Goal: the server bounds what it takes, tells its health, and goes down in order.

Method: a server on a loopback port, with calls held open where a test needs them to be.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import pytest
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest, GetIntentResponse
from fencepost.dispatcher.v1.work_pb2 import (
    Credit,
    EndDrain,
    Heartbeat,
    Hello,
    WorkRequest,
    WorkResponse,
)
from fencepost.errors import DeadlineTooShort, Draining, FencepostError, FieldInvalid, Overloaded
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from shared.rpc.methods import Methods, ServiceCannotBeServedError
from shared.rpc.server import PortUnavailableError
from tests.shared.rpc.raw import health_of, own_connection, raw_call, raw_stub
from tests.shared.rpc.served import SESSION_ID, Context, Served, serving
from tests.waiting import until

REQUEST = GetIntentRequest(intent_id=1)
HELLO = WorkRequest(hello=Hello(session_id=SESSION_ID, queues=["reviews"]))
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
WORK = "/fencepost.dispatcher.v1.DispatchService/Work"
WATCH = "/grpc.health.v1.Health/Watch"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Held:
    """A method that waits until it is released, and tells whether it was cut off."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.cut = False

    async def answer(self, _request: object, _context: Context) -> GetIntentResponse:
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cut = True
            raise
        return GetIntentResponse()


async def health(served: Served, service: str = "") -> int:
    async with own_connection(served) as channel:
        return await health_of(channel, service)


async def next_frame(call: Any) -> WorkResponse:
    frame = await call.read()
    assert isinstance(frame, WorkResponse)
    return frame


async def test_a_call_without_a_deadline_gets_the_servers() -> None:
    held = Held()
    async with serving(request_default_deadline_ms=100) as served:
        served.intents.answer = held.answer
        call = await raw_call(served, REQUEST.SerializeToString(), timeout_s=None)
    assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await call.details() == str(DeadlineTooShort())
    assert held.cut


async def test_a_call_with_too_little_time_left_is_not_begun(served: Served) -> None:
    await served.intent_stub().GetIntent(REQUEST)
    with pytest.raises(DeadlineTooShort):
        await served.intent_stub().GetIntent(REQUEST, timeout=0.001)
    assert served.intents.calls == 1


async def test_more_calls_than_the_limit_are_refused_as_overloaded() -> None:
    held = Held()
    async with serving(concurrent_rpcs_max=2) as served:
        served.intents.answer = held.answer
        first = [asyncio.ensure_future(served.intent_stub().GetIntent(REQUEST)) for _ in range(2)]
        await until(lambda: served.intents.calls == 2, what="both calls to run")
        # On another connection: HTTP/2 itself holds each one to the limit.
        call = await raw_call(served, REQUEST.SerializeToString())
        assert await call.details() == str(Overloaded())
        held.release.set()
        await asyncio.gather(*first)


async def test_a_connection_holds_back_what_is_beyond_the_limit() -> None:
    held = Held()
    async with serving(concurrent_rpcs_max=1) as served:
        served.intents.answer = held.answer
        stub = raw_stub(served)
        calls = [asyncio.ensure_future(stub.GetIntent(REQUEST)) for _ in range(2)]
        await until(lambda: served.intents.calls == 1, what="the first call to run")
        held.release.set()
        await asyncio.gather(*calls)
    assert served.intents.calls == 2


async def test_a_session_goes_both_ways(served: Served) -> None:
    call = served.work_stub().Work()
    await call.write(HELLO)
    assert (await next_frame(call)).welcome.session_id == SESSION_ID
    await call.write(WorkRequest(heartbeat=Heartbeat()))
    assert (await next_frame(call)).HasField("heartbeat_ack")
    with pytest.raises(FieldInvalid):
        await call.write(WorkRequest(hello=Hello(session_id="no")))
    await call.done_writing()
    assert await call.read() is aio.EOF
    assert served.sessions.ended == ["closed"]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (WorkRequest(credit=Credit(dispatches=-1)).SerializeToString(), "credit.dispatches"),
        (b"\xff\xff", "request"),
    ],
    ids=["a broken rule", "no message"],
)
async def test_a_bad_frame_ends_the_session_and_is_named(
    served: Served, frame: bytes, field: str
) -> None:
    async with own_connection(served) as channel:
        work: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(WORK)
        call = work(metadata=(("authorization", f"Bearer {served.api_key}"),))
        await call.write(HELLO.SerializeToString())
        await call.read()
        await call.write(frame)
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"{field}: " in await call.details()
    assert served.sessions.ended == ["FieldInvalid"]


def test_a_stream_one_way_only_is_not_served() -> None:
    async def answers(_request: object, _context: object) -> AsyncGenerator[WorkResponse, None]:
        yield WorkResponse()

    handler: Any = grpc.unary_stream_rpc_method_handler(answers)
    with pytest.raises(ServiceCannotBeServedError, match="Work streams one way only"):
        Methods().add_registered_method_handlers("x.v1.X", {"Work": handler})


async def test_a_worker_that_goes_away_ends_its_session(served: Served) -> None:
    call = served.work_stub().Work()
    await call.write(HELLO)
    await call.read()
    call.cancel()
    await until(lambda: served.sessions.ended, what="the session to end")
    assert served.sessions.ended == ["CancelledError"]
    span = await served.span()
    assert span.attributes is not None
    assert span.attributes["rpc.response.status_code"] == "CANCELLED"


async def test_an_iterated_session_tells_which_frame_was_wrong(served: Served) -> None:
    async def frames() -> AsyncIterator[WorkRequest]:
        yield HELLO
        yield WorkRequest(hello=Hello(session_id="no", queues=["reviews"]))

    with pytest.raises(FieldInvalid) as refused:
        async for _ in served.work_stub().Work(frames()):
            pass
    assert refused.value.violations[0][0] == "hello.session_id"


async def test_draining_refuses_new_calls_and_lets_those_under_way_end(served: Served) -> None:
    held = Held()
    served.intents.answer = held.answer
    under_way = asyncio.ensure_future(raw_stub(served).GetIntent(REQUEST))
    await until(lambda: served.intents.calls, what="the call to run")
    assert await health(served) == SERVING
    drain = asyncio.create_task(served.server.drain(within_s=10))
    await until(served.pipeline.calls.draining.is_set, what="the drain to begin")
    with pytest.raises(Draining):
        await raw_stub(served).GetIntent(REQUEST)
    assert await health(served) == NOT_SERVING
    assert await health(served, "fencepost.dispatcher.v1.IntentService") == NOT_SERVING
    assert not drain.done()
    held.release.set()
    await under_way
    await drain


async def test_a_session_sees_the_drain_and_ends_in_order(served: Served) -> None:
    call = served.work_stub().Work()
    await call.write(HELLO)
    await call.read()
    await call.write(WorkRequest(end_drain=EndDrain()))
    began = time.monotonic()
    drain = asyncio.create_task(served.server.drain(within_s=10))
    assert (await next_frame(call)).HasField("drain")
    assert await call.read() is aio.EOF
    await drain
    assert time.monotonic() - began < 5


async def test_what_does_not_end_within_the_grace_is_told_why(served: Served) -> None:
    held = Held()
    served.intents.answer = held.answer
    under_way = asyncio.ensure_future(raw_stub(served).GetIntent(REQUEST))
    session = served.work_stub().Work()
    await session.write(HELLO)
    await session.read()
    await until(lambda: served.intents.calls, what="the call to run")
    await served.server.drain(within_s=0.1)
    with pytest.raises(Draining):
        await under_way
    with pytest.raises(Draining):
        await session.read()
    assert held.cut


async def test_whoever_watches_the_health_hears_of_the_drain_and_does_not_hold_it_up(
    served: Served,
) -> None:
    async with own_connection(served) as channel:
        watch: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(WATCH)
        call = watch(b"")
        assert await status_read(call) == SERVING
        began = time.monotonic()
        drain = asyncio.create_task(served.server.drain(within_s=10))
        assert await status_read(call) == NOT_SERVING
        await drain
    assert time.monotonic() - began < 5


async def status_read(call: aio.UnaryStreamCall[bytes, bytes]) -> int:
    answer = await call.read()
    assert isinstance(answer, bytes)
    return health_pb2.HealthCheckResponse.FromString(answer).status


async def test_a_server_that_is_not_ready_does_not_serve(served: Served) -> None:
    await served.server.health.set(serving=False)
    assert await health(served) == NOT_SERVING
    await served.server.health.set(serving=True)
    assert await health(served) == SERVING


@pytest.mark.parametrize("reflection", [True, False, None])
async def test_reflection_is_served_when_wanted_by_default_on_loopback(
    reflection: bool | None,
) -> None:
    async with serving(reflection=reflection) as served:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        reflect = served.channel().stream_stream(
            REFLECTION,
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        call = reflect(iter([request]))
        if reflection is False:
            with pytest.raises(FencepostError) as refused:
                await call.read()
            assert refused.value.code is grpc.StatusCode.UNIMPLEMENTED
        else:
            answer = await call.read()
            assert isinstance(answer, reflection_pb2.ServerReflectionResponse)
            names = {each.name for each in answer.list_services_response.service}
            assert {"fencepost.dispatcher.v1.IntentService", "grpc.health.v1.Health"} <= names


async def test_a_taken_port_is_told_in_a_sentence(served: Served) -> None:
    with pytest.raises(PortUnavailableError, match=r"GRPC_ADDRESS=.* cannot be listened on"):
        async with serving(grpc_address=served.server.address):
            pass


async def test_a_message_over_the_limit_is_refused() -> None:
    async with serving(message_limit_bytes=1024 * 1024) as served:
        call = await raw_call(served, b"x" * (1024 * 1024 + 1))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert served.intents.calls == 0
