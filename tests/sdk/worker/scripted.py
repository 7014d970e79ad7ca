"""A dispatcher that says over the wire what a real one does not say on demand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FencepostError
from fencepost.metadata import STATUS_DETAILS
from fencepost.status import to_status
from grpc import aio

Context = aio.ServicerContext[work_pb2.WorkRequest, work_pb2.WorkResponse]
Unary = aio.ServicerContext[Any, Any]

HEARTBEAT_MS = 50


@dataclass
class ScriptedDispatcher(work_pb2_grpc.DispatchServiceServicer):
    """Welcomes every session, and answers every item with success, unless it is told otherwise.

    `refusals` (`resume_refusals` for a session that comes back) end a stream instead of a Welcome,
    `interruptions` at the next sign of life; `news` are said then. An outcome whose reason is a
    key of `poison` ends the stream.
    """

    address: str = ""
    refusals: list[FencepostError] = field(default_factory=list)
    resume_refusals: list[FencepostError] = field(default_factory=list)
    interruptions: list[FencepostError] = field(default_factory=list)
    news: list[work_pb2.WorkResponse] = field(default_factory=list)
    poison: dict[str, FencepostError] = field(default_factory=dict)
    hellos: list[work_pb2.Hello] = field(default_factory=list)
    settled: list[work_pb2.Settle] = field(default_factory=list)

    async def Work(  # noqa: N802 - named by the contract
        self, request_iterator: AsyncIterator[work_pb2.WorkRequest], context: Context
    ) -> AsyncIterator[work_pb2.WorkResponse]:
        """One stream."""
        hello = (await anext(request_iterator)).hello
        self.hellos.append(hello)
        if refusals := self.resume_refusals if hello.resume_session else self.refusals:
            await _end(context, refusals.pop(0))
        yield _welcome(hello)
        async for frame in request_iterator:
            if frame.HasField("heartbeat"):
                if self.interruptions:
                    await _end(context, self.interruptions.pop(0))
                yield work_pb2.WorkResponse(heartbeat_ack=work_pb2.HeartbeatAck())
                while self.news:
                    yield self.news.pop(0)
            for settle in frame.settles:
                if (fault := self.poison.get(settle.release.reason)) is not None:
                    await _end(context, fault)
            self.settled += frame.settles
            yield work_pb2.WorkResponse(
                settle_results=[
                    work_pb2.SettleResult(item_id=settle.item_id) for settle in frame.settles
                ]
            )

    async def FetchPayload(  # noqa: N802 - named by the contract
        self,
        request: work_pb2.FetchPayloadRequest,  # noqa: ARG002
        context: Unary,  # noqa: ARG002
    ) -> work_pb2.FetchPayloadResponse:
        """No payload is large here."""
        return work_pb2.FetchPayloadResponse()

    async def Wake(  # noqa: N802 - named by the contract
        self,
        request: work_pb2.WakeRequest,  # noqa: ARG002
        context: Unary,  # noqa: ARG002
    ) -> work_pb2.WakeResponse:
        """Nobody sleeps here."""
        return work_pb2.WakeResponse()


async def _end(context: Context, error: FencepostError) -> NoReturn:
    details = to_status(error).SerializeToString()
    await context.abort(error.code, error.message, ((STATUS_DETAILS, details),))


def _welcome(hello: work_pb2.Hello) -> work_pb2.WorkResponse:
    welcome = work_pb2.Welcome(session_id=hello.session_id, resumed=hello.resume_session)
    welcome.heartbeat_interval.FromMilliseconds(HEARTBEAT_MS)
    return work_pb2.WorkResponse(welcome=welcome)


def dispatch(intent_id: int, *, epoch: int = 1) -> work_pb2.Dispatch:
    """Work with a lease that lasts."""
    fence = key_pb2.Fence(key=f"intent:{intent_id}", action="act", epoch=epoch, holder="holder")
    sent = work_pb2.Dispatch(intent_id=intent_id, queue="reviews", attempt=1, fence=fence)
    sent.lease_time.FromSeconds(60)
    return sent


@asynccontextmanager
async def listening() -> AsyncIterator[ScriptedDispatcher]:
    """Serves while the block runs."""
    scripted = ScriptedDispatcher()
    server = aio.server()
    work_pb2_grpc.add_DispatchServiceServicer_to_server(scripted, server)
    scripted.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield scripted
    finally:
        await server.stop(None)
