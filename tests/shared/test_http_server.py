"""The HTTP server starts, answers, bounds what a client may do to it, and stops in time."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shared import http_protocol
from shared.http_protocol import HEAD_LIMIT_BYTES
from shared.http_server import AddressUnavailableError, HttpServer

FLOOD_BYTES = 100 * HEAD_LIMIT_BYTES

Handler = Callable[[Request], Awaitable[Response]]


async def hello(request: Request) -> Response:
    """Says how much it got."""
    return PlainTextResponse(f"hello {len(await request.body())}")


@asynccontextmanager
async def serving(
    handler: Handler = hello, address: str = "127.0.0.1:0", grace_ms: int = 1000
) -> AsyncIterator[HttpServer]:
    """A server with one route."""
    app = Starlette(routes=[Route("/", handler, methods=["GET", "POST"])])
    server = HttpServer(app, address)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(grace_ms=grace_ms)


async def connect(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection."""
    host, _, port = server.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
async def test_it_answers_on_the_port_it_says(address: str) -> None:
    async with serving(address=address) as server, httpx.AsyncClient() as client:
        assert not server.address.endswith(":0")
        answer = await client.post(f"http://{server.address}/", content=b"x" * 3_000_000)
    assert (answer.status_code, answer.text) == (200, "hello 3000000")
    assert "server" not in answer.headers


async def test_a_taken_port_is_told_with_what_to_do() -> None:
    async with serving() as first:
        second = HttpServer(Starlette(), first.address)
        with pytest.raises(AddressUnavailableError) as refused:
            await second.start()
        assert str(refused.value) == (
            f"cannot listen on {first.address}: Address already in use. "
            "Set another address, or stop what is there."
        )
        await second.stop(grace_ms=0)


async def test_it_leaves_the_signals_of_the_process_alone() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    async with serving():
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


async def test_stopping_waits_for_a_request_under_way() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return PlainTextResponse("done")

    async with serving(slow) as server, httpx.AsyncClient() as client:
        call = asyncio.create_task(client.get(f"http://{server.address}/"))
        await begun.wait()
        stop = asyncio.create_task(server.stop(grace_ms=5000))
        await asyncio.sleep(0)
        go_on.set()
        assert (await call).text == "done"
        await stop


async def test_stopping_cuts_a_request_that_does_not_end() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(_: Request) -> Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return PlainTextResponse("never")

    async with serving(endless) as server, httpx.AsyncClient() as client:
        call = asyncio.create_task(client.get(f"http://{server.address}/"))
        await begun.wait()
        began_s = time.monotonic()
        await server.stop(grace_ms=200)
        assert time.monotonic() - began_s < 5
        assert ended.is_set()
        with pytest.raises(httpx.HTTPError):
            await call


async def test_stopping_takes_no_new_request() -> None:
    async with serving() as server:
        address = server.address
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{address}/")


@pytest.mark.parametrize(
    "endless",
    [b"X-Filler: " + b"x" * 1000 + b"\r\n", b"y" * 1000],
    ids=["many headers", "one header"],
)
async def test_a_head_that_does_not_end_is_refused(endless: bytes) -> None:
    async with serving() as server:
        _, writer = await connect(server)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nX-First: ")
        assert await taken_bytes(writer, endless) < FLOOD_BYTES
        writer.transport.abort()


async def taken_bytes(writer: asyncio.StreamWriter, endless: bytes) -> int:
    """How much of a flood the server took before it hung up."""
    for sent_bytes in range(0, FLOOD_BYTES, len(endless)):
        writer.write(endless)
        try:
            await writer.drain()
        except ConnectionError:
            return sent_bytes
        await asyncio.sleep(0)
    return FLOOD_BYTES


async def test_a_long_head_within_the_limit_is_taken() -> None:
    async with serving() as server, httpx.AsyncClient() as client:
        headers = {"x-long": "x" * (HEAD_LIMIT_BYTES - 1000)}
        for _ in range(2):
            answer = await client.post(
                f"http://{server.address}/", headers=headers, content=b"z" * 200_000
            )
            assert answer.text == "hello 200000"


async def test_a_client_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.1)
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(b"GET / HT")
        assert await asyncio.wait_for(reader.read(), timeout=5) == b""
        writer.close()


async def test_a_client_that_stops_within_its_next_request_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.1)
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        assert (await reader.readuntil(b"hello 0")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET / HT")
        assert await asyncio.wait_for(reader.read(), timeout=5) == b""
        writer.close()


async def test_what_is_not_http_is_refused() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), timeout=5)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400")


async def test_a_request_is_in_no_trace_of_the_one_who_started_the_server() -> None:
    seen: list[bool] = []

    async def look(_: Request) -> Response:
        seen.append(trace.get_current_span().get_span_context().is_valid)
        return PlainTextResponse("")

    with TracerProvider().get_tracer("test").start_as_current_span("start"):
        async with serving(look) as server, httpx.AsyncClient() as client:
            await client.get(f"http://{server.address}/")
    assert seen == [False]
