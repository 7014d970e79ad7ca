"""What every service's composition root is made of: started, served, drained, in the right order.

Starting waits for nothing: a service whose database is away is alive and not ready, and becomes
ready by itself. Only a schema that does not fit, an address that is taken or a servicer that
cannot be served end it, with a sentence.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import fencepost
import structlog
from fencepost.errors import DatabaseUnavailable, SchemaMismatch
from fencepost.tls import CertificateUnreadableError
from opentelemetry.trace import Tracer

from shared import logs, telemetry
from shared.admin import AdminServer
from shared.database import Database
from shared.http_server import AddressUnavailableError, HttpServer
from shared.metrics import SERVICE_INFO
from shared.rpc.authentication import Authenticator
from shared.rpc.key_store import KeyRow, keys
from shared.rpc.key_watch import key_watch
from shared.rpc.methods import ServiceCannotBeServedError
from shared.rpc.open_calls import OpenCalls
from shared.rpc.pipeline import Pipeline
from shared.rpc.request_room import RequestRoom
from shared.rpc.server import PortUnavailableError, RpcServer
from shared.rpc.server_info import ServerInfo, ServerInfoServicer, limits_of
from shared.rpc.server_span import SpanFactory
from shared.schema_fit import SchemaFit
from shared.settings import RuntimeSettings
from shared.shutdown import ExitLimit, StopSignals
from shared.ticking import Ticker

EXIT_CANNOT_START = 1
READINESS_PERIOD_MS = 1_000
LOOPS_STOP_S = 2.0
CLOSING_S = 2.0
AFTER_CALLS_S = 10.0
"""Beyond the grace of the calls, all further steps of a stop together; then the process is cut."""

Closing = Callable[[], Awaitable[None]]

CANNOT_START = (
    AddressUnavailableError,
    CertificateUnreadableError,
    PortUnavailableError,
    SchemaMismatch,
    ServiceCannotBeServedError,
)

log = structlog.get_logger(__name__)


@asynccontextmanager
async def started(service: str, settings: RuntimeSettings) -> AsyncIterator["Runtime"]:
    """Logs, traces, database, keys and the admin port of a service; ended in reverse.

    Raises SystemExit, after a log entry that says what to do, when the service cannot start.
    """
    logs.start(service, settings)
    exit_limit = ExitLimit()
    try:
        async with AsyncExitStack() as stack:
            stack.callback(exit_limit.disarm)
            runtime = await _assembled(service, settings, stack, exit_limit)
            await runtime.check_schema()
            yield runtime
    except CANNOT_START as refused:
        log.critical("the service cannot start", why=str(refused))
        raise SystemExit(EXIT_CANNOT_START) from refused
    log.info("stopped")


async def _assembled(
    service: str, settings: RuntimeSettings, stack: AsyncExitStack, exit_limit: ExitLimit
) -> "Runtime":
    SERVICE_INFO.labels(service, fencepost.__version__, settings.instance).set(1)
    database = Database.create(settings, application_name=f"fencepost-{service}")
    schema = SchemaFit(database)
    admin = AdminServer(
        settings.admin_address, readiness={"database": database.ping, "schema": schema.check}
    )
    traces = telemetry.start(service, settings)
    await admin.start()
    stack.push_async_callback(admin.stop)
    await stack.enter_async_context(database)
    stack.push_async_callback(traces.stop, within_ms=settings.otlp_timeout_ms)

    async def lookup(key_ids: Sequence[str]) -> list[KeyRow]:
        return await database.read(lambda tx: keys(tx, key_ids))

    return Runtime(
        service=service,
        settings=settings,
        database=database,
        tracer=traces.tracer,
        schema=schema,
        admin=admin,
        calls=OpenCalls(concurrent_rpcs_max=settings.concurrent_rpcs_max),
        authenticator=Authenticator(
            lookup,
            cache_ms=settings.key_cache_ms,
            lookup_timeout_ms=settings.key_lookup_timeout_ms,
        ),
        exit_limit=exit_limit,
    )


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The parts that a service is built from; `serve` runs it until it is told to stop."""

    service: str
    settings: RuntimeSettings
    database: Database
    tracer: Tracer
    schema: SchemaFit
    admin: AdminServer
    calls: OpenCalls
    authenticator: Authenticator
    exit_limit: ExitLimit
    stop_signals: StopSignals = field(default_factory=StopSignals)

    @property
    def draining(self) -> asyncio.Event:
        """Set when no new call is let in any more: long streams wind down."""
        return self.calls.draining

    async def serve(
        self,
        servicers: Sequence[object],
        *,
        background: Sequence[Ticker] = (),
        http: Sequence[HttpServer] = (),
        finishing: Sequence[Closing] = (),
        closing: Sequence[Closing] = (),
    ) -> None:
        """Serves until SIGTERM or SIGINT, then drains and returns.

        `background` ticks while the schema is known to fit. When nothing calls the servicers any
        more, `finishing` is awaited for the rest of the grace: work that outlived its callers;
        then `closing`.
        """
        server = RpcServer(self.settings, self._pipeline(), [*servicers, self._server_info()])
        watches = [self._readiness_watch(server), key_watch(self.calls, self.authenticator)]
        with self.stop_signals.installed():
            try:
                await server.start()
                for listener in http:
                    await listener.start()
                for watch in watches:
                    watch.start()
                for loop in background:
                    loop.start(may_tick=lambda: self.schema.fits)
                # What stands now stands until the end: a collection need not look at it each time.
                gc.freeze()
                self._say_serving(server, http)
                await self.stop_signals.asked.wait()
            finally:
                await self._drain(server, http, finishing)
                await _stop_all([*background, *watches])
                await _close_all(closing)

    async def check_schema(self) -> None:
        """Raises SchemaMismatch; an absent database is waited for by the readiness."""
        try:
            await self.schema.check()
        except DatabaseUnavailable as away:
            log.warning("waiting for the database", why=str(away))

    def _pipeline(self) -> Pipeline:
        return Pipeline(
            calls=self.calls,
            room=RequestRoom(
                bytes_max=self.settings.request_buffer_bytes_max,
                message_limit_bytes=self.settings.message_limit_bytes,
            ),
            authenticator=self.authenticator,
            spans=SpanFactory.of(self.tracer) if self.settings.otlp_endpoint else None,
            default_deadline_ms=self.settings.request_default_deadline_ms,
            may_serve=self.schema.require,
        )

    def _server_info(self) -> ServerInfoServicer:
        return ServerInfoServicer(
            ServerInfo(
                service=self.service,
                limits=limits_of(self.settings),
                schema_revision_found=lambda: self.schema.found_revision,
            )
        )

    def _readiness_watch(self, server: RpcServer) -> Ticker:
        """Keeps the gRPC health true; a schema that stopped to fit ends the streams, too (X3)."""

        async def tick() -> None:
            try:
                await self.database.ping()
                await self.schema.check()
            except Exception as problem:
                await server.health.set(serving=False)
                if isinstance(problem, SchemaMismatch):
                    self.calls.end_streams(self.calls.stream_keys(), problem)
                raise
            await server.health.set(serving=True)

        return Ticker("readiness", period_ms=READINESS_PERIOD_MS, tick=tick)

    def _say_serving(self, server: RpcServer, http: Sequence[HttpServer]) -> None:
        log.info(
            "serving",
            version=fencepost.__version__,
            grpc=server.address,
            admin=self.admin.address,
            http=[listener.address for listener in http],
        )

    async def _drain(
        self, server: RpcServer, http: Sequence[HttpServer], finishing: Sequence[Closing]
    ) -> None:
        grace_ms = self.settings.drain_grace_ms
        grace_ends_s = asyncio.get_running_loop().time() + grace_ms / 1000
        self.exit_limit.arm(within_s=grace_ms / 1000 + AFTER_CALLS_S)
        self.admin.set_draining()
        await asyncio.gather(
            server.drain(within_s=grace_ms / 1000),
            *(listener.stop(grace_ms=grace_ms) for listener in http),
        )
        try:
            async with asyncio.timeout_at(grace_ends_s):
                await asyncio.gather(*(finish() for finish in finishing))
        except TimeoutError:
            log.warning("work without a caller did not end within the grace", grace_ms=grace_ms)


async def _stop_all(loops: Sequence[Ticker]) -> None:
    await asyncio.gather(*(loop.stop(within_s=LOOPS_STOP_S) for loop in loops))


async def _close_all(closing: Sequence[Closing]) -> None:
    for close in closing:
        try:
            async with asyncio.timeout(CLOSING_S):
                await close()
        except TimeoutError:
            log.warning("a part of the service did not close in time", part=close.__qualname__)
