"""The door's bounds on the wire: who stalls holds no place, bytes count, a drain answers.

Each ingress has room for little, and a database in which one delivery waits for as long as a test
wants.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from psycopg import AsyncConnection

from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking
from tests.rows import Rows
from tests.services.ingress.pulls import ENDPOINT, pull
from tests.services.ingress.registered import register
from tests.services.ingress.served import Served, served_beside
from tests.services.ingress.webhooks.posting import PATH, signed
from tests.services.ingress.webhooks.raw_posting import head_of
from tests.waiting import until

PATIENT = {
    "INGRESS_ANSWER_TIMEOUT_MS": "30000",
    "INGRESS_DATABASE_LOCK_TIMEOUT_MS": "30000",
    "INGRESS_DATABASE_STATEMENT_TIMEOUT_MS": "30000",
}
STALLING = {
    "INGRESS_WEBHOOK_CONCURRENCY_MAX": "1",
    "INGRESS_BODY_READ_TIMEOUT_MS": "120000",
    "INGRESS_BODY_SILENCE_TIMEOUT_MS": "120000",
}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MIB = 1024 * 1024
OTHER = pull(number=9)
TAKEN = """
    INSERT INTO fencepost.delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    VALUES ('acme', 'github', 'held', '', clock_timestamp() + interval '1 hour')
"""


@pytest.fixture(autouse=True)
def endpoint(owner_url: str) -> None:
    """GitHub's, before ingress starts."""
    register(owner_url, ENDPOINT)


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        await blocker.hold(TAKEN)
        yield blocker


async def stall(ingress: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A sender of whose body the first bytes have come, and no more will."""
    host, port = ingress.webhooks.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = head_of(OTHER, len(OTHER)).replace("host: x", "host: x\r\nexpect: 100-continue")
    writer.write(head.encode())
    # The door says so as it begins to read.
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30) == CONTINUE
    writer.write(OTHER[:10])
    await writer.drain()
    return reader, writer


async def post(ingress: Served, body: bytes, delivery_id: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            f"http://{ingress.webhooks}{PATH}",
            content=body,
            headers=signed(body, x_github_delivery=delivery_id),
        )


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("stalled", [1, 50])
async def test_stalled_senders_hold_no_place(
    service_url: Callable[[Service], str], stalled: int
) -> None:
    async with served_beside(service_url("ingress"), PATIENT | STALLING) as ingress:
        senders = [await stall(ingress) for _ in range(stalled)]
        assert (await post(ingress, OTHER, "d-1")).status_code == 202
        for reader, writer in senders:
            assert not reader.at_eof()
            writer.close()


@pytest.mark.guarantee("X4")
async def test_of_too_many_stalled_senders_the_first_give_way(
    service_url: Callable[[Service], str],
) -> None:
    bounds = STALLING | {"INGRESS_WEBHOOK_SENDERS_MAX": "3"}
    async with served_beside(service_url("ingress"), PATIENT | bounds) as ingress:
        senders = [await stall(ingress) for _ in range(9)]
        assert (await post(ingress, OTHER, "d-1")).status_code == 202
        for reader, _ in senders[:6]:
            assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 408 ")
        for _, writer in senders:
            writer.close()


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("bound", ["BODY_READ_TIMEOUT_MS", "BODY_SILENCE_TIMEOUT_MS"])
async def test_a_stalled_sender_is_cut_in_time(
    service_url: Callable[[Service], str], bound: str
) -> None:
    bounds = STALLING | {f"INGRESS_{bound}": "1000"}
    async with served_beside(service_url("ingress"), PATIENT | bounds) as ingress:
        reader, writer = await stall(ingress)
        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.mark.guarantee("X4")
async def test_bodies_beyond_the_bytes_that_are_held_at_once_are_refused(
    service_url: Callable[[Service], str], rows: Rows, blocker: Blocker
) -> None:
    bounds = {"INGRESS_WEBHOOK_BUFFER_BYTES_MAX": str(MIB)}
    large, other = (pull(number=number).ljust(MIB * 3 // 4) for number in (2, 3))
    async with served_beside(service_url("ingress"), PATIENT | bounds) as ingress:
        held = asyncio.create_task(post(ingress, large, "held"))
        await blocker.seen_waiting(1)
        refused = await post(ingress, other, "d-2")
        assert (refused.status_code, refused.json()["reason"]) == (503, "OVERLOADED")
        assert int(refused.headers["retry-after"]) >= 1
        await blocker.roll_back()
        assert (await held).status_code == 202
        assert (await post(ingress, other, "d-2")).status_code == 202
    assert len(await rows.all("deliveries")) == 2


@pytest.mark.guarantee("I2", "X3")
async def test_a_drain_answers_what_was_let_in(
    service_url: Callable[[Service], str], rows: Rows, blocker: Blocker
) -> None:
    bounds = {"INGRESS_DRAIN_GRACE_MS": "60000"}
    async with served_beside(service_url("ingress"), PATIENT | bounds) as ingress:
        held = asyncio.create_task(post(ingress, OTHER, "held"))
        await blocker.seen_waiting(1)
        ingress.process.terminate()
        await until(lambda: is_closed(ingress), what="the door to be closed to others")
        assert not held.done()
        await blocker.roll_back()
        assert (await held).status_code == 202
        await until(lambda: ingress.process.poll() is not None, what="ingress to end")
    [delivery] = await rows.all("deliveries")
    assert delivery["delivery_id"] == "held"


async def is_closed(ingress: Served) -> bool:
    """Whether nobody new is let in."""
    host, port = ingress.webhooks.split(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except ConnectionRefusedError:
        return True
    writer.close()
    return False
