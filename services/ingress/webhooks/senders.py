"""Bounds who is sending a body: how many at once, how long each in all, and how long in silence.

Nobody has proven anything yet, so whoever sends nothing must keep nobody else from sending.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Senders:
    """Who is sending now; beyond so many, the one silent for the longest gives way to the next."""

    def __init__(self, *, senders_max: int, timeout_ms: int, silence_ms: int) -> None:
        self._senders_max = senders_max
        self._timeout_s = timeout_ms / 1000
        self._silence_s = silence_ms / 1000
        self._sending: dict[asyncio.Timeout, None] = {}
        """In the order in which they were last heard of."""

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Callable[[], None]]:
        """Yields what to call at each piece; raises TimeoutError for who is late or gives way."""
        if len(self._sending) >= self._senders_max:
            self._let_go(next(iter(self._sending)))
        until_s = self._now_s() + self._timeout_s
        async with asyncio.timeout_at(until_s) as patience:

            def heard() -> None:
                if patience in self._sending:
                    del self._sending[patience]
                    self._sending[patience] = None
                    patience.reschedule(min(until_s, self._now_s() + self._silence_s))

            self._sending[patience] = None
            heard()
            try:
                yield heard
            finally:
                self._sending.pop(patience, None)

    def _let_go(self, patience: asyncio.Timeout) -> None:
        del self._sending[patience]
        if not patience.expired():
            patience.reschedule(self._now_s())

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
