"""One worker's stream: frames in, frames out.

Three tasks live as long as the stream: one reads frames and answers them, one grants while there
is credit, one says Drain when the server winds down. What they produce goes through one bounded
queue, so a worker that does not read is not sent more.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence

import structlog
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    DatabaseUnavailable,
    FencepostError,
    FieldInvalid,
    Overloaded,
    ResourceNotFound,
)
from fencepost.validation import check
from opentelemetry import trace

from services.dispatcher.dispatch import wire_servicer as wire
from services.dispatcher.dispatch.grant_operations import Ask, Grant
from services.dispatcher.dispatch.operations import DispatchOperations
from services.dispatcher.dispatch.rules import in_frames
from services.dispatcher.dispatch.sessions_store import NewSession
from services.dispatcher.dispatch.settle_operations import Settlement
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.settings import DispatcherSettings
from shared import semantic
from shared.telemetry import context_from, traceparent_of

FRAMES_WAITING_MAX = 16

log = structlog.get_logger(__name__)

Outgoing = work_pb2.WorkResponse | BaseException | None


class WorkSession:
    """Serves one stream of one session; `draining` is set when the server winds down."""

    def __init__(
        self,
        session: NewSession,
        operations: DispatchOperations,
        wakeups: Wakeups,
        settings: DispatcherSettings,
        draining: asyncio.Event,
    ) -> None:
        self._session = session
        self._operations = operations
        self._wakeups = wakeups
        self._settings = settings
        self._draining = draining
        self._tracer = trace.get_tracer(__name__)
        self._credit = 0
        self._ending = False
        self._out: asyncio.Queue[Outgoing] = asyncio.Queue(FRAMES_WAITING_MAX)

    async def serve(
        self, frames: AsyncIterator[work_pb2.WorkRequest], *, resume: bool
    ) -> AsyncGenerator[work_pb2.WorkResponse, None]:
        """Welcome, then frames until the worker closes the stream or it is lost."""
        held = await self._operations.open_session(self._session, resume=resume)
        closed_by_worker = False
        try:
            yield self._welcome(resumed=resume)
            for frame in self._dispatch_frames(held):
                yield frame
            with self._wakeups.listening(self._session.queues) as heard:
                tasks = [
                    asyncio.create_task(self._watched(work))
                    for work in (self._read(frames), self._grant_on(heard), self._say_drain())
                ]
                try:
                    while (outgoing := await self._out.get()) is not None:
                        if isinstance(outgoing, BaseException):
                            raise outgoing
                        yield outgoing
                    closed_by_worker = True
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._operations.close_session(self._session, by_worker=closed_by_worker)

    def _welcome(self, *, resumed: bool) -> work_pb2.WorkResponse:
        return work_pb2.WorkResponse(
            welcome=work_pb2.Welcome(
                session_id=self._session.session_id,
                resumed=resumed,
                heartbeat_interval=wire.duration(self._settings.heartbeat_interval_ms),
                grace=wire.duration(self._settings.session_grace_ms),
            )
        )

    async def _watched(self, work: Coroutine[None, None, None]) -> None:
        """A task's failure ends the stream with it."""
        try:
            await work
        except Exception as failure:  # noqa: BLE001 - raised again by the stream itself
            await self._out.put(failure)

    async def _read(self, frames: AsyncIterator[work_pb2.WorkRequest]) -> None:
        async for frame in frames:
            await self._take(frame)
        await self._out.put(None)

    async def _take(self, frame: work_pb2.WorkRequest) -> None:
        if frame.HasField("hello"):
            raise FieldInvalid(violations=[("hello", "may stand only in the first frame")])
        if frame.HasField("end_drain"):
            self._ending = True
        if frame.HasField("heartbeat"):
            await self._heartbeat()
        if frame.settles:
            await self._settle(frame.settles)
        if frame.renewals:
            await self._renew(frame.renewals)
        if frame.HasField("credit"):
            self._add_credit(frame.credit)

    async def _heartbeat(self) -> None:
        try:
            known = await self._operations.heard(self._session, draining=self._ending)
        except DatabaseUnavailable as away:
            log.warning(
                "heartbeat_not_recorded", session_id=self._session.session_id, why=str(away)
            )
            return
        if known:
            await self._out.put(work_pb2.WorkResponse(heartbeat_ack=work_pb2.HeartbeatAck()))
        else:
            raise ResourceNotFound(kind="session of this replica", name=self._session.session_id)

    def _add_credit(self, credit: work_pb2.Credit) -> None:
        check(credit)
        self._credit = min(self._credit + credit.dispatches, self._settings.credit_max)
        self._wakeups.wake(self._session.queues)

    async def _settle(self, settles: Sequence[work_pb2.Settle]) -> None:
        """Answers each; one that is malformed is refused alone and touches nothing."""
        results: list[work_pb2.SettleResult] = []
        settlements: list[tuple[int, Settlement]] = []
        for settle in settles:
            try:
                check(settle)
                settlements.append((settle.item_id, wire.settlement(settle)))
            except FencepostError as refusal:
                results.append(wire.refused_settle(settle.item_id, refusal))
        if settlements:
            answers = await self._operations.settle(
                self._session.tenant, [command for _, command in settlements]
            )
            results += [
                wire.settle_result(item_id, answer)
                for (item_id, _), answer in zip(settlements, answers, strict=True)
            ]
            self._wakeups.wake_all()
        await self._out.put(work_pb2.WorkResponse(settle_results=results))

    async def _renew(self, renewals: Sequence[work_pb2.Renew]) -> None:
        """Answers each renewal, judged anew (L4)."""
        results: list[work_pb2.RenewResult] = []
        valid: list[work_pb2.Renew] = []
        for renewal in renewals:
            try:
                check(renewal)
                valid.append(renewal)
            except FencepostError as refusal:
                results.append(wire.refused_renewal(renewal.item_id, refusal))
        if valid:
            answers = await self._operations.renew(
                self._session.tenant,
                [wire.fence(renewal.fence, renewal.intent_id) for renewal in valid],
            )
            results += [
                wire.renew_result(renewal.item_id, answer)
                for renewal, answer in zip(valid, answers, strict=True)
            ]
        await self._out.put(work_pb2.WorkResponse(renew_results=results))

    async def _grant_on(self, heard: asyncio.Event) -> None:
        """Grants while there is credit; waits for a wake, at most one jittered poll."""
        lost_grant_id: str | None = None
        while True:
            granted = 0
            if self._may_grant():
                grant_id = lost_grant_id or str(uuid.uuid4())
                try:
                    grants = await self._grant(grant_id, again=lost_grant_id is not None)
                    lost_grant_id = None
                    granted = len(grants)
                    await self._send(grants)
                except (DatabaseUnavailable, Overloaded) as away:
                    lost_grant_id = grant_id
                    log.warning("grant_waits", session_id=self._session.session_id, why=str(away))
            if not granted:
                await self._wait(heard)

    def _may_grant(self) -> bool:
        return self._credit > 0 and not self._ending and not self._draining.is_set()

    async def _grant(self, grant_id: str, *, again: bool) -> list[Grant]:
        ask = Ask(
            tenant=self._session.tenant,
            holder=self._session.session_id,
            session_id=self._session.session_id,
            queues=self._session.queues,
            limit=min(self._credit, self._settings.grant_batch_max),
        )
        if again:
            return await self._operations.granted(ask, grant_id=grant_id)
        return await self._operations.grant(ask, grant_id=grant_id)

    async def _send(self, grants: Sequence[Grant]) -> None:
        self._credit -= len(grants)
        for frame in self._dispatch_frames(grants):
            await self._out.put(frame)

    def _dispatch_frames(self, grants: Sequence[Grant]) -> list[work_pb2.WorkResponse]:
        dispatches = [
            wire.dispatch(
                grant,
                holder=self._session.session_id,
                traceparent=self._traced(grant),
                lease_ms=self._settings.lease_ms,
            )
            for grant in grants
        ]
        frames = in_frames(
            dispatches,
            lambda dispatch: dispatch.ByteSize(),
            items_max=self._settings.frame_items_max,
            bytes_max=self._settings.frame_bytes_max,
        )
        return [work_pb2.WorkResponse(dispatches=frame) for frame in frames]

    def _traced(self, grant: Grant) -> str:
        """A span for the hand-over, in the trace that made the intent; the worker continues it."""
        span = self._tracer.start_span(
            semantic.INTENT_DISPATCH,
            context_from(grant.intent.traceparent),
            kind=trace.SpanKind.PRODUCER,
            attributes={
                semantic.MESSAGING_DESTINATION_NAME: grant.queue,
                semantic.INTENT_ID: grant.intent.intent_id,
                semantic.KEY: grant.key,
                semantic.ACTION: grant.action,
                semantic.EPOCH: grant.epoch,
                semantic.ATTEMPT: grant.attempt,
                semantic.SESSION_ID: self._session.session_id,
            },
        )
        span.end()
        return traceparent_of(span)

    async def _wait(self, heard: asyncio.Event) -> None:
        poll_s = self._settings.poll_interval_ms * random.uniform(0.8, 1.2) / 1000
        try:
            async with asyncio.timeout(poll_s):
                await heard.wait()
        except TimeoutError:
            return
        heard.clear()

    async def _say_drain(self) -> None:
        await self._draining.wait()
        within = wire.duration(self._settings.drain_grace_ms)
        await self._out.put(work_pb2.WorkResponse(drain=work_pb2.Drain(within=within)))
