"""An HTTP server inside the running loop, that starts, says its address, and stops when told."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from shared.http_protocol import BoundedHeadProtocol
from shared.settings import host_and_port

BACKLOG = 1024
CONNECTIONS_MAX = 1000
KEEP_ALIVE_S = 30
DATE_HEADER_EVERY_S = 1.0
LINGER_MS = 500
"""What a request that was cut may take to end."""


class AddressUnavailableError(Exception):
    """The server cannot listen there; the text says why and what to do."""


class HttpServer:
    """Serves one ASGI application on host:port, where port 0 takes a free one."""

    def __init__(
        self, app: ASGIApp, address: str, *, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        self._address = address
        self._server = _Server(_config(app, connections_max))
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """host:port; after start() with the port it really listens on."""
        return self._address

    async def start(self) -> None:
        """Returns when requests are accepted. Raises AddressUnavailableError."""
        listening = _listen(self._address)
        host, port = listening.getsockname()[:2]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._serving = asyncio.create_task(self._server.serve([listening]), name="http server")
        begun = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait({self._serving, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if self._serving.done():
            await self._serving

    async def stop(self, *, grace_ms: int) -> None:
        """Takes no new request, lets those under way end for so long, then cuts them."""
        if self._serving is None:
            return
        self._server.leave()
        await asyncio.wait({self._serving}, timeout=grace_ms / 1000)
        self._server.cut()
        _, late = await asyncio.wait({self._serving}, timeout=LINGER_MS / 1000)
        for task in late:
            task.cancel()
        self._serving = None


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and asleep while nothing happens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Begins to stop."""
        self.should_exit = True
        self._leaving.set()

    def cut(self) -> None:
        """Cancels what is still under way."""
        self.force_exit = True
        for task in list(self.server_state.tasks):
            task.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(DATE_HEADER_EVERY_S):
                    await self._leaving.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process, which runs more than this server."""
        yield


def _config(app: ASGIApp, connections_max: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedHeadProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=connections_max,
        timeout_keep_alive=KEEP_ALIVE_S,
        # A request belongs to no trace but the one it names itself.
        reset_contextvars=True,
    )


def _listen(address: str) -> socket.socket:
    host, port = host_and_port(address)
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _unavailable(address, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
    except OSError as error:
        listening.close()
        raise _unavailable(address, error) from error
    return listening


def _unavailable(address: str, error: OSError) -> AddressUnavailableError:
    return AddressUnavailableError(
        f"cannot listen on {address}: {error.strerror}. Set another address, or stop what is there."
    )
