"""Keys made, succeeded, ended and listed, each with its audit entry in the same transaction."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from fencepost.errors import (
    DatabaseUnavailable,
    FieldInvalid,
    RequestIdReused,
    ResourceNotFound,
    ScopeMissing,
)

from services.watchdog.access.operations import (
    AccessOperations,
    create,
)
from services.watchdog.settings import WatchdogSettings
from shared.credentials import new_credential
from shared.database import Database
from tests.database_proxy import COMMIT, DatabaseProxy
from tests.rows import Rows, from_now
from tests.services.watchdog.made import (
    admin,
    create_key,
    rotate_key,
    stored_key,
    watchdog_settings,
)

Change = Callable[[AccessOperations, str], Awaitable[object]]
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def access(database: Database) -> AccessOperations:
    return AccessOperations(database)


@pytest.mark.guarantee("X2")
async def test_a_key_is_stored_as_a_digest_for_the_tenant_that_made_it(
    access: AccessOperations, rows: Rows
) -> None:
    made = await access.create(create_key(valid_for_ms=DAY_MS))
    stored = await rows.one("api_keys", key_id=made.key.key_id)
    assert stored["secret_sha256"] == made.credential.secret_sha256
    assert made.credential.text == f"fp_{stored['key_id']}_{made.credential.secret}"
    assert made.credential.secret not in str(stored)
    assert stored["tenant"] == "acme"
    assert stored["scopes"] == ["work", "status_read"]
    assert stored["created_by"] == "adminadmin"
    assert stored["rotated_from"] is None
    assert abs(stored["ends_at"] - stored["created_at"] - timedelta(days=1)) < timedelta(seconds=5)


async def test_an_operator_makes_a_key_of_the_tenant_it_names_or_of_none(
    access: AccessOperations,
) -> None:
    named = await access.create(create_key(admin("globex")))
    of_none = await access.create(create_key(admin(None), scopes=("status_read",)))
    assert named.key.tenant == "globex"
    assert of_none.key.tenant is None
    assert of_none.key.ends_at is None


async def test_a_bots_key_is_of_a_tenant(access: AccessOperations, rows: Rows) -> None:
    with pytest.raises(FieldInvalid, match="name the tenant of the new key"):
        await access.create(create_key(admin(None), scopes=("work", "publish")))
    assert await rows.all("api_keys") == []


@pytest.mark.guarantee("X2")
async def test_nobody_gives_a_scope_that_the_own_key_lacks(
    access: AccessOperations, rows: Rows
) -> None:
    weak = admin(scopes=frozenset({"keys_admin", "status_read"}))
    with pytest.raises(ScopeMissing, match="Your key lacks the scope work") as error:
        await access.create(create_key(weak, scopes=("status_read", "work")))
    assert error.value.scope == "work"
    _, strong = await stored_key(rows, scopes=["keys_admin", "operate"])
    with pytest.raises(ScopeMissing, match="operate"):
        await access.rotate(rotate_key(strong["key_id"], weak))
    assert await rows.one("api_keys") == strong
    assert await rows.all("request_ids") == []


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"valid_for_ms": 0}, "valid_for"),
        ({"valid_for_ms": 10**15}, "valid_for"),
        ({"by": admin("*")}, "fencepost-tenant"),
    ],
)
async def test_what_a_key_cannot_be_is_refused_by_name(
    access: AccessOperations, rows: Rows, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(FieldInvalid) as error:
        await access.create(create_key(**values))
    assert [violation[0] for violation in error.value.violations] == [field]
    assert await rows.all("api_keys") == []


async def test_a_repeated_request_is_refused_and_told_how_to_go_on(
    access: AccessOperations, rows: Rows
) -> None:
    made = await access.create(create_key())
    with pytest.raises(RequestIdReused) as repeated:
        await access.create(create_key())
    assert str(repeated.value) == (
        f"Request id 'request-1' made key {made.key.key_id}, whose credential was shown once: if "
        f"it is lost, revoke key {made.key.key_id} and create another under a new request id."
    )
    with pytest.raises(RequestIdReused, match="choose a new one"):
        await access.create(create_key(label="another"))
    assert len(await rows.all("api_keys")) == 1
    assert (await access.create(create_key(admin("globex")))).key.tenant == "globex"


async def test_a_rotated_key_has_a_successor_and_ends_after_the_overlap(
    access: AccessOperations, rows: Rows
) -> None:
    first = (await access.create(create_key(valid_for_ms=90 * DAY_MS))).key
    made = await access.rotate(rotate_key(first.key_id, overlap_ms=DAY_MS))
    old = await rows.one("api_keys", key_id=first.key_id)
    assert made.key.rotated_from == first.key_id
    assert (made.key.tenant, made.key.label, made.key.scopes) == (
        first.tenant,
        first.label,
        first.scopes,
    )
    assert made.credential.key_id == made.key.key_id != first.key_id
    assert abs(old["ends_at"] - made.key.created_at - timedelta(days=1)) < timedelta(seconds=5)
    assert made.key.ends_at is not None
    life = made.key.ends_at - made.key.created_at
    assert abs(life - timedelta(days=90)) < timedelta(seconds=5)


async def test_an_overlap_never_prolongs_a_key(access: AccessOperations, rows: Rows) -> None:
    first = (await access.create(create_key(valid_for_ms=DAY_MS))).key
    await access.rotate(rotate_key(first.key_id, overlap_ms=30 * DAY_MS))
    assert (await rows.one("api_keys", key_id=first.key_id))["ends_at"] == first.ends_at


async def test_a_key_is_rotated_once_and_never_after_its_end(
    access: AccessOperations, rows: Rows
) -> None:
    first = (await access.create(create_key())).key
    second = (await access.rotate(rotate_key(first.key_id, overlap_ms=DAY_MS))).key
    with pytest.raises(FieldInvalid, match=f"key {second.key_id}: rotate that one"):
        await access.rotate(rotate_key(first.key_id, request_id="request-3"))
    await access.revoke(admin(), second.key_id)
    with pytest.raises(FieldInvalid, match="has ended: create a new key"):
        await access.rotate(rotate_key(second.key_id, request_id="request-4"))
    assert len(await rows.all("api_keys")) == 2


async def test_a_revoked_key_has_ended_and_stays_so(access: AccessOperations, rows: Rows) -> None:
    key = (await access.create(create_key())).key
    ended = await access.revoke(admin(), key.key_id)
    again = await access.revoke(admin(), key.key_id)
    assert ended == again
    assert ended.ends_at is not None
    assert ended.ends_at >= key.created_at
    entries = await rows.all("audit_entries", action="RevokeKey")
    assert [entry["subject"] for entry in entries] == [f"key {key.key_id}"]


@pytest.mark.guarantee("X8")
@pytest.mark.parametrize("owner", ["globex", None])
async def test_another_tenants_key_is_not_there(
    access: AccessOperations, rows: Rows, owner: str | None
) -> None:
    _, theirs = await stored_key(rows, owner)
    key_id = theirs["key_id"]
    for change in (access.revoke(admin(), key_id), access.rotate(rotate_key(key_id))):
        with pytest.raises(ResourceNotFound, match=f"no key '{key_id}'"):
            await change
    assert (await access.page("acme", size=10, token="")).keys == []
    assert await rows.one("api_keys") == theirs
    assert await rows.all("audit_entries") == []
    assert (await access.revoke(admin(None), key_id)).key_id == key_id


@pytest.mark.guarantee("W7")
async def test_each_change_is_written_down_without_any_secret(
    access: AccessOperations, rows: Rows
) -> None:
    made = await access.create(create_key())
    successor = await access.rotate(rotate_key(made.key.key_id, admin(None)))
    await access.revoke(admin(), successor.key.key_id)
    entries = await rows.all("audit_entries")
    told = [
        (entry["action"], entry["subject"], entry["tenant"], entry["key_id"]) for entry in entries
    ]
    assert told == [
        ("CreateKey", f"key {made.key.key_id}", "acme", "adminadmin"),
        ("RotateKey", f"key {successor.key.key_id}", "acme", "adminadmin"),
        ("RevokeKey", f"key {successor.key.key_id}", "acme", "adminadmin"),
    ]
    assert entries[0]["detail"] == {
        "label": "worker on host 7",
        "scopes": ["work", "status_read"],
        "ends_at": None,
    }
    assert entries[1]["detail"]["rotated_from"] == made.key.key_id
    for secret in (made.credential, successor.credential):
        assert secret.secret not in str(entries)
        assert secret.secret_sha256.hex() not in str(entries)


async def _create(access: AccessOperations, _key_id: str) -> object:
    return await access.create(create_key())


async def _rotate(access: AccessOperations, key_id: str) -> object:
    return await access.rotate(rotate_key(key_id))


async def _revoke(access: AccessOperations, key_id: str) -> object:
    return await access.revoke(admin(), key_id)


@pytest.mark.guarantee("W7")
@pytest.mark.parametrize("change", [_create, _rotate, _revoke])
async def test_without_its_audit_entry_nothing_is_changed(
    access: AccessOperations, rows: Rows, change: Change
) -> None:
    _, before = await stored_key(rows)
    await rows.connection.execute(
        "REVOKE INSERT ON fencepost.audit_entries FROM fencepost_watchdog"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await change(access, before["key_id"])
    assert await rows.one("api_keys") == before
    assert await rows.all("request_ids") == []


async def test_pages_show_every_key_once_newest_first(access: AccessOperations, rows: Rows) -> None:
    made_at = (await rows.one("schema_revision"))["migrated_at"]
    for number in range(7):
        # Three of one moment: their order must hold all the same.
        created_at = made_at + timedelta(seconds=number // 3)
        await stored_key(rows, "globex" if number == 6 else "acme", created_at=created_at)
    seen, token = [], ""
    while True:
        page = await access.page("acme", size=2, token=token)
        seen += page.keys
        token = page.next_page_token
        if not token:
            break
    stored = await rows.all("api_keys", tenant="acme")
    stored.sort(key=lambda row: (row["created_at"], row["key_id"]), reverse=True)
    assert [key.key_id for key in seen] == [row["key_id"] for row in stored]
    assert len((await access.page(None, size=10, token="")).keys) == 7
    with pytest.raises(FieldInvalid, match="next_page_token"):
        await access.page("acme", size=2, token="never given out")


async def test_a_key_that_ends_later_is_listed_with_its_end(
    access: AccessOperations, rows: Rows
) -> None:
    _, row = await stored_key(rows, ends_at=from_now(60_000))
    [key] = (await access.page("acme", size=1, token="")).keys
    assert key.ends_at == row["ends_at"]
    assert not hasattr(key, "secret_sha256")


@asynccontextmanager
async def behind_proxy(settings: WatchdogSettings) -> AsyncIterator[tuple[DatabaseProxy, Database]]:
    async with DatabaseProxy.before(settings.database_url.get_secret_value()) as proxy:
        through = watchdog_settings(proxy.url())
        async with Database.create(through, application_name="watchdog") as database:
            yield proxy, database


@pytest.mark.guarantee("X6")
async def test_a_lost_answer_to_the_commit_makes_one_key_and_shows_it(
    settings: WatchdogSettings, rows: Rows
) -> None:
    async with behind_proxy(settings) as (proxy, database):
        proxy.trap(COMMIT, "lose the answer")
        made = await AccessOperations(database).create(create_key())
        assert proxy.trapped == 1
    stored = await rows.one("api_keys")
    assert stored["key_id"] == made.key.key_id
    assert stored["secret_sha256"] == made.credential.secret_sha256
    assert len(await rows.all("audit_entries")) == 1


@pytest.mark.guarantee("X6")
async def test_a_commit_that_never_arrived_is_made_good(
    settings: WatchdogSettings, rows: Rows
) -> None:
    _, first = await stored_key(rows, scopes=["work"])
    async with behind_proxy(settings) as (proxy, database):
        proxy.trap(COMMIT, "lose the request")
        made = await AccessOperations(database).rotate(rotate_key(first["key_id"]))
        assert proxy.trapped == 1
    assert len(await rows.all("api_keys")) == 2
    assert made.key.rotated_from == first["key_id"]


async def test_a_database_that_is_away_is_said_so(settings: WatchdogSettings) -> None:
    async with behind_proxy(settings) as (proxy, database):
        await proxy.cut()
        with pytest.raises(DatabaseUnavailable):
            await AccessOperations(database).create(create_key())


async def test_the_same_credential_again_finds_its_key(database: Database, rows: Rows) -> None:
    credential = new_credential()
    first = await database.run(lambda tx: create(tx, create_key(), credential))
    again = await database.run(lambda tx: create(tx, create_key(), credential))
    assert first == again
    assert len(await rows.all("audit_entries")) == 1
