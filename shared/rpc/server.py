"""The gRPC server of a service: its port, its health, and how it goes down."""

from collections.abc import Sequence

import grpc
import structlog
from grpc import aio
from grpc_reflection.v1alpha import reflection

from shared.rpc.health import Health
from shared.rpc.methods import Methods
from shared.rpc.pipeline import Pipeline
from shared.rpc.tls import server_credentials
from shared.settings import RuntimeSettings, host_and_port

LAST_ANSWERS_S = 0.5
"""Time for answers that are on their way, once every call has ended."""

KEEPALIVE_MS = 20_000
PING_TIMEOUT_MS = 5_000
"""A client that vanished without a word is noticed after both, and its calls are ended."""

CLIENT_PINGS_APART_MS = 5_000

UNCOMPRESSED_ALONE = 1 << grpc.Compression.NoCompression.value

log = structlog.get_logger(__name__)


class PortUnavailableError(Exception):
    """The address cannot be listened on."""


class RpcServer:
    """Serves servicers on the settings' address; raises ServiceCannotBeServedError when built."""

    def __init__(
        self, settings: RuntimeSettings, pipeline: Pipeline, servicers: Sequence[object]
    ) -> None:
        methods = Methods()
        for servicer in servicers:
            methods.add(servicer)
        services = sorted({method.service for method in methods.found})
        if settings.serves_reflection:
            methods.add(reflection.aio.ReflectionServicer([*services, *_SERVED_BESIDE]))
        self._settings = settings
        self._calls = pipeline.calls
        self._handlers = {f"/{each.name}": pipeline.handler(each) for each in methods.found}
        self.health = Health(services)
        self._server: aio.Server | None = None
        self.port = 0
        """The port that is listened on, chosen by the system where the address says 0."""

    @property
    def address(self) -> str:
        """host:port that is listened on."""
        host, _ = host_and_port(self._settings.grpc_address)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Listens; raises PortUnavailableError, CertificateUnreadableError."""
        server = aio.server(options=server_options(self._settings))
        server.add_generic_rpc_handlers([_Handlers(self._handlers)])
        await self.health.register(server)
        self.port = self._listen(server)
        await server.start()
        self._server = server

    async def drain(self, *, within_s: float) -> None:
        """Refuses new calls, lets those under way end, then closes. Keeps the grace."""
        self._calls.drain()
        await self.health.drain()
        if not await self._calls.drained(within_s=within_s):
            log.warning("calls did not end within the grace and were ended", grace_s=within_s)
        if self._server is not None:
            await self._server.stop(LAST_ANSWERS_S)

    def _listen(self, server: aio.Server) -> int:
        address = self._settings.grpc_address
        credentials = server_credentials(self._settings)
        try:
            if credentials is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise PortUnavailableError(
                f"{self._settings.variable('grpc_address')}={address} cannot be listened on: "
                "another process has the port, or the address is not of this machine"
            ) from error


def server_options(settings: RuntimeSettings) -> list[tuple[str, int]]:
    """gRPC's own knobs, all times in ms."""
    return [
        ("grpc.max_receive_message_length", settings.message_limit_bytes),
        # gRPC holds a compressed message to that limit before it opens it: none is taken.
        ("grpc.compression_enabled_algorithms_bitset", UNCOMPRESSED_ALONE),
        ("grpc.max_concurrent_streams", settings.concurrent_rpcs_max),
        # Two processes on one port would share its calls by chance.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        # gRPC's keepalive_timeout_ms does not bound the wait for a ping's answer.
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        # Our clients ping with or without calls; who pings more often is disconnected.
        ("grpc.http2.min_ping_interval_without_data_ms", CLIENT_PINGS_APART_MS),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


class _Handlers(grpc.GenericRpcHandler):
    """One look-up by path; grpc's registered methods cost a waiting future each for every call."""

    def __init__(self, by_path: dict[str, "grpc.RpcMethodHandler[bytes, bytes]"]) -> None:
        self._by_path = by_path

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._by_path.get(handler_call_details.method)


_SERVED_BESIDE = ("grpc.health.v1.Health", reflection.SERVICE_NAME)
