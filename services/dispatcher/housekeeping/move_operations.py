"""Duty: what has waited long enough, or for something that has ended, is made ready."""

from services.dispatcher.dispatch.wakeups import Lane, Wakeups
from services.dispatcher.housekeeping import store
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database, Transaction


class Mover:
    """Moves due intents from waiting to ready."""

    def __init__(self, database: Database, wakeups: Wakeups, settings: DispatcherSettings) -> None:
        self._database = database
        self._wakeups = wakeups
        self._page = settings.duty_batch_max

    async def tick(self) -> bool:
        """One page of each kind; wakes the sessions of the queues it filled. More: True."""

        async def moved(tx: Transaction) -> tuple[list[Lane], list[Lane]]:
            return (
                await store.move_due(tx, limit=self._page),
                await store.move_unblocked(tx, limit=self._page),
            )

        due, unblocked = await self._database.run(moved)
        self._wakeups.wake({*due, *unblocked})
        return max(len(due), len(unblocked)) == self._page
