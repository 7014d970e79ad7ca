"""Operators who act at the same moment: one hold a request, one lifting a hold."""

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from psycopg import AsyncConnection

from services.publisher.holds import operations as holds
from services.publisher.holds.operations import HoldScope, PlaceHold
from shared.database import Database
from shared.schema.grants import Service
from tests.races.forcing import blocking, forced
from tests.rows import Rows
from tests.services.publisher.commands import publisher_settings

PLACED = PlaceHold(
    request_id="request-1", scope=HoldScope(tenant="acme"), reason="incident", key_id="operator"
)
LOCK_REQUEST = (
    "SELECT pg_advisory_xact_lock(hashtextextended('acme HoldPublications request-1', 0))"
)
LOCK_HOLD = "SELECT 1 FROM fencepost.holds WHERE hold_id = %(hold_id)s FOR UPDATE"


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def database(service_url: Callable[[Service], str]) -> AsyncIterator[Database]:
    settings = publisher_settings(service_url("publisher"))
    async with Database.create(settings, application_name="publisher") as database:
        yield database


@pytest.mark.guarantee("P11")
async def test_one_request_sent_twice_at_once_places_one_hold(
    database: Database, rows: Rows, owner_url: str
) -> None:
    async with blocking(owner_url) as blocker:
        await blocker.hold(LOCK_REQUEST)
        rivals = [database.run(lambda tx: holds.place(tx, PLACED)) for _ in range(2)]
        first, second = await forced(blocker, rivals, release=blocker.roll_back)
    hold = await rows.one("holds")
    assert first == second == hold["hold_id"]
    assert len(await rows.all("audit_entries")) == 1


@pytest.mark.guarantee("P11", "W7")
async def test_a_hold_lifted_twice_at_once_is_lifted_once(
    database: Database, rows: Rows, owner_url: str
) -> None:
    hold_id = (await rows.hold(tenant="acme"))["hold_id"]

    def release(key_id: str) -> Coroutine[Any, Any, datetime]:
        return database.run(
            lambda tx: holds.release(tx, tenant="acme", hold_id=hold_id, key_id=key_id)
        )

    async with blocking(owner_url) as blocker:
        await blocker.hold(LOCK_HOLD, hold_id=hold_id)
        rivals = [release("one"), release("two")]
        first, second = await forced(blocker, rivals, on="holds", release=blocker.roll_back)
    hold = await rows.one("holds")
    assert first == second == hold["released_at"]
    [entry] = await rows.all("audit_entries")
    assert entry["key_id"] == hold["released_by"]
