"""`python -m services.publisher`: the parts of the publisher, and how they hold together."""

import asyncio

from services.publisher.forges.connect import Forges, configured_access
from services.publisher.operations import Publishing
from services.publisher.servicer import LedgerServicer, PublishServicer
from services.publisher.settings import PublisherSettings
from shared import runtime
from shared.settings import load


async def main() -> None:
    """Serves until told to stop."""
    settings = load(PublisherSettings)
    async with runtime.started("publisher", settings) as service:
        forges = Forges(settings, service.tracer)
        publishing = Publishing(
            service.database,
            forges.writing(configured_access(settings)),
            service.tracer,
            record_window_ms=settings.record_window_ms,
        )
        await service.serve(
            [PublishServicer(publishing), LedgerServicer(service.database)],
            finishing=[publishing.drained],
            closing=[forges.close],
        )


if __name__ == "__main__":
    asyncio.run(main())
