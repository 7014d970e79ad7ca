"""A TCP proxy in front of PostgreSQL that can do what networks and servers do on bad days.

It runs in the loop of the test. While frozen it accepts and acknowledges, and passes nothing on;
while cut it refuses. A `trap` is set on what the client sends next, such as COMMIT.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict

from tests.database_server import url_of

CHUNK_BYTES = 64 * 1024
COMMIT = b"COMMIT\x00"
TURNS_FROM_ACCEPTING_TO_SERVING = 4
"""Of the loop."""

Loss = Literal["lose the request", "lose the answer", "keep the answer"]
"""The first two reset the connection; the last leaves it open and silent."""


@dataclass(eq=False)
class _Pair:
    """One client with its connection to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    loss: Loss | None = None
    may_spring: bool = False

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class DatabaseProxy:
    """The database of `upstream_url`, seen through a network that the test controls."""

    def __init__(self, upstream_url: str) -> None:
        parts = conninfo_to_dict(upstream_url)
        self._upstream = (str(parts["host"]), int(str(parts["port"])))
        self._upstream_url = upstream_url
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._port = 0
        self._trap: tuple[bytes, Loss, bytes] | None = None
        self.accepted = 0
        self.trapped = 0

    @classmethod
    @asynccontextmanager
    async def before(cls, upstream_url: str) -> AsyncIterator[Self]:
        """A proxy that works, until the block ends."""
        proxy = cls(upstream_url)
        await proxy.restore()
        try:
            yield proxy
        finally:
            await proxy.cut()

    def url(self, upstream_url: str | None = None) -> str:
        """The database through the proxy: as the proxy's own upstream role, or as another."""
        return url_of(upstream_url or self._upstream_url, host="127.0.0.1", port=self._port)

    @property
    def open_connections(self) -> int:
        """Clients that are connected now."""
        return len(self._pairs)

    async def cut(self) -> None:
        """Resets every connection and refuses new ones."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            # A listener that is closed forgets whom it has accepted and not yet given to _serve.
            for socket in listener.sockets:
                asyncio.get_running_loop().remove_reader(socket)
            for _ in range(TURNS_FROM_ACCEPTING_TO_SERVING):
                await asyncio.sleep(0)
            listener.close()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """Resets every connection; new ones are served."""
        for pair in list(self._pairs):
            pair.abort()

    def freeze(self) -> None:
        """Passes nothing on any more, in either direction, and says nothing about it."""
        self._flowing.clear()

    async def restore(self) -> None:
        """Passes everything on again; serves on the same port as before."""
        self._flowing.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._listener.sockets[0].getsockname()[1]

    def trap(self, request: bytes, loss: Loss, *, after: bytes = b"") -> None:
        """Waits for a request with these bytes, and does that to it; once.

        With `after` only on a connection that has sent these first: a duty in the background may
        send the same on another.
        """
        self._trap = (request, loss, after)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            if self._listener is None:
                raise ConnectionAbortedError
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._upstream)
        pair = _Pair(writer, upstream_writer)
        self._pairs.add(pair)
        pumps = {
            asyncio.create_task(self._to_server(reader, pair)),
            asyncio.create_task(self._to_client(upstream_reader, pair)),
        }
        try:
            # One side is gone: so both are.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pairs.discard(pair)
            pair.abort()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _to_server(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._flowing.wait()
            pair.loss = self._sprung(data, pair) or pair.loss
            if pair.loss == "lose the request":
                return
            pair.server.write(data)
            await pair.server.drain()

    async def _to_client(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._flowing.wait()
            if pair.loss == "lose the answer":
                return
            if pair.loss != "keep the answer":
                pair.client.write(data)
                await pair.client.drain()

    def _sprung(self, data: bytes, pair: _Pair) -> Loss | None:
        if self._trap is None:
            return None
        request, loss, after = self._trap
        pair.may_spring = pair.may_spring or after in data
        if not pair.may_spring or request not in data:
            return None
        self._trap = None
        self.trapped += 1
        return loss
