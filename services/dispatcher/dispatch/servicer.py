"""DispatchService: work sessions, payloads by reference, wakes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from fencepost.dispatcher.v1 import work_pb2, work_pb2_grpc
from fencepost.errors import FieldInvalid
from grpc.aio import ServicerContext

from services.dispatcher.dispatch import wire_servicer as wire
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.session_servicer import WorkSession
from services.dispatcher.dispatch.sessions_store import NewSession
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.settings import DispatcherSettings
from shared.rpc.caller import current_caller


class DispatchServicer(work_pb2_grpc.DispatchServiceServicer):
    """Translates between the wire and the operations."""

    def __init__(
        self,
        operations: DispatchOperations,
        wakeups: Wakeups,
        settings: DispatcherSettings,
        draining: asyncio.Event,
    ) -> None:
        self._operations = operations
        self._wakeups = wakeups
        self._settings = settings
        self._draining = draining

    async def Work(  # noqa: N802 - named by the contract
        self,
        request_iterator: AsyncIterator[work_pb2.WorkRequest],
        context: ServicerContext[work_pb2.WorkRequest, work_pb2.WorkResponse],  # noqa: ARG002
    ) -> AsyncIterator[work_pb2.WorkResponse]:
        """A worker's session."""
        first = await anext(request_iterator, None)
        if first is None or not first.HasField("hello"):
            raise FieldInvalid(violations=[("hello", "the first frame must be Hello")])
        session = self._new_session(first.hello)
        serving = WorkSession(
            session, self._operations, self._wakeups, self._settings, self._draining
        )
        frames = serving.serve(request_iterator, resume=first.hello.resume_session)
        async with aclosing(frames):
            async for frame in frames:
                yield frame

    def _new_session(self, hello: work_pb2.Hello) -> NewSession:
        caller = current_caller()
        return NewSession(
            session_id=hello.session_id,
            tenant=caller.require_tenant(),
            key_id=caller.key_id,
            queues=tuple(dict.fromkeys(hello.queues)),
            version=hello.version,
            labels=dict(hello.labels),
            replica=self._settings.instance,
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
        self._wakeups.wake(request.queues)
        return work_pb2.WakeResponse()
