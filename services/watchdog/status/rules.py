"""Since when a figure has been unobservable, on the database's clock as far as it is known."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

ABSENCES_MAX = 10_000

Key = tuple[str | None, str]
"""Tenant (None: all) and name of a figure."""


@dataclass
class Absences:
    """Remembers first misses. While the database is away its clock is carried on by the process's.

    `elapsed_s` is the process's monotonic clock in every call.
    """

    _missed_since_s: dict[Key, float] = field(default_factory=dict)
    _database_zero: datetime | None = None

    def told(self, at: datetime, *, elapsed_s: float) -> None:
        """The database told its time."""
        self._database_zero = at - timedelta(seconds=elapsed_s)

    def seen(self, key: Key) -> None:
        """The figure was observed."""
        self._missed_since_s.pop(key, None)

    def missed(self, key: Key, *, elapsed_s: float) -> datetime | None:
        """The figure was not observed: since when. None while the database never told its time."""
        since_s = self._missed_since_s.setdefault(key, elapsed_s)
        if len(self._missed_since_s) > ABSENCES_MAX:
            self._missed_since_s.pop(next(iter(self._missed_since_s)))
        if self._database_zero is None:
            return None
        return self._database_zero + timedelta(seconds=since_s)
