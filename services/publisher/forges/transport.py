"""One HTTP request, sent once: no retry, no redirect, no connection used before. Keeps P3.

It keeps no credential: each call brings the headers for its own host.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
from opentelemetry.trace import Tracer

from services.publisher import spans


@dataclass(frozen=True)
class Answer:
    """What came back in full; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class NeverConnected:
    """No byte of the request left: there was no connection to send it on."""

    why: str


@dataclass(frozen=True)
class NoAnswer:
    """The request may have arrived, and nothing that can be read came back."""

    why: str


Reply = Answer | NeverConnected | NoAnswer


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long each part of a call may take, and how much of an answer is read."""

    connect_timeout_ms: int
    write_timeout_ms: int
    read_timeout_ms: int
    call_timeout_ms: int
    answer_limit_bytes: int


class Transport:
    """Sends requests to whichever forge."""

    def __init__(self, patience: Patience, tracer: Tracer) -> None:
        self._patience = patience
        self._tracer = tracer
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(
                connect=patience.connect_timeout_ms / 1000,
                write=patience.write_timeout_ms / 1000,
                read=patience.read_timeout_ms / 1000,
                pool=None,
            ),
            # A server may close a kept connection just as the next request leaves on it, and
            # nobody could tell whether it was read: every write has a connection of its own.
            limits=httpx.Limits(max_keepalive_connections=0),
            follow_redirects=False,
            # Neither a proxy nor a .netrc of the environment may see or change the credential.
            trust_env=False,
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Reply:
        """Sends it once; every failure of the way there and back is a reply, not an error."""
        with spans.http_span(self._tracer, method=method, url=url) as span:
            request = self._http.build_request(
                method, url, content=body, headers={**headers, "connection": "close"}
            )
            reply = await self._reply(request)
            if isinstance(reply, Answer):
                spans.tell_status(span, reply.status)
            else:
                spans.tell_no_answer(span, reply.why)
            return reply

    async def close(self) -> None:
        """Ends what is still open."""
        await self._http.aclose()

    async def _reply(self, request: httpx.Request) -> Reply:
        try:
            async with asyncio.timeout(self._patience.call_timeout_ms / 1000):
                return await self._exchange(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return NeverConnected(_words(error))
        except httpx.TransportError as error:
            return NoAnswer(_words(error))
        except TimeoutError:
            return NoAnswer(f"the call took more than {self._patience.call_timeout_ms} ms")

    async def _exchange(self, request: httpx.Request) -> Reply:
        response = await self._http.send(request, stream=True)
        try:
            body = await self._body(response)
        except httpx.RequestError as error:
            return NoAnswer(f"status {response.status_code}, then {_words(error)}")
        finally:
            await response.aclose()
        if body is None:
            limit = self._patience.answer_limit_bytes
            return NoAnswer(f"status {response.status_code} with more than {limit} bytes")
        return Answer(response.status_code, dict(response.headers), body)

    async def _body(self, response: httpx.Response) -> bytes | None:
        """None: over the limit."""
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > self._patience.answer_limit_bytes:
                return None
        return bytes(body)


def _words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
