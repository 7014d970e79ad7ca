"""Duty: markers whose time is over go, in bounded batches that never stand in intake's way (I3)."""

from services.ingress.intake import purge_store
from services.ingress.merge_groups import store as merge_groups_store
from shared.database import Database
from shared.ticking import Ticker

PERIOD_MS = 60_000
BATCH_MAX = 1000


class PurgeLoop:
    """The duty of one replica; several may do it at once. Keeps I3."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.ticker = Ticker("purge", period_ms=PERIOD_MS, tick=self.tick)

    async def tick(self) -> bool:
        """A batch of each kind, each a transaction; True when there may be more."""
        gone = [
            await self._database.run(lambda tx: purge_store.purge_markers(tx, limit=BATCH_MAX)),
            await self._database.run(lambda tx: purge_store.purge_bodies(tx, limit=BATCH_MAX)),
            await self._database.run(lambda tx: merge_groups_store.purge(tx, limit=BATCH_MAX)),
        ]
        return BATCH_MAX in gone
