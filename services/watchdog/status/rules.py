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

    _missed_s: dict[Key, float] = field(default_factory=dict)
    _since: dict[Key, datetime] = field(default_factory=dict)
    _database_zero: datetime | None = None

    def told(self, at: datetime, *, elapsed_s: float) -> None:
        """The database told its time."""
        self._database_zero = at - timedelta(seconds=elapsed_s)

    def seen(self, key: Key) -> None:
        """The figure was observed."""
        self._missed_s.pop(key, None)
        self._since.pop(key, None)

    def missed(self, key: Key, *, elapsed_s: float) -> datetime | None:
        """The figure was not observed: since when. None while the database never told its time."""
        if key not in self._missed_s and len(self._missed_s) >= ABSENCES_MAX:
            self.seen(next(iter(self._missed_s)))
        missed_s = self._missed_s.setdefault(key, elapsed_s)
        if key not in self._since and self._database_zero is not None:
            self._since[key] = self._database_zero + timedelta(seconds=missed_s)
        return self._since.get(key)
