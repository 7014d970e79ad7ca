"""The admin port of a service: is it alive, may it be sent work, what does it count."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import structlog
from fencepost.errors import FencepostError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shared.http_server import HttpServer
from shared.metrics import REGISTRY

CHECK_TIMEOUT_MS = 900
"""Below the second that a probe commonly waits."""

CHECK_CACHE_MS = 1000
STOP_GRACE_MS = 200

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Verdict:
    problems: Mapping[str, str]
    reached_s: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.reached_s < CHECK_CACHE_MS / 1000


class Readiness:
    """Runs the named checks, at most once a second however often it is asked."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = dict(checks)
        self._verdict: _Verdict | None = None
        self._one_at_a_time = asyncio.Lock()

    async def problems(self) -> Mapping[str, str]:
        """What is not as it should be, by check; empty when all is well."""
        async with self._one_at_a_time:
            if self._verdict is None or not self._verdict.is_fresh:
                said = await asyncio.gather(*(_problem(*named) for named in self._checks.items()))
                found = {name: text for name, text in zip(self._checks, said, strict=True) if text}
                self._verdict = _Verdict(MappingProxyType(found), time.monotonic())
            return self._verdict.problems


class AdminServer:
    """Serves /livez, /readyz and /metrics on one address, off the gRPC port."""

    def __init__(
        self,
        address: str,
        *,
        readiness: Mapping[str, Check],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """`readiness` names checks that raise with a sentence for operators when they fail."""
        self._readiness = Readiness(readiness)
        self._registry = registry
        self._draining = False
        routes = [
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        self._server = HttpServer(Starlette(routes=routes), address)

    @property
    def address(self) -> str:
        """host:port; after start() with the port it really listens on."""
        return self._server.address

    async def start(self) -> None:
        """Returns when it answers. Raises AddressUnavailableError."""
        await self._server.start()

    async def stop(self) -> None:
        """Stops at once."""
        await self._server.stop(grace_ms=STOP_GRACE_MS)

    def set_draining(self) -> None:
        """From now on the service is alive and not ready."""
        self._draining = True

    async def _livez(self, _: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def _readyz(self, _: Request) -> Response:
        if self._draining:
            return _not_ready({"draining": "The service is shutting down: send work elsewhere."})
        problems = await self._readiness.problems()
        return _not_ready(problems) if problems else JSONResponse({"ready": True, "problems": {}})

    async def _metrics(self, _: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


def _not_ready(problems: Mapping[str, str]) -> Response:
    return JSONResponse({"ready": False, "problems": dict(problems)}, status_code=503)


async def _problem(name: str, check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_MS / 1000):
            await check()
    except TimeoutError:
        return f"It did not answer within {CHECK_TIMEOUT_MS} ms."
    except FencepostError as error:
        return str(error)
    except Exception as error:
        log.error("a readiness check failed by a fault of ours", check=name, exc_info=error)
        return "The check itself failed: see the log."
    return ""
