"""A database with one table of counters, seen by its owner through our own pool."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import psycopg
import pytest
from pydantic import SecretStr

from shared.database import Database, Statement, Transaction, statement
from shared.settings import RuntimeSettings
from tests.database_proxy import DatabaseProxy

MakeSettings = Callable[..., RuntimeSettings]

READ = statement("SELECT value FROM fencepost.counters WHERE name = %(name)s")
ADD = statement("UPDATE fencepost.counters SET value = value + 1 WHERE name = %(name)s")
SLEEP = statement("SELECT true AS slept FROM pg_sleep(%(seconds)s)")


@dataclass(frozen=True)
class Counter:
    """One row."""

    name: str
    value: int


def settings_for(url: str, **changes: object) -> RuntimeSettings:
    """Settings of no service in particular."""
    return RuntimeSettings.model_validate(
        {
            "database_url": SecretStr(url),
            "grpc_address": "127.0.0.1:0",
            "admin_address": "127.0.0.1:0",
            **changes,
        }
    )


def running(st: Statement, **params: object) -> Callable[[Transaction], Awaitable[int]]:
    """Work that runs one statement."""

    async def work(tx: Transaction) -> int:
        return await tx.execute(st, **params)

    return work


async def add(tx: Transaction) -> None:
    """Raises counter a by one."""
    assert await tx.execute(ADD, name="a") == 1


async def value(tx: Transaction) -> int:
    """Counter a."""
    found = await tx.one(READ, int, name="a")
    assert found is not None
    return found


@pytest.fixture
def url(owner_url: str) -> str:
    """The owner's URL; counters a and b are 0."""
    with psycopg.connect(owner_url) as connection:
        connection.execute("CREATE TABLE fencepost.counters (name text PRIMARY KEY, value bigint)")
        connection.execute("INSERT INTO fencepost.counters VALUES ('a', 0), ('b', 0)")
    return owner_url


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    """An open pool."""
    async with Database.create(settings_for(url), application_name="test") as database:
        yield database


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[DatabaseProxy]:
    """A network that the test controls."""
    async with DatabaseProxy.before(url) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: DatabaseProxy) -> AsyncIterator[Database]:
    """An open pool behind that network, with short budgets."""
    settings = settings_for(
        proxy.url(),
        database_connect_timeout_ms=500,
        database_statement_timeout_ms=500,
        database_lock_timeout_ms=400,
    )
    async with Database.create(settings, application_name="test") as database:
        yield database
