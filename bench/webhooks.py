"""Signed webhooks over kept connections, with as little client as HTTP/1.1 allows.

A full HTTP client in Python costs more a request than the server that is measured.
"""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Self

from bench.payloads import EVENT, SECRET, Delivery

ACCEPTED: Final = b"202"
LENGTH: Final = b"content-length:"


class RefusedError(Exception):
    """A webhook was not answered 202."""


class Webhooks:
    """Posts over a number of connections; one request at a time on each."""

    def __init__(self, address: str, path: str) -> None:
        self._host, self._path = address, path
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.Queue()
        )

    @classmethod
    @asynccontextmanager
    async def to(cls, address: str, path: str, *, connections: int) -> AsyncIterator[Self]:
        """So many connections to host:port, closed at the end of the block."""
        webhooks = cls(address, path)
        host, _, port = address.rpartition(":")
        async with AsyncExitStack() as stack:
            for _ in range(connections):
                reader, writer = await asyncio.open_connection(host, int(port))
                stack.callback(writer.close)
                webhooks._free.put_nowait((reader, writer))
            yield webhooks

    async def post(self, delivery: Delivery) -> None:
        """Raises RefusedError unless it was accepted."""
        reader, writer = await self._free.get()
        writer.write(self._head(delivery))
        writer.write(delivery.body)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.readexactly(_length(head))
        self._free.put_nowait((reader, writer))
        if head.split(b" ", 2)[1] != ACCEPTED:
            raise RefusedError(f"{head.decode()}{answer.decode()}")

    def _head(self, delivery: Delivery) -> bytes:
        signature = hmac.new(SECRET.encode(), delivery.body, hashlib.sha256).hexdigest()
        return (
            f"POST {self._path} HTTP/1.1\r\n"
            f"Host: {self._host}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(delivery.body)}\r\n"
            f"X-GitHub-Event: {EVENT}\r\n"
            f"X-GitHub-Delivery: {delivery.delivery_id}\r\n"
            f"X-Hub-Signature-256: sha256={signature}\r\n\r\n"
        ).encode()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(LENGTH):
            return int(line[len(LENGTH) :])
    raise RefusedError(f"the answer does not say how long it is: {head.decode()}")
