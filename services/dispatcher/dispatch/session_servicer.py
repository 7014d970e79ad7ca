"""One worker's stream: frames in, frames out.

Three tasks live as long as the stream: one reads frames and answers them, one grants while there
is credit, one says Drain when the server winds down. What they produce goes through one bounded
queue, so a worker that does not read is not sent more.
"""

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import TypeVar

import structlog
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    FencepostError,
    FieldInvalid,
    Overloaded,
)
from fencepost.validation import check
from google.protobuf.message import Message
from opentelemetry.trace import SpanKind, Tracer

from services.dispatcher.dispatch import wire_servicer as wire
from services.dispatcher.dispatch.grant_operations import Ask, Grant
from services.dispatcher.dispatch.operations import DispatchOperations, stream_of
from services.dispatcher.dispatch.rules import in_frames
from services.dispatcher.dispatch.sessions_store import NewSession
from services.dispatcher.dispatch.settle_operations import Settlement
from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.settings import DispatcherSettings
from shared import semantic
from shared.telemetry import context_from, traceparent_of

FRAMES_WAITING_MAX = 16
LOOK_ANYWAY_MS = 30_000
ITEM_OVERHEAD_BYTES = 6
TOO_LARGE = "A frame is over the limit of {} bytes and nothing of it was done: send it in several."

log = structlog.get_logger(__name__)

