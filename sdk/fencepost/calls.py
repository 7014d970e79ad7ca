"""What each call of a channel does beside sending: validate, carry metadata, restore errors.

These wrap grpc.aio's own call objects instead of being interceptors: an interceptor costs a task
and several awaits a call, a wrapper costs one method call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc import StatusCode, aio
from opentelemetry import trace

from fencepost.errors import FencepostError, FieldInvalid
from fencepost.metadata import TRACEPARENT, TRACESTATE
from fencepost.status import from_rpc_error
from fencepost.validation import check

Request = TypeVar("Request")
Response = TypeVar("Response")
CallT = TypeVar("CallT", bound=aio.Call)
Metadata = aio.Metadata | Sequence[tuple[str, str | bytes]]
Pairs = tuple[tuple[str, str | bytes], ...]


def call_metadata(own: Pairs, given: Metadata | None) -> Pairs:
    """The channel's metadata, the current trace context, and last what the caller gave."""
    pairs = own + trace_context()
    return (*pairs, *given) if given else pairs


def trace_context() -> Pairs:
    """W3C trace context of the current span; nothing when there is none."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    if not context.trace_state:
        return ((TRACEPARENT, parent),)
    return ((TRACEPARENT, parent), (TRACESTATE, context.trace_state.to_header()))


class BaseCall(Generic[CallT], aio.Call):
    """The parts that all calls have."""

    def __init__(self, inner: CallT) -> None:
        self._inner = inner

    def cancelled(self) -> bool:
        return self._inner.cancelled()

    def done(self) -> bool:
        return self._inner.done()

    def time_remaining(self) -> float | None:
        return self._inner.time_remaining()

    def cancel(self) -> bool:
        return self._inner.cancel()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._inner.add_done_callback(callback)

    async def initial_metadata(self) -> aio.Metadata:
        return await self._inner.initial_metadata()

    async def trailing_metadata(self) -> aio.Metadata:
        return await self._inner.trailing_metadata()

    async def code(self) -> grpc.StatusCode:
        return await self._inner.code()

    async def details(self) -> str:
        return await self._inner.details()

    async def wait_for_connection(self) -> None:
        try:
            await self._inner.wait_for_connection()
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from error


class UnaryCall(
    BaseCall[aio.UnaryUnaryCall[Request, Response]], aio.UnaryUnaryCall[Request, Response]
):
    """One answer, or the error that the server raised."""

    def __await__(self) -> Generator[Any, None, Response]:
        try:
            return (yield from self._inner.__await__())
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from error


# grpc.aio says so when the server ended the stream just then, and forgets with what.
ENDED_WHILE_WRITING = "Internal error from Core"
OPEN_AGAIN = "The stream ended while a frame was written: open it again, or read, to hear why."


class SessionCall(
    BaseCall[aio.StreamStreamCall[Request, Response]], aio.StreamStreamCall[Request, Response]
):
    """Frames both ways; a frame that breaks a rule is not sent, and ends an iterated session."""

    def __init__(
        self, inner: aio.StreamStreamCall[Request, Response], refused: list[FieldInvalid]
    ) -> None:
        super().__init__(inner)
        self.refused = refused

    async def __aiter__(self) -> AsyncIterator[Response]:
        while (response := await self.read()) is not aio.EOF:
            yield cast(Response, response)

    async def read(self) -> Response | object:
        try:
            return await self._inner.read()
        except asyncio.CancelledError:
            # grpc.aio cancels the call when its request iterator raises, and forgets why.
            if self.refused:
                raise self.refused[0] from None
            raise
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from error

    async def write(self, request: Request) -> None:
        check(cast(Message, request))
        try:
            await self._inner.write(request)
        except aio.AioRpcError as error:
            if error.details() == ENDED_WHILE_WRITING:
                raise FencepostError(OPEN_AGAIN, code=StatusCode.UNAVAILABLE) from error
            raise from_rpc_error(error) from error

    async def done_writing(self) -> None:
        await self._inner.done_writing()


async def checked(
    requests: AsyncIterator[Request] | Iterator[Request], refused: list[FieldInvalid]
) -> AsyncIterator[Request]:
    """The requests up to the first that breaks a rule, whose error is put into `refused`."""
    try:
        async for request in _as_async(requests):
            check(cast(Message, request))
            yield request
    except FieldInvalid as error:
        refused.append(error)
        raise


async def _as_async(
    requests: AsyncIterator[Request] | Iterator[Request],
) -> AsyncIterator[Request]:
    if isinstance(requests, AsyncIterator):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request
