"""Observes the figures: each in a transaction of its own, so that one fault hides no other (W5)."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from fencepost.errors import DatabaseUnavailable, FencepostError

from services.watchdog.settings import WatchdogSettings
from services.watchdog.status.figures_store import (
    FIGURES,
    Figure,
    NotObservableError,
    Reading,
    read_figure,
)
from services.watchdog.status.rules import Absences
from shared.database import Database

DATABASE_AWAY = "the database does not answer"
FAULT_OF_OURS = "a fault of the watchdog, which stands in its log"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A figure that was read."""

    figure: Figure
    value: float
    at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Unobservable:
    """A figure that could not be read; `since` is None while the database never told its time."""

    figure: Figure
    reason: str
    since: datetime | None
    labels: Mapping[str, str] = field(default_factory=dict)


Observation = Observed | Unobservable


class StatusOperations:
    """The figures of one database."""

    def __init__(self, database: Database, settings: WatchdogSettings) -> None:
        self._database = database
        self._timeout_ms = settings.figure_timeout_ms
        self._at_once = asyncio.Semaphore(settings.figures_at_once_max)
        self._absences = Absences()

    async def status(self, tenant: str | None) -> list[Observation]:
        """Every figure of the tenant, or of all, within little more than one figure's timeout."""
        observed = await asyncio.gather(*(self._observe(figure, tenant) for figure in FIGURES))
        return [observation for of_figure in observed for observation in of_figure]

    async def _observe(self, figure: Figure, tenant: str | None) -> list[Observation]:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._at_once:
                readings = await self._database.read(
                    lambda tx: read_figure(tx, figure, tenant=tenant)
                )
        except Exception as error:  # noqa: BLE001  (whatever hides one figure hides no other)
            return [self._unobservable(figure, tenant, self._why(figure, error))]
        if not readings:
            return [self._unobservable(figure, tenant, figure.when_none)]
        self._absences.told(readings[0].at, elapsed_s=time.monotonic())
        if not figure.labelled and readings[0].value is None:
            return [self._unobservable(figure, tenant, figure.when_nothing)]
        self._absences.seen((tenant, figure.name))
        return [_observation(figure, reading) for reading in readings]

    def _unobservable(self, figure: Figure, tenant: str | None, reason: str) -> Unobservable:
        since = self._absences.missed((tenant, figure.name), elapsed_s=time.monotonic())
        return Unobservable(figure=figure, reason=reason, since=since)

    def _why(self, figure: Figure, error: Exception) -> str:
        match error:
            case DatabaseUnavailable():
                return DATABASE_AWAY
            case TimeoutError():
                return f"{DATABASE_AWAY} within {self._timeout_ms} ms"
            case NotObservableError() | FencepostError():
                return str(error)
        log.error("a figure failed by a fault of ours", figure=figure.name, exc_info=error)
        return FAULT_OF_OURS


def _observation(figure: Figure, reading: Reading) -> Observation:
    labels = reading.labels
    if reading.value is None:
        why = figure.when_nothing
        return Unobservable(figure=figure, reason=why, since=reading.since, labels=labels)
    return Observed(figure=figure, value=reading.value, at=reading.at, labels=labels)
