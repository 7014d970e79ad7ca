"""A caller who goes away stops its work, but no commit, and spoils no connection."""

import asyncio
import random

import psycopg
import pytest
from fencepost.errors import DatabaseUnavailable

from shared.database import Database, Transaction, statement
from tests.database_proxy import DatabaseProxy
from tests.shared.database.conftest import ADD, SLEEP, add, running, settings_for, value
from tests.waiting import until

CALLS = 200
SOON_S = 5.0
"""At once, on a busy machine."""

LONG_MS = 30_000
STAYS_S = 0.5
"""Longer than a cancelled statement takes to end."""

IDLE_IN_TRANSACTION = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'test' AND state LIKE 'idle in%'
"""
VALUE = "SELECT value FROM fencepost.counters WHERE name = 'a'"
SLEEPING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'PgSleep'
"""


async def count(url: str, sql: str) -> int:
    """One figure, as the owner."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute(sql.encode())).fetchone()
        assert row is not None
        return int(row[0])


async def cancelled(task: "asyncio.Task[object]") -> None:
    """Cancels a caller and sees that it ends at once."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, timeout=SOON_S)


async def test_the_statement_of_a_caller_who_left_is_stopped_in_the_server(url: str) -> None:
    async def work(tx: Transaction) -> None:
        await add(tx)
        await tx.execute(SLEEP, seconds=LONG_MS / 1000)

    async def sleeping() -> bool:
        return await count(url, SLEEPING) == 1

    async def nobody_sleeps() -> bool:
        return await count(url, SLEEPING) == 0

    settings = settings_for(url, database_statement_timeout_ms=LONG_MS)
    async with Database.create(settings, application_name="test") as db:
        caller = asyncio.create_task(db.run(work))
        await until(sleeping, what="the statement to be under way")
        await cancelled(caller)
        await until(nobody_sleeps, deadline_s=SOON_S, what="the statement to be stopped")
        assert await db.read(value) == 0


async def test_the_statement_of_a_process_that_is_gone_is_stopped_in_the_server(
    url: str, proxy: DatabaseProxy
) -> None:
    """Nobody is left to cancel it: the server itself looks whether its client is there."""

    async def work(tx: Transaction) -> None:
        await add(tx)
        await tx.execute(SLEEP, seconds=LONG_MS / 1000)

    async def sleeping() -> bool:
        return await count(url, SLEEPING) == 1

    async def nobody_sleeps() -> bool:
        return await count(url, SLEEPING) == 0

    settings = settings_for(proxy.url(), database_statement_timeout_ms=LONG_MS)
    async with Database.create(settings, application_name="test") as db:
        caller = asyncio.create_task(db.run(work))
        await until(sleeping, what="the statement to be under way")
        proxy.reset()
        with pytest.raises(DatabaseUnavailable):
            await caller
        await until(nobody_sleeps, deadline_s=SOON_S, what="the statement to be stopped")


async def test_work_between_two_statements_is_rolled_back(db: Database, url: str) -> None:
    written = asyncio.Event()

    async def work(tx: Transaction) -> None:
        await add(tx)
        written.set()
        await asyncio.Event().wait()

    caller = asyncio.create_task(db.run(work))
    await written.wait()
    await cancelled(caller)

    async def clean() -> bool:
        return await count(url, IDLE_IN_TRANSACTION) == 0

    await until(clean, what="no transaction to be left open")
    assert await db.read(value) == 0


async def test_a_caller_who_waits_for_a_connection_leaves_the_queue(url: str) -> None:
    settings = settings_for(url, database_pool_max=1)
    async with Database.create(settings, application_name="test") as db:
        taken, go_on = asyncio.Event(), asyncio.Event()

        async def holding(tx: Transaction) -> None:
            taken.set()
            await go_on.wait()
            await add(tx)

        holder = asyncio.create_task(db.run(holding))
        await taken.wait()
        waiting = asyncio.create_task(db.run(add))
        await until(lambda: db._pool.get_stats()["requests_waiting"] == 1, what="a queue")
        await cancelled(waiting)
        go_on.set()
        await holder
        assert await db.run(value) == 1


@pytest.mark.guarantee("X6")
async def test_a_commit_under_way_survives_its_caller(db: Database, url: str) -> None:
    """A deferred trigger holds COMMIT at a lock of the test's while the caller goes away."""
    await db.run(
        running(
            statement("""
            CREATE FUNCTION fencepost.wait() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END$$
            """)
        )
    )
    await db.run(
        running(
            statement("""
            CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON fencepost.counters
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fencepost.wait()
            """)
        )
    )
    async with await psycopg.AsyncConnection.connect(url) as blocker:
        await blocker.execute("SELECT pg_advisory_xact_lock(1)")
        caller = asyncio.create_task(db.run(add))

        async def committing() -> bool:
            return (
                await count(
                    url,
                    "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT'"
                    " AND wait_event = 'advisory' AND datname = current_database()",
                )
                == 1
            )

        await until(committing, what="COMMIT to wait for the lock")
        await cancelled(caller)
        _, under_way = await asyncio.wait(set(db._flights), timeout=STAYS_S)
        assert under_way
        await blocker.rollback()

    async def committed() -> bool:
        return await db.read(value) == 1

    await until(committed, what="the commit to have happened")


async def test_callers_who_leave_at_any_moment_leave_a_whole_pool(db: Database, url: str) -> None:
    chance = random.Random(40)

    async def work(tx: Transaction) -> None:
        await tx.execute(ADD, name=chance.choice("ab"))
        await tx.execute(SLEEP, seconds=0.002)

    async def impatient() -> None:
        try:
            async with asyncio.timeout(chance.uniform(0, 0.02)):
                await db.run(work)
        except TimeoutError:
            return

    await asyncio.gather(*(impatient() for _ in range(CALLS)))

    async def quiet() -> bool:
        return not db._flights and await count(url, IDLE_IN_TRANSACTION) == 0

    await until(quiet, what="every transaction to have ended")
    await asyncio.gather(*(db.run(add) for _ in range(50)))

    def whole() -> bool:
        stats = db._pool.get_stats()
        return 0 < stats["pool_available"] == stats["pool_size"] <= stats["pool_max"]

    await until(whole, what="every connection to be back in the pool")


async def test_closing_lets_a_transaction_end(url: str) -> None:
    db = Database.create(settings_for(url), application_name="test")
    await db.open()
    begun = asyncio.Event()

    async def work(tx: Transaction) -> None:
        await add(tx)
        begun.set()
        await tx.execute(SLEEP, seconds=0.1)

    caller = asyncio.create_task(db.run(work))
    await begun.wait()
    await db.close()
    await caller
    assert await count(url, VALUE) == 1


@pytest.mark.guarantee("X6")
async def test_closing_waits_for_the_answer_to_a_commit(url: str, proxy: DatabaseProxy) -> None:
    db = Database.create(settings_for(proxy.url()), application_name="test")
    await db.open()
    held = asyncio.Event()

    async def work(tx: Transaction) -> None:
        await add(tx)
        proxy.freeze()
        held.set()

    caller = asyncio.create_task(db.run(work))
    await held.wait()
    closing = asyncio.create_task(db.close())
    await asyncio.wait([closing], timeout=STAYS_S)
    assert not closing.done()
    await proxy.restore()
    await closing
    await caller
    assert await count(url, VALUE) == 1
