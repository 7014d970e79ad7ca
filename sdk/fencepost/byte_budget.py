"""Bytes that may be held at once; who finds no room waits in turn."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteBudget:
    """A bound on what is held at once, first come first served."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._free_bytes = limit_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def held(self, size_bytes: int) -> AsyncIterator[None]:
        """Holds so much until the end of the block; what exceeds the budget is held alone."""
        share_bytes = min(size_bytes, self._limit_bytes)
        await self._take(share_bytes)
        try:
            yield
        finally:
            self._give(share_bytes)

    async def idle(self) -> None:
        """Returns once all that was held or waited for when it was called has ended."""
        async with self.held(self._limit_bytes):
            return

    async def _take(self, size_bytes: int) -> None:
        if not self._waiting and size_bytes <= self._free_bytes:
            self._free_bytes -= size_bytes
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, granted))
        try:
            await granted
        except asyncio.CancelledError:
            # The room may have been given in the very turn in which the caller was cancelled.
            self._give(0 if granted.cancelled() else size_bytes)
            raise

    def _give(self, size_bytes: int) -> None:
        self._free_bytes += size_bytes
        while self._waiting:
            wanted_bytes, granted = self._waiting[0]
            if not granted.done() and wanted_bytes > self._free_bytes:
                return
            self._waiting.popleft()
            if not granted.done():
                self._free_bytes -= wanted_bytes
                granted.set_result(None)
