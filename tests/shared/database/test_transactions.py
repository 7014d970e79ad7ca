"""One piece of work is one transaction: all of it or nothing, run again where that is safe."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from fencepost.errors import DatabaseUnavailable, LeaseLost, Overloaded
from psycopg import sql
from structlog.testing import capture_logs

from shared.database import Database, Transaction, statement
from shared.database.database import CONFLICT_ATTEMPTS_MAX
from shared.database.faults import StatementFaultHiddenError
from tests.shared.database.conftest import ADD, READ, SLEEP, add, running, settings_for, value

OPTIONS = (
    "search_path",
    "TimeZone",
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "plan_cache_mode",
    "enable_seqscan",
    "jit",
)
EXPECTED = ["fencepost", "UTC", "2s", "1500ms", "10s", "force_custom_plan", "off", "off"]
SETTING = statement("SELECT current_setting(%(name)s) AS setting")


@pytest.fixture
async def pooled(url: str) -> AsyncIterator[Database]:
    """As behind PgBouncer: one connection, nothing prepared, no session."""
    settings = settings_for(url, database_prepare=False, database_pool_max=1)
    async with Database.create(settings, application_name="test") as database:
        yield database


async def options(tx: Transaction) -> list[str | None]:
    return [await tx.one(SETTING, str, name=name) for name in OPTIONS]


async def test_work_is_committed_and_its_answer_returned(db: Database) -> None:
    async def work(tx: Transaction) -> int:
        await add(tx)
        return await value(tx)

    assert await db.run(work) == 1
    assert await db.read(value) == 1


async def test_what_the_work_raises_rolls_it_back_and_is_raised(db: Database) -> None:
    async def work(tx: Transaction) -> None:
        await add(tx)
        raise LeaseLost(key="k", action="a", epoch=1)

    with pytest.raises(LeaseLost):
        await db.run(work)
    assert await db.read(value) == 0


async def test_reading_cannot_write(db: Database) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        await db.read(add)
    assert await db.read(value) == 0


async def test_a_fault_of_ours_stays_what_it_is_and_the_connection_is_used_again(
    db: Database,
) -> None:
    insert = statement("INSERT INTO fencepost.counters VALUES ('a', 1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await db.run(running(insert))
    assert await db.read(value) == 0


async def test_going_on_after_a_failed_statement_is_a_fault(db: Database) -> None:
    async def work(tx: Transaction) -> None:
        await add(tx)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await tx.execute(statement("SELECT 1 / 0"))

    with pytest.raises(StatementFaultHiddenError):
        await db.run(work)
    assert await db.read(value) == 0


async def test_a_transaction_that_has_ended_cannot_be_used(db: Database) -> None:
    kept: list[Transaction] = []

    async def work(tx: Transaction) -> None:
        kept.append(tx)

    await db.run(work)
    with pytest.raises(AssertionError, match="the transaction has ended"):
        await add(kept[0])


async def test_statements_at_once_in_one_transaction_keep_their_own_rows(db: Database) -> None:
    st = statement("SELECT %(number)s::bigint AS number")

    async def work(tx: Transaction) -> list[int | None]:
        return await asyncio.gather(*(tx.one(st, int, number=n) for n in range(20)))

    assert await db.read(work) == list(range(20))


async def test_a_statement_that_is_two_is_refused(db: Database) -> None:
    with pytest.raises(psycopg.errors.SyntaxError):
        await db.run(running(statement("SELECT 1; SELECT 2")))


async def test_each_connection_has_its_options(db: Database) -> None:
    assert await db.read(options) == EXPECTED


async def test_without_a_session_each_transaction_has_its_options_and_leaves_none(
    pooled: Database,
) -> None:
    assert await pooled.read(options) == EXPECTED
    assert await pooled.run(options) == EXPECTED
    prepared = statement("SELECT count(*) AS prepared FROM pg_prepared_statements")
    assert await pooled.read(lambda tx: tx.one(prepared, int)) == 0
    left = statement(
        "SELECT count(*) AS changed FROM pg_settings"
        " WHERE name = ANY (%(names)s) AND setting <> reset_val AND source = 'session'"
    )
    assert await pooled.read(lambda tx: tx.one(left, int, names=["jit"])) == 1
    assert await raw_setting(pooled, "jit") != "off"


async def raw_setting(db: Database, name: str) -> str:
    """The session's own setting, between two transactions."""
    connection = await db._pool.getconn()
    try:
        cursor = await connection.execute("SELECT current_setting(%s)", [name])
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])
    finally:
        await db._pool.putconn(connection)


