"""DispatchService: work sessions, payloads by reference, wakes."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing

from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FieldInvalid
from grpc.aio import ServicerContext
from opentelemetry.trace import Tracer

from services.dispatcher.dispatch import wire_servicer as wire
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.session_servicer import WorkSession
from services.dispatcher.dispatch.sessions_store import NewSession
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.settings import DispatcherSettings
from shared.rpc.caller import current_caller

STREAM_MARK_BYTES = 8


class DispatchServicer(work_pb2_grpc.DispatchServiceServicer):
    """Translates between the wire and the operations."""

    def __init__(
        self,
        operations: DispatchOperations,
        wakeups: Wakeups,
        settings: DispatcherSettings,
        draining: asyncio.Event,
        tracer: Tracer,
    ) -> None:
        self._operations = operations
        self._wakeups = wakeups
        self._settings = settings
        self._draining = draining
        self._tracer = tracer

    async def Work(  # noqa: N802 - named by the contract
        self,
        request_iterator: AsyncIterator[work_pb2.WorkRequest],
        context: ServicerContext[work_pb2.WorkRequest, work_pb2.WorkResponse],  # noqa: ARG002
    ) -> AsyncIterator[work_pb2.WorkResponse]:
        """A worker's session."""
        hello = await self._hello(request_iterator)
        serving = self._serving(self._new_session(hello))
        async with aclosing(serving.serve(request_iterator, resume=hello.resume_session)) as frames:
            async for frame in frames:
                yield frame

    async def _hello(self, frames: AsyncIterator[work_pb2.WorkRequest]) -> work_pb2.Hello:
        """What the first frame says; raises FieldInvalid unless it is a Hello, alone, in time."""
        try:
            async with asyncio.timeout(self._settings.session_grace_ms / 1000):
                first = await anext(frames, None)
        except TimeoutError:
            first = None
        if first is None or first != work_pb2.WorkRequest(hello=first.hello):
            sentence = "must be the whole first frame, within the grace of a session"
            raise FieldInvalid(violations=[("hello", sentence)])
        return first.hello

    def _serving(self, session: NewSession) -> WorkSession:
        return WorkSession(
            session,
            self._operations,
            self._wakeups,
            self._settings,
            self._draining,
            self._tracer,
        )

    def _new_session(self, hello: work_pb2.Hello) -> NewSession:
        caller = current_caller()
        return NewSession(
            session_id=hello.session_id,
            tenant=caller.require_tenant(),
            key_id=caller.key_id,
            queues=tuple(dict.fromkeys(hello.queues)),
            version=hello.version,
            labels=dict(hello.labels),
            place=f"{self._settings.instance}/{secrets.token_hex(STREAM_MARK_BYTES)}",
        )

    async def FetchPayload(  # noqa: N802 - named by the contract
        self,
        request: work_pb2.FetchPayloadRequest,
        context: ServicerContext[work_pb2.FetchPayloadRequest, work_pb2.FetchPayloadResponse],  # noqa: ARG002
    ) -> work_pb2.FetchPayloadResponse:
        """Bytes of a payload that a dispatch carried by reference."""
        payload = await self._operations.fetch_payload(
            current_caller().require_tenant(), wire.fence(request.fence, request.intent_id)
        )
        return work_pb2.FetchPayloadResponse(payload=payload)

    async def Wake(  # noqa: N802 - named by the contract
        self,
        request: work_pb2.WakeRequest,
        context: ServicerContext[work_pb2.WakeRequest, work_pb2.WakeResponse],  # noqa: ARG002
    ) -> work_pb2.WakeResponse:
        """Tells the sessions of this replica that work waits."""
        self._wakeups.wake_queues(request.queues)
        return work_pb2.WakeResponse()
