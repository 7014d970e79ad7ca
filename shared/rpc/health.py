"""What the standard health service answers, for the server and for each of its services."""

import asyncio
from collections.abc import Iterable

import structlog
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SET_TIMEOUT_S = 1.0

log = structlog.get_logger(__name__)


class Health:
    """SERVING while the service is ready, NOT_SERVING else and from the start of draining on."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = ("", *services)
        self._servicer = health.aio.HealthServicer()
        self._serving: bool | None = None

    async def register(self, server: aio.Server) -> None:
        """Answers on this server, without a key: the one service that needs none."""
        await self.set(serving=False)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set(self, *, serving: bool) -> None:
        """Tells everybody who watches."""
        if serving == self._serving:
            return
        self._serving = serving
        status = SERVING if serving else NOT_SERVING
        for service in self._services:
            await self._servicer.set(service, status)

    async def drain(self) -> None:
        """NOT_SERVING for good."""
        try:
            # The servicer holds a lock while it writes to a watcher, who may not be reading.
            async with asyncio.timeout(SET_TIMEOUT_S):
                await self._servicer.enter_graceful_shutdown()
        except TimeoutError:
            log.warning("a client that watches the health does not read, and was not told")
