"""Reads a request's body: bounded in size and time, whatever Content-Length says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from io import BytesIO

from fencepost.errors import BodyTooLarge
from starlette.requests import ClientDisconnect, Request

from services.ingress.large_bodies import apart
from services.ingress.webhooks.admission import HeldBytes
from services.ingress.webhooks.senders import Senders

DISCARD_TIMEOUT_S = 1.0


class BodyTooSlowError(Exception):
    """The body did not come in time, or not to its end, or its sender gave way to another."""


async def read_body(
    request: Request,
    held: HeldBytes,
    senders: Senders,
    *,
    limit_bytes: int,
    pass_on: Callable[[bytes], None] | None = None,
) -> bytes:
    """The raw body; raises BodyTooSlowError, and BodyTooLarge as soon as that is known.

    What is over the limit is never kept (I10). With `pass_on` it is handed over piece by piece to
    its end before BodyTooLarge is raised, so that it can still be told who sent it.
    """
    chunks = request.stream()
    try:
        if pass_on is None and _declared_bytes(request) > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        async with senders.sending() as heard:
            return await _read(_each(chunks, heard), held, limit_bytes, pass_on)
    except BodyTooLarge:
        if "expect" not in request.headers:
            await discard(chunks)
        raise
    except TimeoutError:
        raise BodyTooSlowError from None
    except ClientDisconnect:
        raise BodyTooSlowError from None


async def _each(chunks: AsyncIterator[bytes], heard: Callable[[], None]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        heard()
        yield chunk


async def _read(
    chunks: AsyncIterator[bytes],
    held: HeldBytes,
    limit_bytes: int,
    pass_on: Callable[[bytes], None] | None,
) -> bytes:
    # It gives its bytes away as they are; joined from pieces they would be there twice.
    body = BytesIO()
    async for chunk in chunks:
        if body.tell() + len(chunk) > limit_bytes:
            if pass_on is not None:
                kept = body.getvalue()
                await apart(kept, partial(pass_on, kept))
                pass_on(chunk)
                async for more in chunks:
                    pass_on(more)
            raise BodyTooLarge(limit_bytes=limit_bytes)
        held.grow(len(chunk))
        body.write(chunk)
    return body.getvalue()


async def discard(chunks: AsyncIterator[bytes]) -> None:
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
