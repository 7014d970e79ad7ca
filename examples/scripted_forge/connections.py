"""Lets an answer be a connection reset: uvicorn hides the transport, so it is noted here."""

import asyncio
import socket
import struct

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

Peer = tuple[str, int] | None


class Connections:
    """The open connections by their client's address."""

    def __init__(self) -> None:
        self._transports: dict[Peer, asyncio.Transport] = {}

    def reset(self, peer: Peer) -> None:
        """Ends the connection with a TCP reset, dropping what was not yet sent."""
        transport = self._transports[peer]
        linger_none = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger_none
        )
        transport.abort()

    def protocol(self) -> type[asyncio.Protocol]:
        """The HTTP protocol class that notes its connections here."""
        transports = self._transports

        class NotedProtocol(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it too
                super().connection_made(transport)
                transports[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                transports.pop(self.client, None)
                super().connection_lost(exc)

        return NotedProtocol


class Reset(Response):
    """An answer that is none: the connection is reset."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> None:
        """Resets, then waits until the server has noticed, or it would answer 500 itself."""
        self._connections.reset(scope["client"])
        while (await receive())["type"] != "http.disconnect":
            continue
