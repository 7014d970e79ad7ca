"""A part of a transaction is undone alone where a row stays locked; the rest stands (X7)."""

from collections.abc import AsyncIterator

import psycopg
import pytest
from fencepost.errors import Overloaded

from shared.database import Database, RowLocked, Transaction, statement
from tests.shared.database.conftest import ADD, READ, settings_for

BRIEF_MS = 20
LOCK_TIMEOUT = statement("SELECT current_setting('lock_timeout')")


@pytest.fixture(params=[True, False], ids=["prepared", "pooled"])
async def db(url: str, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    settings = settings_for(url, database_prepare=request.param, database_pool_max=1)
    async with Database.create(settings, application_name="test") as database:
        yield database


@pytest.fixture
async def locked(url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    """Counter b is locked by another."""
    async with await psycopg.AsyncConnection.connect(url) as blocker:
        await blocker.execute("SELECT FROM fencepost.counters WHERE name = 'b' FOR UPDATE")
        yield blocker


async def values(db: Database) -> list[int | None]:
    return await db.read(read_both)


async def read_both(tx: Transaction) -> list[int | None]:
    return [await tx.one(READ, int, name=name) for name in "ab"]


async def add_apart(tx: Transaction, *names: str) -> None:
    """Adds to each, in a part."""
    async with tx.part(lock_timeout_ms=BRIEF_MS):
        for name in names:
            await tx.execute(ADD, name=name)


@pytest.mark.guarantee("X7")
@pytest.mark.usefixtures("locked")
async def test_what_was_done_beside_a_locked_row_is_undone_and_what_was_done_before_stands(
    db: Database,
) -> None:
    async def work(tx: Transaction) -> None:
        await tx.execute(ADD, name="a")
        with pytest.raises(RowLocked):
            await add_apart(tx, "a", "b")
        await add_apart(tx, "a")

    await db.run(work)
    assert await values(db) == [2, 0]


@pytest.mark.usefixtures("locked")
async def test_parts_may_stand_in_one_another(db: Database) -> None:
    async def work(tx: Transaction) -> None:
        async with tx.part(lock_timeout_ms=BRIEF_MS):
            await tx.execute(ADD, name="a")
            with pytest.raises(RowLocked):
                await add_apart(tx, "b")
            await tx.execute(ADD, name="a")

    await db.run(work)
    assert await values(db) == [2, 0]


@pytest.mark.usefixtures("locked")
async def test_a_locked_row_that_nobody_caught_undoes_everything(db: Database) -> None:
    async def work(tx: Transaction) -> None:
        await tx.execute(ADD, name="a")
        await add_apart(tx, "b")

    with pytest.raises(RowLocked) as refused:
        await db.run(work)
    assert isinstance(refused.value, Overloaded)
    assert refused.value.retriable
    assert await values(db) == [0, 0]


async def test_the_brief_wait_ends_with_its_transaction(db: Database) -> None:
    async def work(tx: Transaction) -> str | None:
        async with tx.part(lock_timeout_ms=BRIEF_MS):
            return await tx.one(LOCK_TIMEOUT, str)

    assert await db.run(work) == f"{BRIEF_MS}ms"
    assert await db.run(lambda tx: tx.one(LOCK_TIMEOUT, str)) == "1500ms"
