"""Duty: one look at the tables for the whole process, which wakes whoever has something to do.

The poll behind every wake: with all of them lost, work starts, retries, and is put back within
one period. It costs one read, however many sessions wait.
"""

from collections.abc import Callable

from services.dispatcher.dispatch.wakeups import Wakeups
from services.dispatcher.housekeeping import store
from shared.database import Database

Wake = Callable[[], None]


class Lookout:
    """Looks for ready work of the lanes that sessions listen to, and for what is due."""

    def __init__(
        self, database: Database, wakeups: Wakeups, *, wake_mover: Wake, wake_expirer: Wake
    ) -> None:
        self._database = database
        self._wakeups = wakeups
        self._wake_mover = wake_mover
        self._wake_expirer = wake_expirer

    async def tick(self) -> None:
        """One read; changes nothing itself."""
        lanes = self._wakeups.lanes
        seen = await self._database.read(lambda tx: store.look(tx, lanes=lanes))
        if seen.is_due:
            self._wake_mover()
        if seen.is_overdue:
            self._wake_expirer()
        self._wakeups.wake(lanes[number - 1] for number in seen.lane_numbers)
