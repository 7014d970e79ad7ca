"""One dispatch in work: its lease is kept, its handler runs, its outcome is reported.

The handler runs in a task of its own, so that losing the lease stops the handler and never the
report of an outcome that stands already.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    BodyTooLarge,
    FencepostError,
    FieldInvalid,
    Internal,
    LeaseLost,
    OutcomeConflict,
    Refusal,
)
from fencepost.failures import REASON_LENGTH_MAX, failed, masked, shown, storable
from fencepost.lease import LeaseClock
from fencepost.run import Run, Services
from fencepost.session import Session
from fencepost.spans import SpanRecorder

RESULT_LIMIT_BYTES: Final = 65536
RENEWALS_A_LEASE: Final = 3
STOPPED: Final = "the worker was stopped"

OF_THE_CODE: Final = (FieldInvalid, BodyTooLarge, Internal)
"""Refusals that the handler's code or ours brought about: where it did is what helps."""

Handler = Callable[[Run], Awaitable[bytes | None]]

log = logging.getLogger("fencepost.worker")


class Attempt:
    """From the dispatch to its recorded outcome; `task` ends when there is no more to do."""

    def __init__(
        self,
        dispatch: work_pb2.Dispatch,
        *,
        handler: Handler,
        services: Services,
        session: Session,
    ) -> None:
        self.dispatch = dispatch
        self.lease = LeaseClock(dispatch.fence, dispatch.lease_time.ToMilliseconds() / 1000)
        self._handler = handler
        self._session = session
        self._recorder = SpanRecorder(dispatch.traceparent)
        self._run = Run(dispatch, lease=self.lease, recorder=self._recorder, services=services)
        self._stopped = False
        self._lost = False
        self._handling = asyncio.create_task(self._handle())
        self._keeping = asyncio.create_task(self._keep_lease())
        self.task = asyncio.create_task(self._live())

    @property
    def identity(self) -> tuple[int, int]:
        """Intent and epoch: what a dispatch that is sent again is known by."""
        return self.dispatch.intent_id, self.dispatch.fence.epoch

    @property
    def renewal(self) -> work_pb2.Renew | None:
        """What asks for more time; None once there is nothing to ask for."""
        if self._handling.done() or self.lease.remaining_s == 0.0:
            return None
        return work_pb2.Renew(fence=self.dispatch.fence, intent_id=self.dispatch.intent_id)

    def renewed(self, *, asked_at_s: float, lease_s: float) -> None:
        """The dispatcher gave more time."""
        self.lease.renewed(asked_at_s=asked_at_s, lease_s=lease_s)

    def lose(self, why: str) -> None:
        """The lease is another's, or may be: the handler stops, nothing more is written (L4)."""
        self.lease.lose()
        if not self._handling.done() and not self._lost:
            self._lost = True
            log.warning("intent %d: its handler is stopped: %s", self.dispatch.intent_id, why)
            self._handling.cancel()

    def stop(self) -> None:
        """The worker goes away: the handler stops, and the work is given back."""
        if not self._handling.done():
            self._stopped = True
            self._handling.cancel()

    async def abandon(self) -> None:
        """Ends everything, whatever it was about to say."""
        tasks = (self._handling, self._keeping, self.task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_lease(self) -> None:
        """Asks for renewals in time, and ends the handler when none was answered in time."""
        while remaining_s := self.lease.remaining_s:
            await asyncio.sleep(min(remaining_s, self.lease.lease_s / RENEWALS_A_LEASE))
            self._session.renew(self)
        self.lose("its lease is lost, or no renewal was answered in time")

    async def _live(self) -> None:
        try:
            await asyncio.wait({self._handling})
            self._keeping.cancel()
            if (settle := self._outcome()) is not None:
                settle.spans.extend(self._run.last_spans())
                self._tell_drops()
                await self._report(settle)
        finally:
            self._keeping.cancel()
            self._handling.cancel()

    async def _handle(self) -> work_pb2.Settle:
        settle = self._settle()
        fence = self.dispatch.fence
        with self._recorder.span(
            f"run {fence.action}",
            kind=OtlpSpan.SPAN_KIND_CONSUMER,
            attributes={
                "fencepost.key": fence.key,
                "fencepost.action": fence.action,
                "fencepost.epoch": fence.epoch,
                "fencepost.intent.id": self.dispatch.intent_id,
                "fencepost.attempt": self.dispatch.attempt,
                "messaging.destination.name": self.dispatch.queue,
            },
        ) as span:
            try:
                self._run.must_hold()
                await self._run.begin()
                result = _checked_result(await self._handler(self._run))
                settle.complete.checkpoint_version = await self._run.finish()
                settle.complete.result = result
            except Exception as failure:  # noqa: BLE001 - each becomes an outcome
                span.failure = type(failure).__name__
                self._tell(failure)
                settle.fail.CopyFrom(failed(failure))
        return settle

    def _tell(self, failure: Exception) -> None:
        if isinstance(failure, LeaseLost):
            log.warning("intent %d: %s", self.dispatch.intent_id, failure)
        elif isinstance(failure, Refusal) and not isinstance(failure, OF_THE_CODE):
            text = storable(masked(str(failure)))
            log.error("intent %d: its handler was refused: %s", self.dispatch.intent_id, text)
        else:
            text = storable(masked("".join(traceback.format_exception(failure))))
            log.error("intent %d: its handler failed\n%s", self.dispatch.intent_id, text)

    def _tell_drops(self) -> None:
        if dropped := self._recorder.dropped:
            log.warning("intent %d: %d of its spans were dropped", self.identity[0], dropped)

    def _settle(self) -> work_pb2.Settle:
        return work_pb2.Settle(fence=self.dispatch.fence, intent_id=self.dispatch.intent_id)

    def _outcome(self) -> work_pb2.Settle | None:
        """What is reported; None when the lease is lost, and another decides."""
        settle = None if self._handling.cancelled() else self._handling.result()
        if settle is not None and settle.HasField("complete"):
            return settle
        if self.lease.remaining_s == 0.0:
            return None
        if self._stopped:
            settle = self._settle()
            settle.release.reason = STOPPED
        elif settle is None:
            settle = self._settle()
            settle.fail.CopyFrom(failed(asyncio.CancelledError("the handler cancelled itself")))
        return settle

    async def _report(self, settle: work_pb2.Settle) -> None:
        """Reports the outcome: as it is, else without spans, else as a failure that says why."""
        try:
            await self._session.settle(settle)
        except (LeaseLost, OutcomeConflict) as late:
            log.warning("intent %d: its outcome comes too late: %s", settle.intent_id, late)
        except FencepostError as refused:
            log.error("intent %d: its outcome was refused: %s", settle.intent_id, refused)
            if settle.spans:
                del settle.spans[:]
                await self._report(settle)
            elif not settle.HasField("fail"):
                await self._report(self._refused(refused))

    def _refused(self, refused: FencepostError) -> work_pb2.Settle:
        settle = self._settle()
        settle.fail.disposition = work_pb2.DISPOSITION_TRANSIENT
        settle.fail.reason = f"its outcome was refused: {shown(refused)}"[:REASON_LENGTH_MAX]
        return settle


def _checked_result(result: object) -> bytes:
    match result:
        case None:
            return b""
        case bytes() if len(result) <= RESULT_LIMIT_BYTES:
            return result
        case bytes():
            raise ValueError(f"the handler's result is over {RESULT_LIMIT_BYTES} bytes")
        case _:
            raise TypeError(f"the handler returned {type(result).__name__}, not bytes or None")
