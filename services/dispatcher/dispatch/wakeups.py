"""Who waits for work on which queue in this process: a hint, the poll is the truth."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Wakeups:
    """Events of the sessions that would take work, by queue."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def listening(self, queues: Iterable[str], heard: asyncio.Event) -> Iterator[None]:
        """Sets the event whenever one of these queues may have work."""
        names = list(queues)
        for name in names:
            self._waiting.setdefault(name, set()).add(heard)
        try:
            yield
        finally:
            for name in names:
                self._waiting[name].discard(heard)
                if not self._waiting[name]:
                    del self._waiting[name]

    def wake(self, queues: Iterable[str]) -> None:
        """Tells every session that listens to one of these queues."""
        for name in queues:
            for heard in self._waiting.get(name, ()):
                heard.set()
