"""Tokens that are set at the same moment: each is a version of its own, and the last one opens."""

from collections.abc import AsyncIterator, Callable

import pytest
from psycopg import AsyncConnection

from services.publisher.connections.operations import Put
from shared.database import Database
from shared.schema.grants import Service
from tests.races.forcing import blocking, forced
from tests.rows import Rows
from tests.services.publisher.commands import publisher_settings
from tests.services.publisher.connections.conftest import KEY_1, Desk

LOCK = "SELECT 1 FROM fencepost.connections FOR UPDATE"
RIVAL = """
INSERT INTO fencepost.connections (
    tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key, ciphertext
) VALUES ('acme', 'gitlab.test', 'gitlab', '', 1, 'k1', repeat('x', 60)::bytea, '')
"""


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def desk(service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    settings = publisher_settings(service_url("publisher"))
    async with Database.create(settings, application_name="publisher") as database:
        yield Desk(database, settings).with_keys(KEY_1)


async def both_stand(desk: Desk, rows: Rows, puts: list[Put | BaseException], last: int) -> None:
    """Each put is a version of its own, with its audit entry, and the last one opens."""
    versions = {
        put.connection.version: token
        for put, token in zip(puts, ("one", "two"), strict=True)
        if isinstance(put, Put) and put.changed
    }
    assert sorted(versions) == [last - 1, last]
    assert (await desk.opened()).token == versions[last]
    assert len(await rows.all("audit_entries")) == last


@pytest.mark.guarantee("K1", "W7")
async def test_a_connection_made_twice_at_once_is_made_once_and_then_changed(
    desk: Desk, rows: Rows, owner_url: str
) -> None:
    async with blocking(owner_url) as blocker:
        await blocker.hold(RIVAL)
        rivals = [desk.put(token="one"), desk.put(token="two")]
        puts = await forced(blocker, rivals, on="connections", release=blocker.roll_back)
    await both_stand(desk, rows, puts, last=2)


@pytest.mark.guarantee("K1", "W7")
async def test_two_tokens_at_once_are_two_versions(desk: Desk, rows: Rows, owner_url: str) -> None:
    await desk.put(token="first")
    async with blocking(owner_url) as blocker:
        await blocker.hold(LOCK)
        rivals = [desk.put(token="one"), desk.put(token="two")]
        puts = await forced(blocker, rivals, on="connections", release=blocker.roll_back)
    await both_stand(desk, rows, puts, last=3)
