"""A worker's session with the dispatcher: one stream at a time, taken up again when it is lost.

What must not be lost with a stream is kept until it is answered: outcomes are sent again after a
resumption. The rest (credit, renewals, heartbeats) is made anew.
"""

import asyncio
import contextlib
import itertools
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.channel import Channel
from fencepost.dispatcher.v1 import work_pb2
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub
from fencepost.errors import FencepostError, KeyRevoked, KeyUnknown, ResourceNotFound, ScopeMissing
from fencepost.status import from_status

RECONNECT_PAUSE_S = 0.2
RECONNECT_PAUSE_S_MAX = 4.0

log = logging.getLogger("fencepost.worker")

HOPELESS = (KeyUnknown, KeyRevoked, ScopeMissing)
"""Refusals that the same key will meet again."""


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What a worker does with what the session brings."""

    dispatched: Callable[[work_pb2.Dispatch], None]
    renewed: Callable[[work_pb2.RenewResult], None]
    cancelled: Callable[[work_pb2.Cancel], None]
    free_slots: Callable[[], int]
    renewals: Callable[[], Sequence[work_pb2.Renew]]


@dataclass
class _Unanswered:
    """An outcome that the dispatcher has not answered yet."""

    settle: work_pb2.Settle
    answer: asyncio.Future[work_pb2.SettleResult] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Session:
    """Holds the stream; `run` returns when the worker has drained, or raises what is hopeless."""

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
        self._outgoing: asyncio.Queue[work_pb2.WorkRequest | None] = asyncio.Queue()
        self._unanswered: dict[int, _Unanswered] = {}
        self._item_ids = itertools.count(1)
        self._known_to_server = False
        self._draining = False
        self._closed = asyncio.Event()
        self.welcomed = asyncio.Event()

    async def run(self) -> None:
        """Keeps a stream until `close`; a lost one is resumed under the same id."""
        pause_s = RECONNECT_PAUSE_S
        while not self._closed.is_set():
            try:
                await self._one_stream()
                pause_s = RECONNECT_PAUSE_S
            except HOPELESS:
                raise
            except ResourceNotFound:
                self._begin_anew()
            except FencepostError as lost:
                if self.welcomed.is_set():
                    pause_s = RECONNECT_PAUSE_S
                log.warning("the session lost its stream and comes back: %s", lost)
            self.welcomed.clear()
            if not self._closed.is_set():
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(pause_s * 2, RECONNECT_PAUSE_S_MAX)

    def _begin_anew(self) -> None:
        """The dispatcher knows no such session: what it held is being granted to others."""
        log.warning("session %s has ended at the dispatcher; a new one begins", self.session_id)
        self.session_id = str(uuid.uuid4())
        self._known_to_server = False

    async def _one_stream(self) -> None:
        self._outgoing = asyncio.Queue()
        call = self._stub.Work(self._requests())
        beats: asyncio.Task[None] | None = None
        try:
            async for frame in call:
                if frame.HasField("welcome"):
                    beats = asyncio.create_task(self._beat(frame.welcome))
                    self._on_welcome()
                if frame.HasField("drain"):
                    return
                self._take(frame)
        finally:
            if beats is not None:
                beats.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await beats
            self._outgoing.put_nowait(None)
            call.cancel()

    async def _requests(self) -> AsyncIterator[work_pb2.WorkRequest]:
        outgoing = self._outgoing
        yield work_pb2.WorkRequest(
            hello=work_pb2.Hello(
                session_id=self.session_id,
                resume_session=self._known_to_server,
                queues=self._queues,
                version=self._version,
                labels=self._labels,
            )
        )
        while (frame := await outgoing.get()) is not None:
            yield frame

    def _on_welcome(self) -> None:
        self._known_to_server = True
        self.welcomed.set()
        settles = [item.settle for item in self._unanswered.values()]
        for start in range(0, len(settles), 1000):
            self._send(work_pb2.WorkRequest(settles=settles[start : start + 1000]))
        if self._draining:
            self._send(work_pb2.WorkRequest(end_drain=work_pb2.EndDrain()))
        else:
            self.offer(self._handlers.free_slots())

    def _take(self, frame: work_pb2.WorkResponse) -> None:
        for dispatch in frame.dispatches:
            self._handlers.dispatched(dispatch)
        for settled in frame.settle_results:
            if (item := self._unanswered.pop(settled.item_id, None)) and not item.answer.done():
                item.answer.set_result(settled)
        for renewed in frame.renew_results:
            self._handlers.renewed(renewed)
        for cancel in frame.cancels:
            self._handlers.cancelled(cancel)

    async def _beat(self, welcome: work_pb2.Welcome) -> None:
        interval_s = welcome.heartbeat_interval.ToMilliseconds() / 1000
        while True:
            await asyncio.sleep(interval_s)
            frame = work_pb2.WorkRequest(heartbeat=work_pb2.Heartbeat())
            frame.renewals.extend(self._handlers.renewals())
            self._send(frame)

    def _send(self, frame: work_pb2.WorkRequest) -> None:
        self._outgoing.put_nowait(frame)

    def offer(self, slots: int) -> None:
        """Says that the worker has room for this many more dispatches."""
        if slots > 0 and not self._draining and self.welcomed.is_set():
            self._send(work_pb2.WorkRequest(credit=work_pb2.Credit(dispatches=slots)))

    async def settle(self, settle: work_pb2.Settle) -> None:
        """Sends an outcome until it is answered; raises the refusal, if it is one."""
        settle.item_id = next(self._item_ids)
        item = _Unanswered(settle)
        self._unanswered[settle.item_id] = item
        if self.welcomed.is_set():
            self._send(work_pb2.WorkRequest(settles=[settle]))
        result = await item.answer
        if result.HasField("refusal"):
            raise from_status(result.refusal)

    def drain(self) -> None:
        """Takes no more dispatches; what is held goes on."""
        self._draining = True
        if self.welcomed.is_set():
            self._send(work_pb2.WorkRequest(end_drain=work_pb2.EndDrain()))

    def close(self) -> None:
        """Ends the session in good order: the stream is closed from this side."""
        self._closed.set()
        self._outgoing.put_nowait(None)
