"""Figures from real rows, and what is said when they cannot be read."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeGuard

import pytest
from psycopg import sql

from services.watchdog.settings import WatchdogSettings
from services.watchdog.status import operations
from services.watchdog.status.figures_store import FIGURES, Figure
from services.watchdog.status.operations import (
    Observation,
    Observed,
    StatusOperations,
    Unobservable,
)
from shared.database import Database, statement
from tests.database_proxy import DatabaseProxy
from tests.rows import Rows, from_now
from tests.services.watchdog.made import watchdog_settings
from tests.waiting import until

NAMES = [figure.name for figure in FIGURES]
HOUR_MS = 3_600_000
GROWING = re.compile(r"Seq Scan on (deliveries|intents|leases|publication_attempts|run_spans)")
SILENT = {"last_delivery_age_seconds", "endpoint_heard_age_seconds"}
NOTHING = {name: 0.0 for name in NAMES if name not in SILENT}


@pytest.fixture
def status(database: Database, settings: WatchdogSettings) -> StatusOperations:
    return StatusOperations(database, settings)


async def observed(status: StatusOperations, tenant: str | None = "acme") -> dict[str, float]:
    """Values of the figures that were observed."""
    return {
        each.figure.name: each.value
        for each in await status.status(tenant)
        if isinstance(each, Observed)
    }


async def unobservable(status: StatusOperations) -> dict[str, Unobservable]:
    """The figures that were not."""
    return {
        each.figure.name: each
        for each in await status.status("acme")
        if isinstance(each, Unobservable)
    }


def is_first(observation: Observation) -> TypeGuard[Observed]:
    """Whether this is the first figure, and was observed."""
    return isinstance(observation, Observed) and observation.figure.name == NAMES[0]


async def some_of_everything(rows: Rows, tenant: str) -> None:
    """One or two rows for each figure, and others that must not count."""
    await rows.delivery(tenant=tenant, received_at=from_now(-2 * HOUR_MS))
    await rows.delivery(tenant=tenant, received_at=from_now(-90_000))
    await rows.delivery(tenant=tenant, received_at=from_now(-30_000), outcome="ignored")
    await rows.ready(await rows.intent(tenant=tenant), entered_at=from_now(-600_000))
    await rows.ready(await rows.intent(tenant=tenant), entered_at=from_now(-60_000))
    await rows.waiting(await rows.intent(tenant=tenant))
    await rows.intent(tenant=tenant, status="dead", settled_at=from_now(0))
    await rows.lease(await rows.intent(tenant=tenant), claimable_in_ms=-1000)
    work = await rows.work(tenant=tenant)
    await rows.lease(
        await rows.intent(tenant=tenant, status="succeeded", settled_at=from_now(0)),
        state="succeeded",
        settled_at=from_now(0),
    )
    for number, state in enumerate(("open", "open", "detached", "ended")):
        ended_at = from_now(0) if state == "ended" else None
        await rows.insert(
            "sessions",
            session_id=f"{tenant}-{number}",
            tenant=tenant,
            key_id="k",
            queues=["reviews"],
            replica="r",
            state=state,
            ended_at=ended_at,
        )
    for number, state in enumerate(("running", "uncertain", "uncertain", "refused", "succeeded")):
        await rows.attempt(await rows.publication(work, name=f"review-{number}"), status=state)
    await rows.hold(tenant=tenant)
    await rows.hold(tenant=tenant, released_by="ops", released_at=from_now(0))
    for number in range(3):
        await rows.insert(
            "run_spans",
            tenant=tenant,
            intent_id=work.intent_id,
            trace_id=b"t" * 16,
            span_id=bytes([number]) * 8,
            service_name="bot",
            otlp_span=b"",
            exported_at=None if number else from_now(0),
        )


EXPECTED = {
    "deliveries_received_last_hour": 2,
    "deliveries_last_hour": 0,
    "intents_open": 5,
    "intents_ready": 2,
    "intents_waiting": 1,
    "intents_dead": 1,
    "leases_running": 2,
    "leases_overdue": 1,
    "sessions_open": 2,
    "publications_running": 1,
    "publications_uncertain": 2,
    "holds_active": 1,
    "spans_not_exported": 2,
}


@pytest.mark.guarantee("X8")
async def test_figures_count_what_is_there_for_one_tenant_or_for_all(
    status: StatusOperations, rows: Rows
) -> None:
    await some_of_everything(rows, "acme")
    await some_of_everything(rows, "globex")
    of_acme, of_all = await observed(status, "acme"), await observed(status, None)
    for figures in (of_acme, of_all):
        assert 30 <= figures.pop("last_delivery_age_seconds") < 60
        assert 600 <= figures.pop("oldest_ready_age_seconds") < 630
    assert of_acme == EXPECTED
    assert of_all == {name: 2 * value for name, value in EXPECTED.items()}


async def test_a_hold_on_all_tenants_counts_for_each(status: StatusOperations, rows: Rows) -> None:
    await rows.hold()
    assert (await observed(status, "acme"))["holds_active"] == 1
    assert (await observed(status, None))["holds_active"] == 1


@pytest.mark.guarantee("W5")
async def test_an_empty_database_has_zeroes_only_where_zero_is_true(
    status: StatusOperations,
) -> None:
    assert await observed(status) == NOTHING
    absent = await unobservable(status)
    assert {name: each.reason for name, each in absent.items()} == {
        "last_delivery_age_seconds": "no delivery has been stored yet",
        "endpoint_heard_age_seconds": "no endpoint is in use",
    }
    assert await observed(status, None) == NOTHING


@pytest.mark.guarantee("W5")
async def test_a_table_that_may_not_be_read_hides_its_figures_and_no_others(
    status: StatusOperations, rows: Rows
) -> None:
    await rows.hold(tenant="acme")
    assert set(await unobservable(status)) == SILENT
    await rows.connection.execute("REVOKE SELECT ON fencepost.waiting FROM fencepost_watchdog")
    hidden = await unobservable(status)
    assert set(hidden) == {*SILENT, "intents_open", "intents_waiting"}
    waiting = hidden["intents_waiting"]
    assert waiting.reason == "the watchdog's database role may not read what it is made of"
    assert (await observed(status))["holds_active"] == 1
    since = (await unobservable(status))["intents_waiting"].since
    assert since == waiting.since is not None
    await rows.connection.execute("GRANT SELECT ON fencepost.waiting TO fencepost_watchdog")
    assert (await observed(status))["intents_waiting"] == 0


async def test_a_table_that_is_not_as_expected_hides_its_figures(
    status: StatusOperations, rows: Rows
) -> None:
    await rows.connection.execute("ALTER TABLE fencepost.holds RENAME TO holds_of_later")
    hidden = await unobservable(status)
    assert set(hidden) == {*SILENT, "holds_active"}
    assert "SQLSTATE 42P01" in hidden["holds_active"].reason


@asynccontextmanager
async def through_proxy(
    settings: WatchdogSettings, **values: int
) -> AsyncIterator[tuple[DatabaseProxy, StatusOperations]]:
    async with DatabaseProxy.before(settings.database_url.get_secret_value()) as proxy:
        through = watchdog_settings(proxy.url(), **values)
        async with Database.create(through, application_name="watchdog") as database:
            yield proxy, StatusOperations(database, through)


@pytest.mark.guarantee("W5")
async def test_without_a_database_every_figure_is_unobservable_and_still_answered(
    settings: WatchdogSettings,
) -> None:
    async with through_proxy(settings, database_connect_timeout_ms=200) as (proxy, status):
        await proxy.cut()
        hidden = await unobservable(status)
        assert list(hidden) == NAMES
        assert {each.reason for each in hidden.values()} == {"the database does not answer"}
        assert {each.since for each in hidden.values()} == {None}
        await proxy.restore()
        await until(lambda: observed(status), what="the database to be seen again")
        [seen_at] = {each.at for each in await status.status("acme") if is_first(each)}
        await proxy.cut()
        gone = await unobservable(status)
        assert list(gone) == NAMES
        since = gone[NAMES[0]].since
        assert since is not None
        assert timedelta(0) < since - seen_at < timedelta(seconds=30)


@pytest.mark.guarantee("W5")
async def test_a_database_that_is_silent_costs_one_timeout_and_not_one_a_figure(
    settings: WatchdogSettings,
) -> None:
    async with through_proxy(settings, figure_timeout_ms=300) as (proxy, status):
        await observed(status)
        proxy.freeze()
        async with asyncio.timeout(5):
            hidden = await unobservable(status)
        assert list(hidden) == NAMES
        assert {each.reason for each in hidden.values()} == {
            "the database does not answer within 300 ms"
        }


@pytest.mark.guarantee("W5")
async def test_a_query_that_takes_too_long_hides_its_figure_and_no_other(
    owner_url: str, settings: WatchdogSettings, rows: Rows
) -> None:
    quick = settings.model_copy(update={"database_lock_timeout_ms": 100})
    async with Database.create(quick, application_name="watchdog") as database:
        status = StatusOperations(database, quick)
        async with rows.connection.transaction():
            await rows.connection.execute("LOCK TABLE fencepost.holds IN ACCESS EXCLUSIVE MODE")
            hidden = await unobservable(status)
        assert set(hidden) == {*SILENT, "holds_active"}
        assert "locked too long" in hidden["holds_active"].reason


DIVIDES_BY_ZERO = """
    SELECT (1 / extract(epoch FROM now() - now()))::float8 AS value, now() AS at
    WHERE %(tenant)s::text IS NOT NULL
