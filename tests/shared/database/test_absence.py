"""The database goes away in every way it can: callers know within their time, and it comes back."""

import asyncio
import time
from collections.abc import Awaitable

import psycopg
import pytest
from fencepost.errors import DatabaseUnavailable
from structlog.testing import capture_logs

from shared.database import Database, Transaction
from shared.database.connections import Session
from shared.database.database import PING_TIMEOUT_MS
from tests.database_proxy import COMMIT, DatabaseProxy
from tests.shared.database.conftest import add, settings_for, value
from tests.shared.database.test_cancellation import count
from tests.waiting import until

FAR_WITHIN_S = 4.0
"""The budgets of `far` add up to 1.5 s; the rest is for a busy machine."""

ANSWER_WITHIN_MS = 5000
BUSY_S = 1.4
"""What a busy machine may add to the shipped budgets; one wait too many would add 2 s."""

PROBE_PATIENCE_MS = 1000
VALUE = "SELECT value FROM fencepost.counters WHERE name = 'a'"


async def refused(
    call: Awaitable[object], *, within_s: float = FAR_WITHIN_S
) -> DatabaseUnavailable:
    """The refusal of a call that must come in time."""
    began_s = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as found:
        await call
    assert time.monotonic() - began_s < within_s
    return found.value


async def works_again(db: Database) -> None:
    """Waits until work is done as before."""

    async def works() -> bool:
        try:
            await db.run(value)
        except DatabaseUnavailable:
            return False
        return True

    await until(works, what="the database to be back")


async def test_opening_does_not_need_the_database(proxy: DatabaseProxy) -> None:
    await proxy.cut()
    settings = settings_for(proxy.url(), database_connect_timeout_ms=300)
    async with Database.create(settings, application_name="test") as db:
        await refused(db.run(add))
        await proxy.restore()
        await works_again(db)


async def test_a_database_that_refuses_is_told_in_time_and_comes_back(
    far: Database, proxy: DatabaseProxy
) -> None:
    await far.run(add)
    await proxy.cut()
    for _ in range(3):
        assert not (await refused(far.run(add))).outcome_unknown
    await proxy.restore()
    await works_again(far)
    assert await far.read(value) == 1


async def test_a_frozen_database_is_told_in_time_and_comes_back(
    far: Database, proxy: DatabaseProxy
) -> None:
    await far.run(add)
    proxy.freeze()
    for _ in range(3):
        assert not (await refused(far.run(add))).outcome_unknown
    await proxy.restore()
    await works_again(far)


async def test_the_shipped_budgets_answer_within_five_seconds(
    url: str, proxy: DatabaseProxy
) -> None:
    shipped = settings_for(proxy.url())
    waits_ms = Session.of(shipped, application_name="test").answer_timeout_ms
    assert shipped.database_connect_timeout_ms + waits_ms < ANSWER_WITHIN_MS
    async with Database.create(shipped, application_name="test") as db:
        await db.run(add)
        proxy.freeze()
        within_s = ANSWER_WITHIN_MS / 1000 + BUSY_S
        await asyncio.gather(*(refused(db.run(add), within_s=within_s) for _ in range(20)))


async def test_it_freezes_in_the_middle_of_work(
    far: Database, proxy: DatabaseProxy, url: str
) -> None:
    async def work(tx: Transaction) -> None:
        await add(tx)
        proxy.freeze()
        await add(tx)

    assert not (await refused(far.run(work))).outcome_unknown
    await proxy.restore()

    async def rolled_back() -> bool:
        return await count(url, "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple'") == 0

    await until(rolled_back, what="the abandoned transaction to be gone")
    await works_again(far)
    assert await count(url, VALUE) == 0


async def test_a_caller_may_leave_a_frozen_database(far: Database, proxy: DatabaseProxy) -> None:
    await far.run(add)
    proxy.freeze()
    caller = asyncio.create_task(far.run(add))
    await until(lambda: far._flights, what="the transaction to be under way")
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(caller, timeout=FAR_WITHIN_S)
    await proxy.restore()
    await works_again(far)


