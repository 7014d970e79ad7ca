"""While the database is away no webhook is answered 2xx; a killed ingress left all or nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import LiteralString

import httpx
import pytest
from psycopg import AsyncConnection

from shared.schema.grants import Service
from tests.database_proxy import COMMIT, DatabaseProxy
from tests.races.forcing import Blocker, blocking
from tests.rows import Rows
from tests.services.ingress.desk import ONE_EACH, written
from tests.services.ingress.pulls import ENDPOINT, pull
from tests.services.ingress.registered import register
from tests.services.ingress.served import Served, served_beside
from tests.services.ingress.webhooks.posting import PATH, signed
from tests.waiting import until

ANSWER_WITHIN_S = 5.0
ALL = ONE_EACH | {"body_markers": 1}
"""GitHub does not sign the id, so a body is known by its digest, too."""
PATIENT = {"INGRESS_ANSWER_TIMEOUT_MS": "30000", "INGRESS_DATABASE_LOCK_TIMEOUT_MS": "30000"}
PATIENT |= {"INGRESS_DATABASE_STATEMENT_TIMEOUT_MS": "30000"}


@pytest.fixture(autouse=True)
def endpoint(owner_url: str) -> None:
    """GitHub's, before ingress starts."""
    register(owner_url, ENDPOINT)


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    async with DatabaseProxy.before(service_url("ingress")) as proxy:
        yield proxy


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def post(ingress: Served, body: bytes, delivery_id: str = "d-1") -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            f"http://{ingress.webhooks}{PATH}",
            content=body,
            headers=signed(body, x_github_delivery=delivery_id),
        )


@pytest.mark.guarantee("I2")
async def test_while_the_database_is_away_a_webhook_is_told_to_come_again(
    proxy: DatabaseProxy, rows: Rows
) -> None:
    async def refused(ingress: Served) -> None:
        began_s = monotonic()
        response = await post(ingress, pull())
        assert monotonic() - began_s < ANSWER_WITHIN_S
        assert (response.status_code, response.json()["reason"]) == (503, "DATABASE_UNAVAILABLE")
        assert int(response.headers["retry-after"]) >= 1

    await proxy.cut()
    async with served_beside(proxy.url()) as ingress:
        await refused(ingress)
        await proxy.restore()
        await until(lambda: _taken(ingress, "d-0", 9), deadline_s=15, what="the database")
        proxy.freeze()
        await refused(ingress)
        await proxy.restore()
        await until(lambda: _taken(ingress, "d-1", 7), deadline_s=15, what="the database again")
    assert {row["delivery_id"] for row in await rows.all("deliveries")} == {"d-0", "d-1"}


async def _taken(ingress: Served, delivery_id: str, number: int) -> bool:
    return (await post(ingress, pull(number=number), delivery_id)).status_code == 202


@pytest.mark.guarantee("X3")
async def test_nothing_is_taken_in_before_the_schema_was_seen(
    proxy: DatabaseProxy, rows: Rows
) -> None:
    async def refused_for_the_schema(ingress: Served) -> bool:
        response = await post(ingress, pull())
        assert response.status_code == 503
        return bool(response.json()["reason"] == "SCHEMA_MISMATCH")

    await rows.change("schema_revision", {"singleton": 1}, revision=0)
    await proxy.cut()
    async with served_beside(proxy.url()) as ingress:
        await proxy.restore()
        await until(
            lambda: refused_for_the_schema(ingress), deadline_s=15, what="the schema to be seen"
        )
    assert await written(rows) == {}


MARKER_TAKEN = """
    INSERT INTO fencepost.delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    VALUES ('acme', 'github', 'd-1', '', 'infinity')
"""
INTENTS_LOCKED = "LOCK TABLE fencepost.intents IN SHARE MODE"
DELIVERIES_LOCKED = "LOCK TABLE fencepost.deliveries IN SHARE MODE"


