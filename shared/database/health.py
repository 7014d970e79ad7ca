"""Says once that the database went away and once that it is back, whoever noticed first."""

import time

import structlog

log = structlog.stdlib.get_logger(__name__)


class Health:
    """The last word on whether the database answers."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._away_since_s: float | None = None
        self._why = ""

    def note_away(self, why: str) -> None:
        """Nobody got a connection. Said again only when the cause is another one."""
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
        if why != self._why:
            self._why = why
            log.error("database away", database=self._place, why=why)

    def note_back(self) -> None:
        """Somebody got a connection."""
        if self._away_since_s is None:
            return
        away_ms = round((time.monotonic() - self._away_since_s) * 1000)
        self._away_since_s = None
        self._why = ""
        log.info("database back", database=self._place, away_ms=away_ms)
