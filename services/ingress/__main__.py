"""`python -m services.ingress`: the parts of ingress, and how they hold together."""

import asyncio

from services.ingress.batched import BatchedIntake
from services.ingress.endpoints.operations import EndpointOperations
from services.ingress.endpoints.sealing_loop import SealingLoop
from services.ingress.endpoints.servicer import EndpointServicer
from services.ingress.endpoints.snapshot import Endpoints
from services.ingress.intake.purge_loop import PurgeLoop
from services.ingress.large_bodies import give_memory_back
from services.ingress.operations import Intake
from services.ingress.servicer import IngressServicer
from services.ingress.settings import IngressSettings
from services.ingress.wake_client import Waker
from services.ingress.webhooks.door import WebhookDoor
from shared import runtime
from shared.http_server import HttpServer
from shared.sealing import Keyring
from shared.settings import load


async def main() -> None:
    """Serves until told to stop."""
    give_memory_back()
    settings = load(IngressSettings)
    async with runtime.started("ingress", settings) as service:
        database, limit_bytes = service.database, settings.body_limit_bytes
        keyring = Keyring.parse(settings.sealing_keys.get_secret_value())
        endpoints = Endpoints(database, keyring, limit_bytes=limit_bytes)
        admin = EndpointServicer(EndpointOperations(database, keyring, limit_bytes), endpoints)
        waker = Waker(settings)
        intake = Intake(database, settings, waker.wake)
        batched = BatchedIntake(intake, settings)
        door = WebhookDoor(
            endpoints, intake, batched, settings, service.tracer, may_serve=service.schema.require
        )
        await service.serve(
            [IngressServicer(intake, batched, endpoints), admin],
            background=[
                waker.ticker,
                endpoints.ticker,
                SealingLoop(database, keyring).ticker,
                PurgeLoop(database).ticker,
            ],
            http=[HttpServer(door.app(), settings.webhook_address)],
            finishing=[batched.close],
            closing=[waker.close],
        )


if __name__ == "__main__":
    asyncio.run(main())
