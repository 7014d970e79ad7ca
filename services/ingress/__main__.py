"""`python -m services.ingress`: the parts of ingress, and how they hold together."""

import asyncio

from services.ingress.endpoints import Endpoints
from services.ingress.operations import Intake
from services.ingress.servicer import IngressServicer
from services.ingress.settings import IngressSettings
from services.ingress.wake_client import Waker
from services.ingress.webhooks.door import WebhookDoor
from shared import runtime
from shared.http_server import HttpServer
from shared.settings import load


async def main() -> None:
    """Serves until told to stop."""
    settings = load(IngressSettings)
    async with runtime.started("ingress", settings) as service:
        endpoints = Endpoints.of(settings)
        waker = Waker(settings)
        intake = Intake(service.database, settings, waker.wake)
        door = WebhookDoor(
            endpoints, intake, settings, service.tracer, may_serve=service.schema.require
        )
        await service.serve(
            [IngressServicer(intake, endpoints)],
            background=[waker.ticker],
            http=[HttpServer(door.app(), settings.webhook_address)],
            closing=[waker.close],
        )


if __name__ == "__main__":
    asyncio.run(main())
