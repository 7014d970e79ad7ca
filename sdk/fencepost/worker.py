"""A worker: takes dispatches, runs a handler for each, renews, settles, and stops in good order."""

import asyncio
import functools
import logging
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

import fencepost
from fencepost.channel import Channel, ChannelSettings, connect
from fencepost.dispatcher.v1 import work_pb2
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub
from fencepost.errors import (
    CheckpointStale,
    FencepostError,
    LeaseLost,
    PublicationBlocked,
    PublicationsHeld,
    ReconciliationRequired,
)
from fencepost.run import SPANS_A_FLUSH_MAX, LeaseClock, Run, Services
from fencepost.session import Handlers, Session
from fencepost.spans import SpanRecorder

CONCURRENCY = 10
DRAIN_S = 8.0
REASON_LENGTH_MAX = 2000
RESULT_LIMIT_BYTES = 65536

log = logging.getLogger("fencepost.worker")

Handler = Callable[[Run], Awaitable[bytes | None]]


class PermanentError(Exception):
    """Raised by a handler whose work must not be tried again."""


class DeterministicError(Exception):
    """Raised by a handler whose work will fail the same way again: at most one more try."""


class RetryLaterError(Exception):
    """Raised by a handler whose work may succeed later."""

    def __init__(self, reason: str, *, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


@dataclass
class _Running:
    """A dispatch in work."""

    dispatch: work_pb2.Dispatch
    lease: LeaseClock
    task: asyncio.Task[None]
    asked_at_s: float = 0.0
    cancelled: bool = False


class Worker:
    """Runs one handler on the dispatches of some queues, up to `concurrency` at once."""

    def __init__(
        self,
        *,
        dispatcher: str,
        queues: Sequence[str],
        publisher: str | None = None,
        api_key: str | None = None,
        service_name: str = "fencepost-worker",
        version: str = "",
        concurrency: int = CONCURRENCY,
        allow_plaintext: bool = False,
    ) -> None:
        self._channels = [
            connect(
                ChannelSettings(target=target, api_key=api_key, allow_plaintext=allow_plaintext)
            )
            for target in (dispatcher, publisher)
            if target
        ]
        self._queues = list(queues)
        self._service_name = service_name
        self._version = version or fencepost.__version__
        self._concurrency = concurrency
        self._handler: Handler | None = None
        self._running: dict[tuple[int, int], _Running] = {}
        self._renewals: dict[int, _Running] = {}
        self._next_renewal = 0
        self._stopping = asyncio.Event()

    @classmethod
    def from_environment(cls, *, queues: Sequence[str], **options: object) -> "Worker":
        """Addresses and key from FENCEPOST_DISPATCHER, FENCEPOST_PUBLISHER and FENCEPOST_API_KEY.

        FENCEPOST_API_KEY_FILE names a file instead. Raises KeyError where the dispatcher is not
        named.
        """
        environment = os.environ  # noqa: TID251 - a bot's configuration is its environment
        key = environment.get("FENCEPOST_API_KEY")
        if key_file := environment.get("FENCEPOST_API_KEY_FILE"):
            with open(key_file, encoding="utf-8") as opened:
                key = opened.read().strip()
        make = functools.partial(cls, **options)  # type: ignore[arg-type]  # checked by __init__
        return make(
            dispatcher=environment["FENCEPOST_DISPATCHER"],
            publisher=environment.get("FENCEPOST_PUBLISHER"),
            api_key=key,
            queues=queues,
        )

    def handle(self, handler: Handler) -> Handler:
        """Decorator: this coroutine function does the work; what it returns is the result."""
        self._handler = handler
        return handler

    def stop(self) -> None:
        """Begins to drain: no new dispatches, what runs may finish for a set time."""
        self._stopping.set()

    async def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop`; raises what the same key will meet again."""
        if self._handler is None:
            raise ValueError("the worker has no handler: decorate one with @worker.handle")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        session = self._session()
        serving = asyncio.create_task(session.run())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                await self._drain(session)
                session.close()
            await serving
        finally:
            stopping.cancel()
            serving.cancel()
            for channel in self._channels:
                await channel.close()

    def _session(self) -> Session:
        self._services = Services.over(
            self._channels[0], self._channels[1] if len(self._channels) > 1 else None
        )
        self._payloads = DispatchServiceStub(self._channels[0])
        self._held_by = Session(
            self._channels[0],
            queues=self._queues,
            version=self._version,
            labels={"service.name": self._service_name},
            handlers=Handlers(
                dispatched=self._begin,
                renewed=self._on_renewed,
                cancelled=self._on_cancel,
                free_slots=lambda: self._concurrency - len(self._running),
                renewals=self._due_renewals,
            ),
        )
        return self._held_by

    async def _drain(self, session: Session) -> None:
        session.drain()
        tasks = [running.task for running in self._running.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)

    def _begin(self, dispatch: work_pb2.Dispatch) -> None:
        identity = (dispatch.intent_id, dispatch.fence.epoch)
        if identity in self._running:
            return
        lease = LeaseClock(dispatch.lease_time.ToMilliseconds() / 1000)
        task = asyncio.create_task(self._work(dispatch, lease))
        self._running[identity] = _Running(dispatch, lease, task)
        task.add_done_callback(lambda _: self._ended(identity))

    def _ended(self, identity: tuple[int, int]) -> None:
        del self._running[identity]
        self._held_by.offer(1)

    def _due_renewals(self) -> list[work_pb2.Renew]:
        """Renewals of leases that have less than two thirds of their time left."""
        due: list[work_pb2.Renew] = []
        for running in self._running.values():
            lease_s = running.dispatch.lease_time.ToMilliseconds() / 1000
            if running.lease.remaining_s < lease_s * 2 / 3:
                self._next_renewal += 1
                self._renewals[self._next_renewal] = running
                running.asked_at_s = time.monotonic()
                due.append(
                    work_pb2.Renew(
                        item_id=self._next_renewal,
                        fence=running.dispatch.fence,
                        intent_id=running.dispatch.intent_id,
                    )
                )
        return due

    def _on_renewed(self, result: work_pb2.RenewResult) -> None:
        running = self._renewals.pop(result.item_id, None)
        if running is None:
            return
        if result.HasField("refusal"):
            running.lease.lose()
            running.task.cancel()
        else:
            lease_s = result.lease_time.ToMilliseconds() / 1000
            running.lease.renewed(asked_at_s=running.asked_at_s, lease_s=lease_s)

    def _on_cancel(self, cancel: work_pb2.Cancel) -> None:
        if running := self._running.get((cancel.intent_id, cancel.epoch)):
            running.cancelled = True
            running.lease.lose()
            running.task.cancel()

    async def _work(self, dispatch: work_pb2.Dispatch, lease: LeaseClock) -> None:
        recorder = SpanRecorder(dispatch.traceparent)
        settle = work_pb2.Settle(fence=dispatch.fence, intent_id=dispatch.intent_id)
        try:
            with recorder.span(
                f"run {dispatch.fence.action}",
                kind=OtlpSpan.SPAN_KIND_CONSUMER,
                attributes={
                    "fencepost.intent.id": dispatch.intent_id,
                    "fencepost.epoch": dispatch.fence.epoch,
                    "fencepost.attempt": dispatch.attempt,
                    "messaging.destination.name": dispatch.queue,
                },
            ):
                await self._outcome(dispatch, lease, recorder, settle)
        except (LeaseLost, CheckpointStale) as lost:
            log.warning("intent %d: %s", dispatch.intent_id, lost)
            return
        except asyncio.CancelledError:
            if lease.remaining_s == 0.0:
                return
            settle.release.reason = "the worker was stopped"
        settle.spans.extend(recorder.take(SPANS_A_FLUSH_MAX))
        try:
            await self._held_by.settle(settle)
        except FencepostError as refused:
            log.warning("intent %d: its outcome was refused: %s", dispatch.intent_id, refused)

    async def _outcome(
        self,
        dispatch: work_pb2.Dispatch,
        lease: LeaseClock,
        recorder: SpanRecorder,
        settle: work_pb2.Settle,
    ) -> None:
        """Runs the handler and fills in what became of it."""
        assert self._handler is not None
        try:
            run = Run(
                dispatch=dispatch,
                payload=await self._payload(dispatch),
                lease=lease,
                recorder=recorder,
                services=self._services,
            )
            await run.load()
            result = await self._handler(run) or b""
            settle.complete.checkpoint_version = await run.finish()
            settle.complete.result = result[:RESULT_LIMIT_BYTES]
        except (LeaseLost, CheckpointStale):
            raise
        except Exception as failure:
            log.exception("intent %d: its handler failed", dispatch.intent_id)
            settle.fail.CopyFrom(_failure(failure))

    async def _payload(self, dispatch: work_pb2.Dispatch) -> bytes:
        if not dispatch.payload_by_reference:
            return dispatch.payload
        request = work_pb2.FetchPayloadRequest(fence=dispatch.fence, intent_id=dispatch.intent_id)
        return (await self._payloads.FetchPayload(request)).payload


def _failure(failure: Exception) -> work_pb2.Fail:
    reason = _shown(failure)
    match failure:
        case PermanentError():
            return work_pb2.Fail(disposition=work_pb2.DISPOSITION_PERMANENT, reason=reason)
        case DeterministicError():
            return work_pb2.Fail(disposition=work_pb2.DISPOSITION_DETERMINISTIC, reason=reason)
        case ReconciliationRequired() | PublicationsHeld() | PublicationBlocked():
            return work_pb2.Fail(disposition=work_pb2.DISPOSITION_BLOCKED, reason=reason)
        case RetryLaterError(after_s=float() | int() as after_s):
            fail = work_pb2.Fail(disposition=work_pb2.DISPOSITION_TRANSIENT, reason=reason)
            fail.retry_after.FromMilliseconds(int(after_s * 1000))
            return fail
        case _:
            return work_pb2.Fail(disposition=work_pb2.DISPOSITION_TRANSIENT, reason=reason)


_SECRETS = re.compile(
    r"(?i)\bbearer\s+\S+|\bfp_[a-z0-9]+_\S+|\bgh[a-z]{1,2}_\w+|\bgithub_pat_\w+|\bglpat-\S+"
)


def _shown(failure: Exception) -> str:
    """Type and text of a failure for the dispatcher's record, tokens masked (K2), storable."""
    text = f"{type(failure).__name__}: {failure}".strip(": ")
    return _SECRETS.sub("[masked]", text).replace("\0", "\ufffd")[:REASON_LENGTH_MAX]


__all__ = [
    "Channel",
    "DeterministicError",
    "PermanentError",
    "RetryLaterError",
    "Worker",
]
