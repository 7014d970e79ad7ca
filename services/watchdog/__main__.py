"""`python -m services.watchdog`: the parts of the watchdog, and how they hold together."""

import asyncio

from services.watchdog.access.operations import AccessOperations
from services.watchdog.access.servicer import AccessServicer
from services.watchdog.servicer import WatchdogServicer
from services.watchdog.settings import WatchdogSettings
from services.watchdog.status.gauges import FigureGauges
from services.watchdog.status.operations import StatusOperations
from services.watchdog.timeline.operations import TimelineOperations
from shared import runtime
from shared.settings import load
from shared.ticking import Ticker


async def main() -> None:
    """Serves until told to stop."""
    settings = load(WatchdogSettings)
    async with runtime.started("watchdog", settings) as service:
        status = StatusOperations(service.database, settings)
        timelines = TimelineOperations(service.database, settings)
        access = AccessOperations(service.database)
        gauges = FigureGauges(status)
        await service.serve(
            [WatchdogServicer(status, timelines), AccessServicer(access)],
            background=[
                Ticker("figures", period_ms=settings.figure_period_ms, tick=gauges.tick),
            ],
        )


if __name__ == "__main__":
    asyncio.run(main())
