"""A worker's session with the dispatcher: one stream at a time, taken up again when it is lost.

What must not be lost with a stream is kept until it is answered: outcomes are sent again after a
resumption, one frame of them at a time. The rest (credit, renewals, heartbeats) is made anew.
"""

import asyncio
import itertools
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import grpc
from grpc import aio

from fencepost.channel import Channel
from fencepost.dispatcher.v1 import work_pb2
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub
from fencepost.errors import (
    FencepostError,
    FieldInvalid,
    Internal,
    KeyRevoked,
    KeyUnknown,
    RequestIdReused,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.outbox import ITEMS_A_FRAME, Outbox, one_frame
from fencepost.status import from_status
from fencepost.validation import check, violations

RECONNECT_PAUSE_S: Final = 0.2
RECONNECT_PAUSE_S_MAX: Final = 4.0
REPEAT_PAUSE_S: Final = 1.0
FAULTS_MAX: Final = 2
LOSSES_TOLD_APART_S: Final = 60.0

log = logging.getLogger("fencepost.worker")

HOPELESS: Final = (KeyUnknown, KeyRevoked, ScopeMissing, FieldInvalid)
"""Refusals that the same key and the same Hello will meet again."""


class Held(Protocol):
    """A dispatch whose lease the session renews."""

    @property
    def renewal(self) -> work_pb2.Renew | None:
        """What asks for more time; None once there is nothing to ask for."""

    def renewed(self, *, asked_at_s: float, lease_s: float) -> None:
        """More time was given, counted from when it was asked for."""

    def lose(self, why: str) -> None:
        """More time was refused."""


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What a worker does with what the session brings."""

    dispatched: Callable[[work_pb2.Dispatch], None]
    cancelled: Callable[[work_pb2.Cancel], None]
    free_slots: Callable[[], int]
    held: Callable[[], Iterable[Held]]


@dataclass(eq=False)
class _Unanswered:
    """An outcome that the dispatcher has not answered yet."""

    settle: work_pb2.Settle
    answer: asyncio.Future[work_pb2.SettleResult]
    faults: int = 0


@dataclass(eq=False)
class _Stream:
    """What is true of one stream only.

    `credit` is what the dispatcher may still use of what it was given. On a resumed stream it
    first sends everything that the session holds, outside of the credit: `synced` says that all
    of it has come.
    """

    outbox: Outbox
    welcomed: bool = False
    synced: bool = False
    credit: int = 0
    settling: dict[int, _Unanswered] = field(default_factory=dict)
    renewing: dict[int, tuple[Held, float]] = field(default_factory=dict)
    asked: set[Held] = field(default_factory=set)
    beat: asyncio.TimerHandle | None = None


class Session:
    """Holds the stream; `run` returns after `close`, or raises what is hopeless."""

    def __init__(
        self,
        channel: Channel,
        *,
        queues: Sequence[str],
        version: str,
        labels: Mapping[str, str],
        handlers: Handlers,
    ) -> None:
        self.session_id = str(uuid.uuid4())
        self._stub = DispatchServiceStub(channel)
        self._queues = list(queues)
        self._version = version
        self._labels = dict(labels)
        self._handlers = handlers
        self._stream: _Stream | None = None
        self._unanswered: dict[int, _Unanswered] = {}
        self._item_ids = itertools.count(1)
        self._outcomes_a_frame = ITEMS_A_FRAME
        self._known_to_server = False
        self._lost_told_s: float | None = None
        self._draining = False
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """Keeps a stream until `close`; a lost one is resumed under the same id."""
        pause_s = RECONNECT_PAUSE_S
        while not self._closing.is_set():
            stream = self._stream = _Stream(Outbox(self._hello()))
            try:
                await self._serve(stream)
            except HOPELESS:
                raise
            except FencepostError as lost:
                self._learn_from(lost, stream)
            finally:
                self._stream = None
            pause_s = RECONNECT_PAUSE_S if stream.welcomed else pause_s
            await self._pause(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, RECONNECT_PAUSE_S_MAX)

    def _hello(self) -> work_pb2.Hello:
        return work_pb2.Hello(
            session_id=self.session_id,
            resume_session=self._known_to_server,
            queues=self._queues,
            version=self._version,
            labels=self._labels,
        )

    async def _pause(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._closing.wait()
        except TimeoutError:
            return

    def _learn_from(self, lost: FencepostError, stream: _Stream) -> None:
        if self._closing.is_set():
            return
        if isinstance(lost, ResourceNotFound) and self._known_to_server and not stream.welcomed:
            log.warning("session %s has ended at the dispatcher: a new one begins", self.session_id)
            self.session_id = str(uuid.uuid4())
            self._known_to_server = False
            return
        if isinstance(lost, RequestIdReused):
            # Ours: its Welcome was lost on the way.
            self._known_to_server = True
        if isinstance(lost, Internal):
            self._suspect(stream, lost)
        self._tell_lost(lost)

    def _tell_lost(self, lost: FencepostError) -> None:
        now_s = time.monotonic()
        if self._lost_told_s is None or now_s - self._lost_told_s >= LOSSES_TOLD_APART_S:
            self._lost_told_s = now_s
            log.warning("the session lost its stream and comes back: %s", lost)

    def _tell_back(self) -> None:
        if self._lost_told_s is not None:
            self._lost_told_s = None
            log.info("the session is back on a stream")

    def _suspect(self, stream: _Stream, fault: Internal) -> None:
        """An outcome that breaks the dispatcher must not keep the others from being recorded."""
        self._outcomes_a_frame = 1
        if len(stream.settling) == 1:
            [item] = stream.settling.values()
            item.faults += 1
            if item.faults >= FAULTS_MAX and not item.answer.done():
                item.answer.set_exception(fault)
                del self._unanswered[item.settle.item_id]

    async def _serve(self, stream: _Stream) -> None:
        call = self._stub.Work(stream.outbox.frames())
        try:
            while (frame := await call.read()) is not aio.EOF:
                received = cast(work_pb2.WorkResponse, frame)
                self._take(stream, received)
                if received.HasField("drain"):
                    return
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise FencepostError("the call ended", code=grpc.StatusCode.CANCELLED) from cancelled
        finally:
            if stream.beat is not None:
                stream.beat.cancel()
            call.cancel()
            # A call that the server ended does not stop to ask for frames by itself.
            stream.outbox.close()

    def _take(self, stream: _Stream, frame: work_pb2.WorkResponse) -> None:
        if frame.HasField("welcome"):
            self._on_welcome(stream, frame.welcome)
        for dispatch in frame.dispatches:
            if stream.synced:
                stream.credit -= 1
            self._handlers.dispatched(dispatch)
        for settled in frame.settle_results:
            self._on_settled(stream, settled)
        for renewed in frame.renew_results:
            self._on_renewed(stream, renewed)
        for cancel in frame.cancels:
            self._handlers.cancelled(cancel)
        if frame.HasField("heartbeat_ack") and not stream.synced:
            self._on_synced(stream)
        self._send_outcomes()
        self.top_up()

    def _on_welcome(self, stream: _Stream, welcome: work_pb2.Welcome) -> None:
        self._known_to_server = True
        stream.welcomed = True
        self._tell_back()
        self._beat_every(stream, welcome.heartbeat_interval.ToMilliseconds() / 1000)
        if self._draining:
            stream.outbox.end_drain()
        if welcome.resumed:
            # Its answer comes after everything that the session holds.
            stream.outbox.heartbeat()
        else:
            self._on_synced(stream)

    def _on_synced(self, stream: _Stream) -> None:
        """The worker knows all that it holds: how long is asked, and the rest is offered."""
        stream.synced = True
        for held in self._handlers.held():
            self.renew(held)

    def _beat_every(self, stream: _Stream, interval_s: float) -> None:
        def beat() -> None:
            stream.outbox.heartbeat()
            stream.beat = asyncio.get_running_loop().call_later(interval_s, beat)

        stream.beat = asyncio.get_running_loop().call_later(interval_s, beat)

    def renew(self, held: Held) -> None:
        """Asks for more lease time, unless that is being asked or there is no stream for it."""
        stream, renewal = self._stream, held.renewal
        if stream is None or not stream.synced or held in stream.asked or renewal is None:
            return
        renewal.item_id = next(self._item_ids)
        if broken := violations(renewal):
            held.lose(str(FieldInvalid(violations=broken)))
            return
        stream.asked.add(held)
        stream.renewing[renewal.item_id] = (held, time.monotonic())
        stream.outbox.renewal(renewal)

    def _on_renewed(self, stream: _Stream, result: work_pb2.RenewResult) -> None:
        if result.item_id not in stream.renewing:
            return
        held, asked_at_s = stream.renewing.pop(result.item_id)
        stream.asked.discard(held)
        if (refusal := _refusal(result)) is None:
            lease_s = result.lease_time.ToMilliseconds() / 1000
            held.renewed(asked_at_s=asked_at_s, lease_s=lease_s)
        elif refusal.retriable:
            log.warning("a renewal is asked for again when the next is due: %s", refusal)
        else:
            held.lose(refusal.message)

    def top_up(self) -> None:
        """Offers the slots that are free and not offered yet."""
        stream = self._stream
        if stream is None or not stream.synced or self._draining:
            return
        missing = self._handlers.free_slots() - stream.credit
        if missing > 0:
            stream.credit += missing
            stream.outbox.credit(missing)

    async def settle(self, settle: work_pb2.Settle) -> None:
        """Sends an outcome until it is answered; raises the refusal, if it is one that lasts.

        Raises FieldInvalid before anything is sent.
        """
        settle.item_id = next(self._item_ids)
        check(settle)
        item = _Unanswered(settle, asyncio.get_running_loop().create_future())
        self._unanswered[settle.item_id] = item
        try:
            while (refusal := await self._answered(item)) is not None:
                if not refusal.retriable:
                    raise refusal
                log.warning("an outcome is sent again after a moment: %s", refusal)
                await asyncio.sleep(REPEAT_PAUSE_S * random.uniform(0.5, 1.0))
                item.answer = asyncio.get_running_loop().create_future()
        finally:
            self._unanswered.pop(settle.item_id, None)

    async def _answered(self, item: _Unanswered) -> FencepostError | None:
        """The refusal of an outcome that is sent now; None when it stands."""
        self._send_outcomes()
        return _refusal(await item.answer)

    def _send_outcomes(self) -> None:
        """One frame of outcomes is under way at a time: what comes meanwhile is the next."""
        stream = self._stream
        if stream is None or not stream.welcomed or stream.settling:
            return
        waiting = [item.settle for item in self._unanswered.values() if not item.answer.done()]
        if frame := one_frame(waiting, items_max=self._outcomes_a_frame):
            stream.settling = {each.item_id: self._unanswered[each.item_id] for each in frame}
            stream.outbox.settles(frame)

    def _on_settled(self, stream: _Stream, result: work_pb2.SettleResult) -> None:
        item = stream.settling.pop(result.item_id, None)
        if item is None:
            return
        if not item.answer.done():
            item.answer.set_result(result)
        if not stream.settling:
            self._outcomes_a_frame = min(self._outcomes_a_frame * 2, ITEMS_A_FRAME)

    def drain(self) -> None:
        """Takes no more dispatches; what is held goes on."""
        if not self._draining and self._stream is not None and self._stream.welcomed:
            self._stream.outbox.end_drain()
        self._draining = True

    def close(self) -> None:
        """Ends the session in good order: the stream is closed from this side."""
        self.drain()
        self._closing.set()
        if self._stream is not None:
            self._stream.outbox.close()


def _refusal(result: work_pb2.SettleResult | work_pb2.RenewResult) -> FencepostError | None:
    return from_status(result.refusal) if result.HasField("refusal") else None