@pytest.mark.guarantee("I2")
@pytest.mark.parametrize(
    ("hold", "left"),
    [
        (MARKER_TAKEN, [{}]),
        (INTENTS_LOCKED, [{}]),
        # The commit is on its way with it: the server may see it before the client's end.
        (DELIVERIES_LOCKED, [{}, ALL]),
    ],
    ids=["marker", "intent", "delivery"],
)
async def test_killed_anywhere_all_is_written_or_nothing_and_a_redelivery_succeeds(
    service_url: Callable[[Service], str],
    rows: Rows,
    blocker: Blocker,
    hold: LiteralString,
    left: list[dict[str, int]],
) -> None:
    await blocker.hold(hold)
    async with served_beside(service_url("ingress"), PATIENT) as ingress:
        posting = asyncio.create_task(post(ingress, pull()))
        [stuck] = await blocker.seen_waiting(1)
        ingress.kill()
        with pytest.raises(httpx.TransportError):
            await posting
    await blocker.roll_back()
    await until(lambda: _gone(rows, stuck.pid), what="the dead ingress's session to end")
    assert await written(rows) in left
    async with served_beside(service_url("ingress")) as ingress:
        assert (await post(ingress, pull())).is_success
    assert await written(rows) == ALL


async def _gone(rows: Rows, pid: int) -> bool:
    cursor = await rows.connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid]
    )
    return await cursor.fetchone() == (0,)


@pytest.mark.guarantee("I2")
async def test_killed_between_commit_and_answer_a_redelivery_gets_the_first_result(
    proxy: DatabaseProxy, rows: Rows
) -> None:
    async with served_beside(proxy.url(), PATIENT) as ingress:
        proxy.trap(COMMIT, "keep the answer", after=b"INSERT INTO deliveries")
        posting = asyncio.create_task(post(ingress, pull()))
        await until(lambda: written(rows), what="the commit")
        ingress.kill()
        with pytest.raises(httpx.TransportError):
            await posting
    async with served_beside(proxy.url()) as ingress:
        response = await post(ingress, pull())
    assert (response.status_code, response.json()["outcome"]) == (200, "duplicate")
    assert response.json()["intents"] == [row["intent_id"] for row in await rows.all("intents")]
    assert await written(rows) == ALL


@pytest.mark.guarantee("X4")
async def test_beyond_its_bounds_the_door_refuses_and_recovers(
    service_url: Callable[[Service], str], rows: Rows, blocker: Blocker
) -> None:
    await blocker.hold(MARKER_TAKEN)
    bounds = PATIENT | {"INGRESS_WEBHOOK_CONCURRENCY_MAX": "1"}
    async with served_beside(service_url("ingress"), bounds) as ingress:
        posting = asyncio.create_task(post(ingress, pull()))
        await blocker.seen_waiting(1)
        refused = await post(ingress, pull(number=9), "d-2")
        assert (refused.status_code, refused.json()["reason"]) == (503, "OVERLOADED")
        assert int(refused.headers["retry-after"]) >= 1
        await blocker.roll_back()
        assert (await posting).status_code == 202
        assert (await post(ingress, pull(number=9), "d-2")).status_code == 202
    assert len(await rows.all("deliveries")) == 2


@pytest.mark.guarantee("I2")
async def test_a_lock_that_is_not_let_go_is_answered_in_time(
    service_url: Callable[[Service], str], rows: Rows, blocker: Blocker
) -> None:
    await blocker.hold(MARKER_TAKEN)
    async with served_beside(service_url("ingress")) as ingress:
        began_s = monotonic()
        response = await post(ingress, pull())
        assert monotonic() - began_s < ANSWER_WITHIN_S
        assert (response.status_code, response.json()["reason"]) == (503, "OVERLOADED")
        await blocker.roll_back()
        assert (await post(ingress, pull())).status_code == 202
    assert await written(rows) == ALL


@pytest.mark.guarantee("I2")
async def test_a_large_body_may_wait_longer_than_others(
    service_url: Callable[[Service], str], rows: Rows, blocker: Blocker
) -> None:
    await blocker.hold(MARKER_TAKEN)
    impatient = PATIENT | {"INGRESS_ANSWER_TIMEOUT_MS": "100"}
    async with served_beside(service_url("ingress"), impatient) as ingress:
        posting = asyncio.create_task(post(ingress, pull(title="x" * 1_100_000)))
        await blocker.seen_waiting(1)
        answered, _ = await asyncio.wait({posting}, timeout=0.5)
        assert not answered
        await blocker.roll_back()
        assert (await posting).status_code == 202
