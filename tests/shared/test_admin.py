"""The admin port: alive without the database, ready only with it, and back by itself."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from fencepost.errors import DatabaseUnavailable
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from shared import admin
from shared.admin import AdminServer
from shared.database import Database
from tests.database_proxy import DatabaseProxy
from tests.shared.database.conftest import settings_for
from tests.waiting import until

Check = Callable[[], Awaitable[None]]


@asynccontextmanager
async def admin_port(**readiness: Check) -> AsyncIterator[tuple[AdminServer, httpx.AsyncClient]]:
    """A running admin port and a client of it."""
    server = AdminServer("127.0.0.1:0", readiness=readiness, registry=CollectorRegistry())
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{server.address}") as client:
            yield server, client
    finally:
        await server.stop()


async def well() -> None:
    """A check that passes."""


async def test_a_service_without_problems_is_ready() -> None:
    async with admin_port(database=well) as (_, client):
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "problems": {}})


async def test_a_problem_is_named_with_what_to_do() -> None:
    async def away() -> None:
        raise DatabaseUnavailable(message="The database is away: start it.")

    async with admin_port(database=away, schema=well) as (_, client):
        answer = await client.get("/readyz")
        assert (await client.get("/livez")).status_code == 200
    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "problems": {"database": "The database is away: start it."},
    }


async def test_a_check_that_hangs_is_a_problem_within_a_probes_patience() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    async with admin_port(database=hangs) as (_, client):
        began_s = time.monotonic()
        answer = await client.get("/readyz")
        assert time.monotonic() - began_s < 5
    assert answer.json()["problems"] == {"database": "It did not answer within 900 ms."}


async def test_a_check_that_breaks_is_logged_and_not_shown() -> None:
    async def broken() -> None:
        raise ZeroDivisionError("internals")

    async with admin_port(database=broken) as (_, client):
        with capture_logs() as logs:
            answer = await client.get("/readyz")
    assert answer.json()["problems"] == {"database": "The check itself failed: see the log."}
    assert logs[0]["check"] == "database"
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)


async def test_checks_run_once_however_many_ask() -> None:
    runs = 0

    async def counted() -> None:
        nonlocal runs
        runs += 1

    async with admin_port(database=counted) as (_, client):
        await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
    assert runs == 1


async def test_a_service_that_drains_is_alive_and_not_ready() -> None:
    async with admin_port(database=well) as (server, client):
        server.set_draining()
        answer = await client.get("/readyz")
        assert (await client.get("/livez")).status_code == 200
    assert answer.status_code == 503
    assert list(answer.json()["problems"]) == ["draining"]


async def test_metrics_are_shown_for_prometheus() -> None:
    registry = CollectorRegistry()
    Counter("seen_total", "Seen.", registry=registry).inc(3)
    server = AdminServer("127.0.0.1:0", readiness={}, registry=registry)
    await server.start()
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://{server.address}/metrics")
    await server.stop()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "seen_total 3.0" in answer.text


async def test_readiness_tells_the_truth_about_the_database_and_comes_back(
    owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "CHECK_CACHE_MS", 10)
    async with DatabaseProxy.before(owner_url) as proxy:
        settings = settings_for(proxy.url())
        async with (
            Database.create(settings, application_name="test") as db,
            admin_port(database=db.ping) as (_, client),
        ):

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            async def not_ready() -> bool:
                return not await ready()

            await until(ready, what="the service to be ready")
            for fault in (proxy.cut, frozen(proxy)):
                await fault()
                await until(not_ready, what="the absence to be told")
                assert (await client.get("/livez")).status_code == 200
                await proxy.restore()
                await until(ready, what="the service to be ready again")


def frozen(proxy: DatabaseProxy) -> Callable[[], Awaitable[None]]:
    """Freezes the network when called."""

    async def freeze() -> None:
        proxy.freeze()

    return freeze
