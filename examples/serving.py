"""What the example servers share: an address to bind, a ready line once served, a clean exit."""

import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT as a pair; raises ValueError where it is not of that form."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def listen(address: tuple[str, int]) -> socket.socket:
    """A bound socket, port 0 for any free one; a taken port ends the process with a sentence."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, an
    # answer's body waits some 40 ms for the acknowledgement of its headers.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        sys.exit(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}")
    return listener


def shown(listener: socket.socket) -> str:
    """The address actually bound, as HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class AnnouncingServer(uvicorn.Server):
    """A uvicorn server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to serve, then announces it."""
        await super().startup(sockets=sockets)
        self._announce()


def http_server(
    app: ASGIApp, *, protocol: type | None = None, announce: Callable[[], None]
) -> AnnouncingServer:
    """A quiet HTTP/1.1 server that waits at most two seconds for calls under way at its end."""
    config = uvicorn.Config(
        app,
        http=protocol or "h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    return AnnouncingServer(config, announce)


def exit_zero_on_signals() -> None:
    """SIGTERM and SIGINT are how these servers are meant to end: status 0, no traceback.

    uvicorn raises the signal again once it has shut down, which is when this handler runs.
    """

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, leave)
