"""Duty: one look at the tables for the whole process, which wakes whoever has something to do.

The poll behind every wake: with all of them lost, work starts, retries, and is put back within
one period. It costs one read, however many sessions wait.
"""

from collections.abc import Callable
from dataclasses import dataclass

from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.housekeeping import store
from shared.database import Database

Wake = Callable[[], None]


def nobody() -> None:
    """Stands for a duty that this process does not have."""


@dataclass(frozen=True, kw_only=True)
class Duties:
    """How the other duties are woken."""

    move: Wake
    resolve: Wake
    expire: Wake
    export: Wake


class Lookout:
    """Looks for ready work of the lanes that sessions listen to, and for what is due."""

    def __init__(self, database: Database, wakeups: Wakeups, duties: Duties) -> None:
        self._database = database
        self._wakeups = wakeups
        self._duties = duties

    async def tick(self) -> None:
        """One read; changes nothing itself."""
        lanes = self._wakeups.lanes
        seen = await self._database.read(lambda tx: store.look(tx, lanes=lanes))
        if seen.is_due:
            self._duties.move()
        if seen.is_headless:
            self._duties.resolve()
        if seen.is_overdue:
            self._duties.expire()
        if seen.has_spans:
            self._duties.export()
        self._wakeups.wake(lanes[number - 1] for number in seen.lane_numbers)
