"""Reads a request's body: bounded in size and time, whatever Content-Length says."""

import asyncio
from collections.abc import AsyncIterator

from fencepost.errors import BodyTooLarge, FieldInvalid
from starlette.requests import ClientDisconnect, Request

from services.ingress.webhooks.admission import Place

DISCARD_TIMEOUT_S = 1.0


class BodyTooSlowError(Exception):
    """The body did not come in time."""


async def read_body(request: Request, place: Place, *, limit_bytes: int, timeout_ms: int) -> bytes:
    """The raw body. Raises BodyTooLarge as soon as that is known, BodyTooSlowError, FieldInvalid.

    What is over the limit is never kept (I10).
    """
    chunks = request.stream()
    try:
        if _declared_bytes(request) > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        async with asyncio.timeout(timeout_ms / 1000):
            return await _read(chunks, place, limit_bytes)
    except BodyTooLarge:
        if "expect" not in request.headers:
            await _discard(chunks)
        raise
    except TimeoutError:
        raise BodyTooSlowError from None
    except ClientDisconnect:
        raise FieldInvalid(violations=[("body", "ended before its length was reached")]) from None


async def _read(chunks: AsyncIterator[bytes], place: Place, limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        if len(body) + len(chunk) > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        place.hold(len(chunk))
        body += chunk
    return bytes(body)


async def _discard(chunks: AsyncIterator[bytes]) -> None:
    """Lets a sender that is still writing come to its end, so that it reads the answer."""
    try:
        async with asyncio.timeout(DISCARD_TIMEOUT_S):
            async for _ in chunks:
                continue
    except (TimeoutError, ClientDisconnect):
        return


def _declared_bytes(request: Request) -> int:
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else 0
