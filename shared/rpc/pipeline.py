"""What stands between the socket and a servicer's method, the same for every RPC.

In order: span and figures, admission, deadline, key and scope, room for the request and its rules,
the method; and on the way back the one place where an error becomes a status. The handlers are
wrapped once, when the server is built, instead of by grpc interceptors: those cost a chain of
coroutines a call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from fencepost.errors import DeadlineTooShort, FieldInvalid
from fencepost.validation import check
from google.protobuf.message import Message
from grpc import aio

from shared.rpc.authentication import Authenticator
from shared.rpc.caller import ANY, set_current_caller
from shared.rpc.methods import Method, Streaming, Unary
from shared.rpc.open_calls import OpenCall, OpenCalls
from shared.rpc.outcomes import OK, Outcome, cancelled, outcome_of, tell
from shared.rpc.recording import Recorder
from shared.rpc.request_room import Held, RequestRoom
from shared.rpc.server_span import SpanFactory

Input = TypeVar("Input", bytes, AsyncIterator[bytes])
Output = TypeVar("Output", bytes, None)
Context = aio.ServicerContext[bytes, bytes]
Metadata = dict[str, str | bytes]

LOSS_BLUR_S = 0.02
DEADLINE_MS_MIN = 5
"""A call with less time left is refused before it begins."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What all calls of a server share."""

    calls: OpenCalls
    room: RequestRoom
    authenticator: Authenticator
    spans: SpanFactory | None
    """None when nothing is exported: calls then cost no span."""

    default_deadline_ms: int
    may_serve: Callable[[], None]
    """Raises what refuses every call but those that any key may make."""

    def handler(self, method: Method) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """The method with everything around it, from bytes to bytes."""
        if method.unary is not None:
            unary = _Unary(self, method, method.unary)
            return grpc.stream_unary_rpc_method_handler(unary.serve)
        assert method.streaming is not None
        session = _Session(self, method, method.streaming)
        return grpc.stream_stream_rpc_method_handler(session.serve)


class _Rpc:
    """One RPC of the server: the frame around each of its calls."""

    def __init__(self, shared: Pipeline, method: Method, *, streaming: bool) -> None:
        self._shared = shared
        self._method = method
        self._streaming = streaming
        self._recorder = Recorder(shared.spans, method.name)

    async def _framed(
        self,
        answer: Callable[[Input, Context, Metadata, OpenCall], Coroutine[Any, Any, Output]],
        request: Input,
        context: Context,
    ) -> Output:
        metadata: Metadata = dict(context.invocation_metadata() or ())
        recording = self._recorder.begin(metadata)
        outcome, call = OK, None
        try:
            try:
                call = self._shared.calls.begin(streaming=self._streaming)
                return await answer(request, context, metadata, call)
            except aio.AbortError:
                # Nothing of ours aborts; a foreign servicer may.
                outcome = Outcome(context.code())
                raise
            except asyncio.CancelledError as error:
                outcome = _why_cancelled(error, call, context)
                if outcome.error is None:
                    raise
            except Exception as error:  # noqa: BLE001  (here every error becomes a status)
                outcome = outcome_of(error)
            await tell(context, outcome)
        finally:
            if call is not None:
                self._shared.calls.finish(call)
            self._recorder.end(recording, outcome)

    async def _admit(self, context: Context, metadata: Metadata, call: OpenCall) -> None:
        """Deadline, key and scope; raises what refuses the call."""
        remaining_s: float | None = context.time_remaining()
        if remaining_s is not None and remaining_s * 1000 < DEADLINE_MS_MIN:
            raise DeadlineTooShort
        caller = await self._shared.authenticator.caller(metadata)
        caller.require_scope(self._method.scope)
        if self._method.scope != ANY:
            self._shared.may_serve()
        call.key_id = caller.key_id
        set_current_caller(caller)

    def _valid(self, raw: bytes) -> Message:
        """The request, whole and keeping its rules; raises FieldInvalid naming what is not (X4)."""
        request = self._method.decode(raw)
        check(request)
        return request


class _Unary(_Rpc):
    """One request, one answer; to gRPC a stream, whose message is read when there is room."""

    def __init__(self, shared: Pipeline, method: Method, handler: Unary) -> None:
        super().__init__(shared, method, streaming=False)
        self._handler = handler
        self._default_deadline_s = shared.default_deadline_ms / 1000

    async def serve(self, frames: AsyncIterator[bytes], context: Context) -> bytes:
        return await self._framed(self._answer, frames, context)

    async def _answer(
        self, _frames: AsyncIterator[bytes], context: Context, metadata: Metadata, call: OpenCall
    ) -> bytes:
        await self._admit(context, metadata, call)
        held = await self._shared.room.enter()
        try:
            response = await self._response(held, context)
        finally:
            held.shrink(0)
        return response.SerializeToString()

    async def _response(self, held: Held, context: Context) -> Message:
        # A deadline that the caller set is kept by gRPC, which cancels this task.
        remaining_s: float | None = context.time_remaining()
        if remaining_s is None:
            return await self._within_default_deadline(self._served(held, context))
        if remaining_s <= self._default_deadline_s:
            return await self._served(held, context)
        # Who has long, and stalls while he sends, would hold his room as long.
        request = await self._within_default_deadline(self._read(held, context))
        return await self._handler(request, context)

    async def _served(self, held: Held, context: Context) -> Message:
        return await self._handler(await self._read(held, context), context)

    async def _read(self, held: Held, context: Context) -> Message:
        raw: object = await context.read()
        if not isinstance(raw, bytes):
            raise FieldInvalid(violations=[("request", "must be sent")])
        held.shrink(len(raw))
        return self._valid(raw)

    async def _within_default_deadline(self, work: Coroutine[Any, Any, Message]) -> Message:
        deadline = asyncio.timeout(self._default_deadline_s)
        try:
            async with deadline:
                return await work
        except TimeoutError as error:
            if deadline.expired():
                raise DeadlineTooShort from error
            raise


class _Session(_Rpc):
    """Frames both ways, for as long as both sides want: without a deadline of ours."""

    def __init__(self, shared: Pipeline, method: Method, handler: Streaming) -> None:
        super().__init__(shared, method, streaming=True)
        self._handler = handler

    async def serve(self, frames: AsyncIterator[bytes], context: Context) -> None:
        await self._framed(self._answer, frames, context)

    async def _answer(
        self, frames: AsyncIterator[bytes], context: Context, metadata: Metadata, call: OpenCall
    ) -> None:
        await self._admit(context, metadata, call)
        async with aclosing(self._handler(self._received(frames), context)) as responses:
            async for response in responses:
                await context.write(response.SerializeToString())

    async def _received(self, frames: AsyncIterator[bytes]) -> AsyncIterator[Message]:
        async for raw in frames:
            yield self._valid(raw)
        # gRPC lets the frames of a lost caller end as if it had closed the stream, and cancels the
        # call a moment later: wait for that, so that an end of the frames means what it says.
        await asyncio.sleep(LOSS_BLUR_S)


def _why_cancelled(
    error: asyncio.CancelledError, call: OpenCall | None, context: Context
) -> Outcome:
    task = asyncio.current_task()
    assert task is not None, "grpc serves each call in a task"
    if call is not None and call.error is not None and task.uncancel() == 0:
        return Outcome(call.error.code, call.error)
    if task.cancelling() == 0:
        # Nobody cancelled the call: the method let a cancellation of its own escape.
        return outcome_of(error)
    return cancelled(context)
