"""What the publisher's role may not do, whatever its code says: the database's own word."""

from collections.abc import AsyncIterator, Callable
from typing import Any, LiteralString

import pytest
from psycopg import AsyncConnection, errors, sql

from shared.schema.grants import Service
from tests.rows import Rows

FORBIDDEN: list[LiteralString] = [
    "UPDATE leases SET state = 'free', settled_at = clock_timestamp()",
    "UPDATE leases SET epoch = epoch + 1",
    "UPDATE leases SET holder = 'publisher'",
    "DELETE FROM leases",
    "UPDATE change_requests SET repo_name = 'elsewhere/else'",
    "DELETE FROM change_requests",
    "UPDATE intents SET status = 'succeeded', settled_at = clock_timestamp()",
    "UPDATE runs SET version = 9",
    "UPDATE publications SET target = 'elsewhere'",
    "DELETE FROM publications",
    "UPDATE publication_attempts SET request = ''",
    "UPDATE publication_attempts SET digest = sha256('')",
    "UPDATE publication_attempts SET claim_token = 'mine'",
    "UPDATE publication_attempts SET epoch = 9",
    "DELETE FROM publication_attempts",
    "UPDATE holds SET reason = 'another'",
    "DELETE FROM holds",
    "UPDATE audit_entries SET reason = 'another'",
    "DELETE FROM audit_entries",
    "DELETE FROM request_ids",
    "SELECT 1 FROM deliveries",
    "UPDATE api_keys SET scopes = '{operate}'",
]


@pytest.fixture
async def publisher(
    rows: Rows, service_url: Callable[[Service], str]
) -> AsyncIterator[AsyncConnection[Any]]:
    """The role's own connection, beside a row in each table."""
    work = await rows.work()
    await rows.attempt(await rows.publication(work))
    url = service_url("publisher")
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SET search_path = fencepost")
        yield connection


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_the_role_may_change_only_what_is_its_own(
    publisher: AsyncConnection[Any], statement: LiteralString
) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        await publisher.execute(statement)


@pytest.mark.guarantee("X2", "L3")
@pytest.mark.parametrize("table", ["leases", "change_requests"])
async def test_the_role_may_lock_a_row_and_alter_nothing_in_it(
    publisher: AsyncConnection[Any], table: str
) -> None:
    name = sql.Identifier(table)
    locked = await publisher.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(name))
    assert locked.rowcount == 1
    with pytest.raises(errors.CheckViolation):
        await publisher.execute(sql.SQL("UPDATE {} SET lock_only = 1").format(name))
