"""Migrations of one database at once, and migrations that meet a lock."""

import asyncio
import secrets

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared.schema.migrate import MigrationResult, migrate, pending
from shared.schema.refusals import LockNotObtainedError, TurnNotComeError
from shared.schema.revision import SCHEMA_REVISION
from shared.schema.transaction import TURN, Limits
from tests.races.forcing import blocking, forced


@pytest.fixture
def empty_url(owner_url: str) -> str:
    """The owner's URL of a database without a schema; it goes with the server."""
    name = f"empty_{secrets.token_hex(8)}"
    with psycopg.connect(owner_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_conninfo(owner_url, dbname=name)


@pytest.mark.guarantee("X3")
async def test_of_two_first_starts_one_migrates_and_the_other_finds_it_done(empty_url: str) -> None:
    async with blocking(empty_url) as blocker:
        await blocker.hold("SELECT pg_advisory_xact_lock(%(turn)s)", turn=TURN)
        starts = [asyncio.to_thread(migrate, empty_url) for _ in range(2)]
        outcomes = await forced(blocker, starts, release=blocker.roll_back)

    results = [outcome for outcome in outcomes if isinstance(outcome, MigrationResult)]
    assert len(results) == 2, outcomes
    assert sorted(result.found for result in results) == [0, SCHEMA_REVISION]
    assert sorted(len(result.steps) for result in results) == [0, SCHEMA_REVISION]
    assert await asyncio.to_thread(pending, empty_url) == ()
    with psycopg.connect(empty_url) as connection:
        once = connection.execute("SELECT count(*) FROM fencepost.incarnations").fetchone()
    assert once == (1,)


async def test_a_turn_that_does_not_come_is_told_in_a_sentence(empty_url: str) -> None:
    async with blocking(empty_url) as blocker:
        await blocker.hold("SELECT pg_advisory_xact_lock(%(turn)s)", turn=TURN)
        with pytest.raises(TurnNotComeError, match=r"running for 50 ms: .* MIGRATE_TURN_TIMEOUT"):
            await asyncio.to_thread(migrate, empty_url, limits=Limits(turn_timeout_ms=50))


async def test_a_lock_that_is_not_obtained_is_told_and_nothing_is_changed(empty_url: str) -> None:
    async with blocking(empty_url) as blocker:
        await blocker.hold("CREATE SCHEMA fencepost")
        with pytest.raises(LockNotObtainedError, match=r"nothing was changed.*MIGRATE_LOCK"):
            await asyncio.to_thread(migrate, empty_url, limits=Limits(lock_timeout_ms=50))
    assert len(await asyncio.to_thread(pending, empty_url)) == SCHEMA_REVISION


async def test_a_lock_inside_a_migration_names_its_statement(empty_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fencepost")
    async with blocking(empty_url) as blocker:
        await blocker.hold("CREATE TABLE fencepost.schema_revision ()")
        with pytest.raises(LockNotObtainedError, match=r"CREATE TABLE fencepost\.schema_revision"):
            await asyncio.to_thread(migrate, empty_url, limits=Limits(lock_timeout_ms=50))
