"""Two that make or rotate a key at the same moment: each race is forced."""

from collections.abc import AsyncIterator, Callable

import pytest
from fencepost.errors import FieldInvalid, RequestIdReused
from psycopg import AsyncConnection

from services.watchdog.access.operations import AccessOperations, Made
from shared.database import Database
from shared.schema.grants import Service
from tests.races.forcing import blocking, forced
from tests.rows import Rows
from tests.services.watchdog.made import (
    admin,
    create_key,
    rotate_key,
    stored_key,
    watchdog_settings,
)

LOCK_KEY = "SELECT 1 FROM fencepost.api_keys WHERE key_id = %(key_id)s FOR UPDATE"
TAKE_REQUEST_ID = """
    INSERT INTO fencepost.request_ids (tenant, method, request_id, digest, response)
    VALUES ('acme', 'CreateKey', 'request-1', 'x', 'x')
"""


@pytest.fixture
async def rows(owner_url: str) -> AsyncIterator[Rows]:
    async with await AsyncConnection.connect(owner_url, autocommit=True) as connection:
        yield Rows(connection)


@pytest.fixture
async def access(service_url: Callable[[Service], str]) -> AsyncIterator[AccessOperations]:
    settings = watchdog_settings(service_url("watchdog"))
    async with Database.create(settings, application_name="watchdog") as database:
        yield AccessOperations(database)


async def test_of_two_rotations_of_a_key_one_makes_its_successor(
    owner_url: str, access: AccessOperations, rows: Rows
) -> None:
    _, key = await stored_key(rows, scopes=["work"])
    rotations = [
        access.rotate(rotate_key(key["key_id"], request_id=name, overlap_ms=60_000))
        for name in ("first", "second")
    ]
    async with blocking(owner_url) as blocker:
        await blocker.hold(LOCK_KEY, key_id=key["key_id"])
        outcomes = await forced(blocker, rotations, on="api_keys", release=blocker.roll_back)
    [made] = [outcome for outcome in outcomes if isinstance(outcome, Made)]
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, FieldInvalid)]
    assert f"to key {made.key.key_id}" in str(refused)
    assert [row["key_id"] for row in await rows.all("api_keys", rotated_from=key["key_id"])] == [
        made.key.key_id
    ]


async def test_of_two_requests_with_one_id_one_makes_a_key(
    owner_url: str, access: AccessOperations, rows: Rows
) -> None:
    async with blocking(owner_url) as blocker:
        await blocker.hold(TAKE_REQUEST_ID)
        outcomes = await forced(
            blocker,
            [access.create(create_key()), access.create(create_key())],
            on="request_ids",
            release=blocker.roll_back,
        )
    [made] = [outcome for outcome in outcomes if isinstance(outcome, Made)]
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, RequestIdReused)]
    assert made.key.key_id in str(refused)
    assert len(await rows.all("api_keys")) == 1


async def test_a_rotation_that_waited_for_a_revocation_finds_the_key_ended(
    owner_url: str, access: AccessOperations, rows: Rows
) -> None:
    _, key = await stored_key(rows, scopes=["work"])
    async with blocking(owner_url) as blocker:
        await blocker.hold(
            "UPDATE fencepost.api_keys SET ends_at = clock_timestamp() WHERE key_id = %(key_id)s",
            key_id=key["key_id"],
        )
        [outcome] = await forced(
            blocker,
            [access.rotate(rotate_key(key["key_id"], admin(None)))],
            on="api_keys",
            release=blocker.commit,
        )
    assert isinstance(outcome, FieldInvalid)
    assert "has ended" in str(outcome)
    assert len(await rows.all("api_keys")) == 1