Item = TypeVar("Item", bound=Message)
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
        tracer: Tracer,
    ) -> None:
        self._session = session
        self._stream = stream_of(session)
        self._operations = operations
        self._wakeups = wakeups
        self._settings = settings
        self._draining = draining
        self._tracer = tracer
        self._credit = 0
        self._ending = False
        self._lost_grant_id = ""
        self._grants_wait = False
        self._heartbeats_lost = False
        self._heard = asyncio.Event()
        self._out: asyncio.Queue[Outgoing] = asyncio.Queue(FRAMES_WAITING_MAX)

    async def serve(
        self, frames: AsyncIterator[work_pb2.WorkRequest], *, resume: bool
    ) -> AsyncGenerator[work_pb2.WorkResponse, None]:
        """Welcome, then frames until the stream ends; one that ends without EndDrain is lost."""
        held = await self._operations.open_session(self._session, resume=resume)
        closed_by_worker = False
        try:
            yield self._welcome(resumed=resume)
            for frame in self._dispatch_frames(held):
                yield frame
            async with aclosing(self._exchange(frames)) as outgoing:
                async for frame in outgoing:
                    yield frame
            closed_by_worker = self._ending
        finally:
            await self._close(by_worker=closed_by_worker)

    async def _exchange(
        self, frames: AsyncIterator[work_pb2.WorkRequest]
    ) -> AsyncGenerator[work_pb2.WorkResponse, None]:
        """What the three tasks produce, until the worker closes or one of them fails."""
        with self._wakeups.listening(self._session.tenant, self._session.queues, self._heard):
            tasks = [
                asyncio.create_task(self._watched(work))
                for work in (self._read(frames), self._grant_on(), self._say_drain())
            ]
            try:
                while (outgoing := await self._out.get()) is not None:
                    if isinstance(outgoing, BaseException):
                        raise outgoing
                    yield outgoing
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _close(self, *, by_worker: bool) -> None:
        close = self._operations.end_session if by_worker else self._operations.detach_session
        try:
            await close(self._stream)
        except FencepostError as refused:
            # What ended the stream is what the worker is told; the session's leases run out.
            log.warning(
                "the end of a stream was not recorded",
                session_id=self._session.session_id,
                why=str(refused),
            )

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
        limit_bytes = self._settings.frame_limit_bytes
        if frame.ByteSize() > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes, message=TOO_LARGE.format(limit_bytes))
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
            self._credit = min(self._credit + frame.credit.dispatches, self._settings.credit_max)
            self._heard.set()

    async def _heartbeat(self) -> None:
        try:
            await self._operations.heard(self._stream, draining=self._ending)
        except (DatabaseUnavailable, Overloaded) as away:
            if not self._heartbeats_lost:
                session_id = self._session.session_id
                log.warning("heartbeats are not recorded", session_id=session_id, why=str(away))
            self._heartbeats_lost = True
            return
        self._heartbeats_lost = False
        await self._out.put(work_pb2.WorkResponse(heartbeat_ack=work_pb2.HeartbeatAck()))

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
        for frame in self._frames(results):
            await self._out.put(work_pb2.WorkResponse(settle_results=frame))

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
        for frame in self._frames(results):
            await self._out.put(work_pb2.WorkResponse(renew_results=frame))

    async def _grant_on(self) -> None:
        """Grants while there is credit, then waits to be woken."""
        while True:
            grants = await self._grant_if_possible() if self._may_grant() else []
            self._credit -= len(grants)
            for frame in self._dispatch_frames(grants):
                await self._out.put(frame)
            if not grants:
                await self._wait()

    def _may_grant(self) -> bool:
        return self._credit > 0 and not self._ending and not self._draining.is_set()

    async def _grant_if_possible(self) -> list[Grant]:
        """Nothing while the database is away, which is told once; the next poll tries again."""
        try:
            grants = await self._grant()
        except (DatabaseUnavailable, Overloaded) as away:
            if not self._grants_wait:
                log.warning(
                    "grants wait for the database",
                    session_id=self._session.session_id,
                    why=str(away),
                )
            self._grants_wait = True
            return []
        self._grants_wait = False
        return grants

    async def _grant(self) -> list[Grant]:
        """What the last grant did, if nobody knows yet (X6); else what is there to grant."""
        if self._lost_grant_id:
            found = await self._operations.granted(self._stream, grant_id=self._lost_grant_id)
            self._lost_grant_id = ""
            if found:
                return found
        grant_id = str(uuid.uuid4())
        ask = Ask(
            stream=self._stream,
            queues=self._session.queues,
            limit=min(self._credit, self._settings.grant_batch_max),
        )
        try:
            return await self._operations.grant(ask, grant_id=grant_id)
        except DatabaseUnavailable as away:
            if away.outcome_unknown:
                self._lost_grant_id = grant_id
            raise

    def _dispatch_frames(self, grants: Sequence[Grant]) -> list[work_pb2.WorkResponse]:
        dispatches = [
            wire.dispatch(grant, holder=self._session.session_id, traceparent=self._traced(grant))
            for grant in grants
        ]
        return [work_pb2.WorkResponse(dispatches=frame) for frame in self._frames(dispatches)]

    def _frames(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        return in_frames(
            items,
            _size_bytes,
            items_max=self._settings.frame_items_max,
            bytes_max=self._settings.frame_bytes_max,
        )

    def _traced(self, grant: Grant) -> str:
        """A span for the hand-over, in the trace that made the intent; the worker continues it."""
        span = self._tracer.start_span(
            semantic.INTENT_DISPATCH,
            context_from(grant.intent.traceparent),
            kind=SpanKind.PRODUCER,
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

    async def _wait(self) -> None:
        """The process's own look wakes whoever has work; who owes an answer asks by itself."""
        owes = self._grants_wait or self._lost_grant_id
        wait_ms = self._settings.poll_interval_ms if owes else LOOK_ANYWAY_MS
        try:
            async with asyncio.timeout(wait_ms * random.uniform(0.8, 1.2) / 1000):
                await self._heard.wait()
        except TimeoutError:
            return
        self._heard.clear()

    async def _say_drain(self) -> None:
        await self._draining.wait()
        within = wire.duration(self._settings.drain_grace_ms)
        await self._out.put(work_pb2.WorkResponse(drain=work_pb2.Drain(within=within)))


def _size_bytes(item: Message) -> int:
    """What an item adds to its frame: itself, its tag and its length."""
    return item.ByteSize() + ITEM_OVERHEAD_BYTES
