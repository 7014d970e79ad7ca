"""Who would take work in this process: a hint, the look at the tables is the truth."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """What a session listens to: one tenant's work on one queue."""

    tenant: str
    queue: str


class Wakeups:
    """Events of the sessions that would take work, by lane."""

    def __init__(self) -> None:
        self._listeners: dict[Lane, set[asyncio.Event]] = {}

    @contextmanager
    def listening(self, tenant: str, queues: Iterable[str], heard: asyncio.Event) -> Iterator[None]:
        """Sets the event whenever the tenant may have work on one of these queues."""
        lanes = [Lane(tenant, queue) for queue in queues]
        for lane in lanes:
            self._listeners.setdefault(lane, set()).add(heard)
        try:
            yield
        finally:
            for lane in lanes:
                self._listeners[lane].discard(heard)
                if not self._listeners[lane]:
                    del self._listeners[lane]

    @property
    def lanes(self) -> list[Lane]:
        """What anybody listens to."""
        return list(self._listeners)

    def wake(self, lanes: Iterable[Lane]) -> None:
        """Tells every session that listens to one of these lanes."""
        for lane in lanes:
            for heard in self._listeners.get(lane, ()):
                heard.set()

    def wake_queues(self, queues: Iterable[str]) -> None:
        """The same, whosever work it is."""
        named = set(queues)
        self.wake([lane for lane in self._listeners if lane.queue in named])