"""
SLEEPS = """
    SELECT 1::float8 AS value, now() AS at FROM pg_sleep(30) WHERE %(tenant)s::text IS NOT NULL
"""


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (DIVIDES_BY_ZERO, "a fault of the watchdog, which stands in its log"),
        (SLEEPS, "its query took longer than a statement may"),
    ],
)
async def test_a_query_that_fails_hides_its_figure_and_no_other(
    settings: WatchdogSettings, monkeypatch: pytest.MonkeyPatch, query: str, reason: str
) -> None:
    broken = Figure(name="broken", description="Never seen.", query=statement(query))
    monkeypatch.setattr(operations, "FIGURES", (*FIGURES, broken))
    quick = settings.model_copy(update={"database_statement_timeout_ms": 2000})
    async with Database.create(quick, application_name="watchdog") as database:
        hidden = await unobservable(StatusOperations(database, quick))
    assert hidden["broken"].reason == reason
    assert set(hidden) == {*SILENT, "broken"}


def test_figures_have_names_with_units_and_descriptions() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for figure in FIGURES:
        assert figure.description.endswith(".")
        if "age" in figure.name:
            assert figure.name.endswith("_seconds")


async def test_no_figure_scans_a_table_that_grows_for_ever(owner_url: str, rows: Rows) -> None:
    """What was settled long ago must not make a figure slow."""
    connection = rows.connection
    await connection.execute("SET search_path = fencepost")
    await connection.execute("SET enable_seqscan = off")
    for figure, tenant in itertools.product(FIGURES, ("acme", None)):
        query = figure.query.text.replace("%(tenant)s", "{tenant}")
        explain = sql.SQL("EXPLAIN {query}").format(query=sql.SQL(query).format(tenant=tenant))
        plan = [str(line) async for (line,) in await connection.execute(explain)]
        assert not [line for line in plan if GROWING.search(line)], figure.name
