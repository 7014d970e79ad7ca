"""Where a request failed tells whether any of it can have left (P4)."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from opentelemetry.trace import NoOpTracer

from services.publisher.forges.transport import NeverConnected, NoAnswer, Patience, Reply, Transport

PATIENCE = Patience(
    connect_timeout_ms=200,
    write_timeout_ms=200,
    read_timeout_ms=200,
    call_timeout_ms=20_000,
    answer_limit_bytes=1024,
)


async def reply_of(listener: socket.socket) -> Reply:
    """What comes of a request to whoever listens there."""
    transport = Transport(PATIENCE, NoOpTracer())
    host, port = listener.getsockname()
    reply = await transport.send("POST", f"http://{host}:{port}/", {}, b"{}")
    await transport.close()
    return reply


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Accepts nobody, and lets one wait."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        yield listener


@pytest.mark.guarantee("P4")
async def test_a_connection_that_did_not_come_in_time_proves_that_nothing_was_sent(
    listener: socket.socket,
) -> None:
    with ExitStack() as waiting:
        # The system keeps room for one or two; who comes later gets no answer at all.
        for _ in range(4):
            taken = waiting.enter_context(socket.socket())
            taken.setblocking(False)
            taken.connect_ex(listener.getsockname())
        assert await reply_of(listener) == NeverConnected("ConnectTimeout")


@pytest.mark.guarantee("P4")
async def test_an_answer_that_did_not_come_in_time_proves_nothing(listener: socket.socket) -> None:
    assert await reply_of(listener) == NoAnswer("ReadTimeout")


@pytest.mark.guarantee("P4")
async def test_a_refused_connection_proves_that_nothing_was_sent() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        assert isinstance(await reply_of(unheard), NeverConnected)
