"""`python -m services.publisher`: the parts of the publisher, and how they hold together."""

import asyncio

from services.publisher.connections.open_operations import Connections
from services.publisher.connections.operations import ConnectionOperations
from services.publisher.connections.servicer import ConnectionServicer
from services.publisher.forges.connect import Forges, configured_access
from services.publisher.heads.operations import Resolving
from services.publisher.operations import Publishing
from services.publisher.servicer import LedgerServicer, PublishServicer
from services.publisher.settings import PublisherSettings
from shared import runtime
from shared.settings import load


async def main() -> None:
    """Serves until told to stop."""
    settings = load(PublisherSettings)
    async with runtime.started("publisher", settings) as service:
        database = service.database
        forges = Forges(settings, service.tracer)
        connections = Connections(settings.keyring, configured_access(settings))
        publishing = Publishing(
            database,
            forges,
            connections,
            service.tracer,
            record_window_ms=settings.record_window_ms,
        )
        resolving = Resolving(
            database, forges, connections, time_limit_ms=settings.forge_call_timeout_ms
        )
        await service.serve(
            [
                PublishServicer(publishing, resolving),
                LedgerServicer(database),
                ConnectionServicer(ConnectionOperations(database, connections, settings)),
            ],
            finishing=[publishing.drained],
            closing=[forges.close],
        )


if __name__ == "__main__":
    asyncio.run(main())
