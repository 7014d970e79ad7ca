"""Reads of a forge: tried a bounded number of times, and never carried to another host.

Reading changes nothing, so it may be repeated where a write may not (P3). The credential goes to
the host it is for and nowhere else: a redirect that leads away is not followed.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from services.publisher.forges.answers import without_secret
from services.publisher.forges.transport import Answer, Reply, Transport

FIRST_PAUSE_MS = 200
REDIRECTS_MAX = 3
REDIRECTS = frozenset({301, 302, 307, 308})
PASSING = frozenset({500, 502, 503, 504})


class Reader:
    """Reads from whichever forge."""

    def __init__(self, transport: Transport, *, attempts_max: int) -> None:
        self._transport = transport
        self._attempts_max = attempts_max

    async def read(self, url: str, headers: Mapping[str, str], *, secret: str) -> Reply:
        """The reply without the secret that the headers carry. Keeps K2."""
        reply = await self._followed(url, headers)
        pause_ms = FIRST_PAUSE_MS
        for _ in range(self._attempts_max - 1):
            if not _may_pass(reply):
                break
            await asyncio.sleep(pause_ms / 1000)
            pause_ms *= 2
            reply = await self._followed(url, headers)
        return without_secret(reply, secret)

    async def _followed(self, url: str, headers: Mapping[str, str]) -> Reply:
        for _ in range(REDIRECTS_MAX):
            reply = await self._transport.send("GET", url, headers)
            onward = _target(url, reply)
            if onward is None:
                return reply
            url = onward
        return await self._transport.send("GET", url, headers)


def _may_pass(reply: Reply) -> bool:
    """Whether the next try may fare better; one that the forge dates is not for us to hurry."""
    if not isinstance(reply, Answer):
        return True
    return reply.status in PASSING and "retry-after" not in reply.headers


def _target(url: str, reply: Reply) -> str | None:
    """Where a redirect leads on the same host. None: nowhere, or away."""
    if not isinstance(reply, Answer) or reply.status not in REDIRECTS:
        return None
    try:
        target = urljoin(url, reply.headers["location"])
        return target if _origin(target) == _origin(url) else None
    except (KeyError, ValueError):
        return None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