async def test_a_statement_is_prepared_once(db: Database) -> None:
    prepared = statement(
        "SELECT count(*) AS count FROM pg_prepared_statements WHERE statement LIKE 'UPDATE%%'"
    )

    async def work(tx: Transaction) -> int | None:
        for _ in range(3):
            await tx.execute(ADD, name="a")
        return await tx.one(prepared, int)

    assert await db.run(work) == 1


@pytest.mark.guarantee("X7")
async def test_a_deadlock_is_run_again_inside(db: Database) -> None:
    both = asyncio.Barrier(2)
    first_try = {"a", "b"}

    async def work(tx: Transaction, first: str, second: str) -> None:
        await tx.execute(ADD, name=first)
        if first in first_try:
            first_try.discard(first)
            await both.wait()
        await tx.execute(ADD, name=second)

    await asyncio.gather(
        db.run(lambda tx: work(tx, "a", "b")), db.run(lambda tx: work(tx, "b", "a"))
    )
    assert not first_try
    assert await db.read(lambda tx: tx.one(READ, int, name="a")) == 2
    assert await db.read(lambda tx: tx.one(READ, int, name="b")) == 2


@pytest.mark.guarantee("X7")
@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
async def test_a_conflict_that_does_not_end_is_refused_after_some_tries(
    db: Database, sqlstate: str
) -> None:
    tries = 0

    async def work(tx: Transaction) -> None:
        nonlocal tries
        tries += 1
        await add(tx)
        await tx.execute(statement(f"DO $$BEGIN RAISE SQLSTATE '{sqlstate}'; END$$"))

    with pytest.raises(Overloaded, match="again and again"):
        await db.run(work)
    assert tries == CONFLICT_ATTEMPTS_MAX
    assert await db.read(value) == 0


@pytest.mark.guarantee("X7")
async def test_a_conflict_that_shows_at_commit_is_run_again(db: Database) -> None:
    """A deferred trigger fails inside COMMIT: the server answers, so the outcome is known."""
    await db.run(
        running(
            statement("""
            CREATE FUNCTION fencepost.conflict() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN RAISE SQLSTATE '40001'; END$$
            """)
        )
    )
    await db.run(
        running(
            statement("""
            CREATE CONSTRAINT TRIGGER conflict AFTER UPDATE ON fencepost.counters
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fencepost.conflict()
            """)
        )
    )
    with pytest.raises(Overloaded):
        await db.run(add)
    assert await db.read(value) == 0


async def test_a_row_that_stays_locked_is_set_apart(url: str) -> None:
    settings = settings_for(url, database_lock_timeout_ms=50)
    async with (
        Database.create(settings, application_name="test") as db,
        await psycopg.AsyncConnection.connect(url) as blocker,
    ):
        await blocker.execute("UPDATE fencepost.counters SET value = 5")
        with pytest.raises(Overloaded, match="locked too long"):
            await db.run(add)
        await blocker.rollback()
        await db.run(add)


async def test_a_server_that_takes_no_writes_is_as_good_as_away(url: str) -> None:
    """As after a failover, when the name still leads to the old primary."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        name = sql.Identifier(owner.info.dbname)
        await owner.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name)
        )
    async with Database.create(settings_for(url), application_name="test") as db:
        with pytest.raises(DatabaseUnavailable):
            await db.run(add)


async def test_a_statement_that_runs_too_long_is_stopped(url: str) -> None:
    settings = settings_for(url, database_statement_timeout_ms=100)
    async with Database.create(settings, application_name="test") as db:
        with capture_logs() as logs, pytest.raises(DatabaseUnavailable) as refused:
            await db.run(running(SLEEP, seconds=30))
        assert not refused.value.outcome_unknown
        assert logs[0]["why"] == "57014 canceling statement due to statement timeout"
        assert await db.read(value) == 0


PID = statement("SELECT pg_backend_pid() AS pid")


async def test_a_spent_connection_ends_with_its_transaction_and_no_other_does(
    pooled: Database,
) -> None:
    async def pid(tx: Transaction) -> int | None:
        return await tx.one(PID, int)

    async def last_pid(tx: Transaction) -> int | None:
        tx.spend_connection()
        await add(tx)
        return await pid(tx)

    first = await pooled.run(pid)
    assert await pooled.run(last_pid) == first
    after = await pooled.run(pid)
    assert after != first
    assert await pooled.run(pid) == after
