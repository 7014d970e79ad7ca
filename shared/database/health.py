"""Says once that the database went away and once that it is back, whoever noticed first."""

import time

import structlog

log = structlog.stdlib.get_logger(__name__)


class Health:
    """The last word on whether the database answers."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._away_since_s = 0.0
        self._causes: set[str] = set()
        """Told since the database went away; empty while it is there."""

    def note_away(self, why: str) -> None:
        """Nobody got a connection. Each further cause of one absence is told once."""
        if why in self._causes:
            return
        if self._causes:
            log.warning("database still away", database=self._place, why=why)
        else:
            self._away_since_s = time.monotonic()
            log.error("database away", database=self._place, why=why)
        self._causes.add(why)

    def note_back(self) -> None:
        """Somebody got a connection."""
        if not self._causes:
            return
        self._causes.clear()
        away_ms = round((time.monotonic() - self._away_since_s) * 1000)
        log.info("database back", database=self._place, away_ms=away_ms)
