"""What waits to be sent on one stream of a session, put together into few frames."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from fencepost.dispatcher.v1 import work_pb2

ITEMS_A_FRAME: Final = 1000
BYTES_A_FRAME: Final = 3 * 1024 * 1024
"""For outcomes; the contract's 4 MiB hold a full list of renewals beside them."""

CREDIT_MAX: Final = 10_000


class Outbox:
    """Frames of one stream; what is added while one is being sent travels in the next."""

    def __init__(self, hello: work_pb2.Hello) -> None:
        self._hello = hello
        self._news = asyncio.Event()
        self._heartbeat = False
        self._end_drain = False
        self._closed = False
        self._credit = 0
        self._settles: Sequence[work_pb2.Settle] = ()
        self._renewals: list[work_pb2.Renew] = []

    def heartbeat(self) -> None:
        """A sign of life."""
        self._heartbeat = True
        self._news.set()

    def credit(self, dispatches: int) -> None:
        """Room for so many more dispatches."""
        self._credit += dispatches
        self._news.set()

    def settles(self, settles: Sequence[work_pb2.Settle]) -> None:
        """Outcomes for one frame; the ones before must have been answered."""
        self._settles = settles
        self._news.set()

    def renewal(self, renewal: work_pb2.Renew) -> None:
        """A wish for more lease time."""
        self._renewals.append(renewal)
        self._news.set()

    def end_drain(self) -> None:
        """Word that the worker takes no more; recorded with the sign of life beside it."""
        self._end_drain = self._heartbeat = True
        self._news.set()

    def close(self) -> None:
        """What waits is sent, then the stream is closed from this side."""
        self._closed = True
        self._news.set()

    async def frames(self) -> AsyncIterator[work_pb2.WorkRequest]:
        """Hello, then whatever there is to say, until `close`."""
        yield work_pb2.WorkRequest(hello=self._hello)
        while True:
            await self._news.wait()
            self._news.clear()
            while (frame := self._next()).ByteSize():
                yield frame
            if self._closed:
                return

    def _next(self) -> work_pb2.WorkRequest:
        frame = work_pb2.WorkRequest(settles=self._settles, renewals=self._renewals[:ITEMS_A_FRAME])
        if self._heartbeat:
            frame.heartbeat.SetInParent()
        if self._end_drain:
            frame.end_drain.SetInParent()
        if self._credit:
            frame.credit.dispatches = min(self._credit, CREDIT_MAX)
        self._settles, self._renewals = (), self._renewals[ITEMS_A_FRAME:]
        self._heartbeat = self._end_drain = False
        self._credit -= frame.credit.dispatches
        return frame


def one_frame(settles: Sequence[work_pb2.Settle], *, items_max: int) -> list[work_pb2.Settle]:
    """The first of these that fit into one frame; at least one."""
    fitting: list[work_pb2.Settle] = []
    room_bytes = BYTES_A_FRAME
    for settle in settles[:items_max]:
        room_bytes -= settle.ByteSize()
        if fitting and room_bytes < 0:
            break
        fitting.append(settle)
    return fitting
