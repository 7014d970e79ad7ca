"""Ends waits for answers that do not come: one clock for all connections of a pool."""

import asyncio
from typing import Protocol

TICK_MS = 100


class Severable(Protocol):
    """A connection whose socket can be shut, which ends the wait on it with an error."""

    def sever(self) -> None:
        """Shuts the socket."""


class Overdue:
    """Who waits for an answer since when; severs who waits longer than the answer may take."""

    def __init__(self, answer_timeout_ms: int) -> None:
        self._answer_timeout_s = answer_timeout_ms / 1000
        self._waiting: dict[Severable, float] = {}
        self._ticking = False

    def wait_begins(self, connection: Severable) -> None:
        """From now on the connection waits for one answer."""
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.time() + self._answer_timeout_s
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_MS / 1000, self._tick, loop)

    def wait_ends(self, connection: Severable) -> None:
        """The answer is there, or it will never come."""
        self._waiting.pop(connection, None)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for connection, due_s in list(self._waiting.items()):
            if due_s <= now_s:
                self.wait_ends(connection)
                connection.sever()
        self._ticking = bool(self._waiting)
        if self._ticking:
            loop.call_later(TICK_MS / 1000, self._tick, loop)