@pytest.mark.guarantee("X6")
@pytest.mark.parametrize(
    ("loss", "happened"),
    [("lose the answer", 1), ("keep the answer", 1), ("lose the request", 0)],
)
async def test_a_lost_answer_to_commit_is_an_unknown_outcome(
    far: Database, proxy: DatabaseProxy, url: str, loss: str, happened: int
) -> None:
    await far.run(value)
    proxy.trap(COMMIT, loss)  # type: ignore[arg-type]  # one of its words
    refusal = await refused(far.run(add))
    assert refusal.outcome_unknown
    assert proxy.trapped == 1
    assert await count(url, VALUE) == happened
    await works_again(far)


@pytest.mark.guarantee("X6")
async def test_a_session_that_the_server_ends_during_commit_is_an_unknown_outcome(
    far: Database, url: str
) -> None:
    """The server says FATAL, which it may do after the commit is durable."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as operator:
        await operator.execute("""
            CREATE FUNCTION fencepost.hold() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN PERFORM pg_sleep(10); RETURN NULL; END$$;
            CREATE CONSTRAINT TRIGGER hold AFTER UPDATE ON fencepost.counters
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fencepost.hold();
        """)
        caller = asyncio.create_task(far.run(add))

        async def ended() -> bool:
            cursor = await operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event = 'PgSleep' AND datname = current_database()"
            )
            return await cursor.fetchone() is not None

        await until(ended, what="COMMIT to be under way")
    with pytest.raises(DatabaseUnavailable) as refusal:
        await caller
    assert refusal.value.outcome_unknown


async def test_no_caller_notices_that_idle_connections_died(
    far: Database, proxy: DatabaseProxy
) -> None:
    await asyncio.gather(*(far.run(add) for _ in range(20)))
    proxy.reset()
    await asyncio.gather(*(far.run(add) for _ in range(20)))
    assert await far.read(value) == 40


async def test_a_read_that_lost_its_connection_wrote_nothing(
    far: Database, proxy: DatabaseProxy
) -> None:
    await far.run(value)
    proxy.trap(COMMIT, "lose the answer")
    assert not (await refused(far.read(value))).outcome_unknown


async def test_the_ping_says_where_and_why(far: Database, proxy: DatabaseProxy) -> None:
    await far.ping()
    await proxy.cut()
    await refused(far.run(add))
    refusal = await refused(far.ping())
    host, _, rest = proxy.url().rpartition("@")[2].partition(":")
    assert f"The database {host}:{rest} is away" in str(refusal)
    assert "Connection refused" in str(refusal)
    assert "password" not in str(refusal)
    await proxy.restore()
    await works_again(far)
    await far.ping()


async def test_a_ping_of_a_frozen_database_answers_within_a_probes_patience(
    proxy: DatabaseProxy, url: str
) -> None:
    assert PING_TIMEOUT_MS < PROBE_PATIENCE_MS
    async with Database.create(settings_for(proxy.url()), application_name="test") as db:
        await db.ping()
        proxy.freeze()
        # Long before the shipped budgets are over.
        await refused(db.ping(), within_s=2.3)


async def test_an_absence_is_logged_once_and_so_is_its_end(
    far: Database, proxy: DatabaseProxy
) -> None:
    await far.run(add)
    with capture_logs() as logs:
        await proxy.cut()
        for _ in range(3):
            await refused(far.run(add))
        await proxy.restore()
        await works_again(far)
    told = [entry for entry in logs if entry["event"].startswith("database ")]
    away, *still_away, back = [entry["event"] for entry in told]
    assert (away, back) == ("database away", "database back")
    # A caller may be told before the first attempt to connect has failed.
    assert set(still_away) <= {"database still away"}
    assert "Connection refused" in " ".join(entry["why"] for entry in told[:-1])
    assert told[-1]["away_ms"] > 0
