"""Connections: what is kept of them, what opens, and what each change writes down."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fencepost.errors import (
    ConnectionDisabled,
    ConnectionMissing,
    FieldInvalid,
    ResourceNotFound,
    SealingKeyUnknown,
    SecretTampered,
)
from psycopg import errors
from pydantic import SecretStr

from services.publisher.connections import operations
from services.publisher.forges.access import Access
from services.publisher.model import ForgeKind
from tests.rows import Rows
from tests.services.publisher.connections.conftest import GITLAB, KEY_1, KEY_2, TOKEN, Desk

ACCESS = Access(
    forge=ForgeKind.GITLAB,
    instance="gitlab.test",
    base_url="https://gitlab.test/api/v4",
    token=TOKEN,
)


async def stored(rows: Rows, **where: Any) -> dict[str, Any]:
    return await rows.one("connections", **where)


async def audited(rows: Rows) -> list[str]:
    return [entry["action"] for entry in await rows.all("audit_entries")]


@pytest.mark.guarantee("K1", "K2", "W7")
async def test_a_token_is_stored_sealed_and_opens_for_a_call(desk: Desk, rows: Rows) -> None:
    put = await desk.put()
    assert put.changed
    row = await stored(rows)
    assert (row["tenant"], row["forge"], row["version"]) == ("acme", "gitlab", 1)
    assert row["sealing_key_id"] == "k1"
    entry = await rows.one("audit_entries")
    assert (entry["tenant"], entry["key_id"]) == ("acme", "admin")
    assert (entry["action"], entry["subject"]) == ("PutConnection", "connection gitlab.test")
    assert await desk.opened() == ACCESS
    for shown in (row, entry, put, await desk.opened(), GITLAB):
        assert TOKEN not in repr(shown)
        assert TOKEN.encode().hex() not in repr(shown)


async def test_the_same_again_changes_nothing(desk: Desk, rows: Rows) -> None:
    await desk.put()
    before = await stored(rows)
    assert not (await desk.put()).changed
    assert not (await desk.put(token="")).changed
    assert await stored(rows) == before
    assert await audited(rows) == ["PutConnection"]


@pytest.mark.guarantee("K1")
async def test_another_token_is_another_version_and_the_old_one_is_gone(
    desk: Desk, rows: Rows
) -> None:
    await desk.put()
    before = await stored(rows)
    assert (await desk.put(token="another")).changed
    after = await stored(rows)
    assert after["version"] == 2
    assert after["wrapped_key"] != before["wrapped_key"]
    assert (await desk.opened()).token == "another"
    assert await audited(rows) == ["PutConnection"] * 2


@pytest.mark.guarantee("K2", "X4")
@pytest.mark.parametrize(
    ("stands", "changes", "field"),
    [
        (False, {"token": ""}, "token"),
        (True, {"token": "", "base_url": "https://evil.test"}, "token"),
        (True, {"forge": ForgeKind.GITEA}, "forge"),
        (False, {"base_url": "ftp://gitlab.test"}, "base_url"),
        (False, {"base_url": "https://u:p@gitlab.test"}, "base_url"),
        (False, {"base_url": "http://gitlab.test/api/v4"}, "base_url"),
    ],
)
async def test_what_would_give_a_token_away_or_lacks_one_is_refused(
    desk: Desk, rows: Rows, stands: bool, changes: dict[str, Any], field: str
) -> None:
    if stands:
        await desk.put()
    before = await rows.all("connections")
    with pytest.raises(FieldInvalid) as refusal:
        await desk.put(**changes)
    assert [each[0] for each in refusal.value.violations] == [field]
    assert await rows.all("connections") == before


async def test_another_address_with_the_token_is_sealed_anew(desk: Desk, rows: Rows) -> None:
    await desk.put()
    await desk.put(base_url="https://new.test/api/v4")
    assert (await stored(rows))["version"] == 2
    assert await desk.opened() == replace(ACCESS, base_url="https://new.test/api/v4")


@pytest.mark.guarantee("W7")
async def test_without_its_audit_entry_nothing_is_changed(desk: Desk, rows: Rows) -> None:
    await desk.put()
    before = await stored(rows)
    await rows.connection.execute(
        "REVOKE INSERT ON fencepost.audit_entries FROM fencepost_publisher"
    )
    try:
        for change in (
            desk.put(token="another"),
            desk.operations.disable(
                tenant="acme", forge_instance="gitlab.test", reason="", key_id="admin"
            ),
            desk.with_keys(KEY_2, KEY_1).operations.rotate(None, key_id="admin"),
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                await change
    finally:
        await rows.connection.execute(
            "GRANT INSERT ON fencepost.audit_entries TO fencepost_publisher"
        )
    assert await stored(rows) == before


@pytest.mark.guarantee("W7")
async def test_a_disabled_connection_opens_for_nobody_until_it_is_enabled(
    desk: Desk, rows: Rows
) -> None:
    await desk.put()
    disabling = {"tenant": "acme", "forge_instance": "gitlab.test", "key_id": "admin"}
    disabled = await desk.operations.disable(**disabling, reason="leaked")
    assert disabled.disabled_at is not None
    assert await desk.operations.disable(**disabling, reason="again") == disabled
    assert await audited(rows) == ["PutConnection", "DisableConnection"]
    assert (await rows.all("audit_entries"))[1]["reason"] == "leaked"
    await desk.put(token="another")
    with pytest.raises(ConnectionDisabled):
        await desk.opened()
    assert (await desk.put(token="another", enable=True)).changed
    assert (await desk.opened()).token == "another"


@pytest.mark.guarantee("X8")
async def test_one_tenant_opens_sees_and_ends_nothing_of_anothers(desk: Desk) -> None:
    await desk.put()
    await desk.put(tenant="globex", token="theirs")
    assert (await desk.opened()).token == TOKEN
    assert (await desk.opened("globex")).token == "theirs"
    with pytest.raises(ConnectionMissing):
        await desk.opened("initech")
    with pytest.raises(ResourceNotFound):
        await desk.operations.disable(
            tenant="initech", forge_instance="gitlab.test", reason="", key_id="x"
        )
    page = await desk.operations.page("globex", size=10, token="")
    assert [each.tenant for each in page.connections] == ["globex"]


@pytest.mark.guarantee("K1")
@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "globex"},
        {"forge_instance": "gitlab.other"},
        {"base_url": "https://evil.test"},
        {"forge": "gitea"},
        {"version": 2},
        {"ciphertext": b"x" * 40},
        {"wrapped_key": b"x" * 60},
    ],
)
async def test_a_row_that_was_changed_behind_our_back_opens_for_nobody(
    desk: Desk, rows: Rows, change: dict[str, Any]
) -> None:
    await desk.put()
    await rows.change("connections", {"tenant": "acme"}, **change)
    place = {name: change[name] for name in ("tenant", "forge_instance") if name in change}
    with pytest.raises(SecretTampered):
        await desk.opened(**place)


@pytest.mark.guarantee("K1")
async def test_a_key_that_is_missing_is_not_called_tampering_and_the_token_can_be_set_anew(
    desk: Desk,
) -> None:
    await desk.put()
    with pytest.raises(SealingKeyUnknown, match="no sealing keys"):
        await desk.with_keys().opened()
    other = desk.with_keys(KEY_2)
    with pytest.raises(SealingKeyUnknown, match="'k1'"):
        await other.opened()
    assert (await other.put()).changed
    assert await other.opened() == ACCESS


@pytest.mark.guarantee("K1")
async def test_without_a_keyring_nothing_is_kept(desk: Desk, rows: Rows) -> None:
    with pytest.raises(SealingKeyUnknown, match="PUBLISHER_SEALING_KEYS"):
        await desk.with_keys().put()
    assert await rows.all("connections") == []


async def test_the_settings_name_a_connection_for_tenants_without_their_own(desk: Desk) -> None:
    settings = desk.settings.model_copy(
        update={"forge_instance": "gitlab.test", "forge_token": SecretStr("everybodys")}
    )
    configured = replace(desk, settings=settings)
    assert (await configured.opened()).token == "everybodys"
    await configured.put()
    assert (await configured.opened()).token == TOKEN
    assert (await configured.opened("globex")).token == "everybodys"
    await configured.operations.disable(
        tenant="acme", forge_instance="gitlab.test", reason="", key_id="admin"
    )
    with pytest.raises(ConnectionDisabled):
        await configured.opened()


@pytest.mark.guarantee("X8")
async def test_pages_hold_every_connection_once(desk: Desk) -> None:
    places = [(tenant, f"git{n}.test") for tenant in ("acme", "globex") for n in range(3)]
    for tenant, instance in places:
        await desk.put(tenant=tenant, forge_instance=instance)
    seen: list[tuple[str, str]] = []
    token = ""
    while not seen or token:
        page = await desk.operations.page(None, size=2, token=token)
        seen += [(row.tenant, row.forge_instance) for row in page.connections]
        token = page.next_page_token
    assert seen == places


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    "token", ["x", "WzFd", "bnVsbA==", "WyJhIl0=", "WyJcdWQ4MDAiLCJhIl0=", "é"]
)
async def test_a_page_token_of_somebody_elses_is_refused(desk: Desk, token: str) -> None:
    with pytest.raises(FieldInvalid, match="page_token"):
        await desk.operations.page(None, size=2, token=token)


@pytest.mark.guarantee("K1", "W7")
async def test_tokens_come_under_the_active_key_and_the_old_key_can_go(
    desk: Desk, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "ROTATED_AT_ONCE", 2)
    for number in range(5):
        await desk.put(forge_instance=f"git{number}.test", token=f"token {number}")
    sealed = {row["forge_instance"]: row["ciphertext"] for row in await rows.all("connections")}
    both = desk.with_keys(KEY_2, KEY_1)
    rotated = await both.operations.rotate(None, key_id="admin")
    assert (rotated.active_key_id, rotated.rewrapped, rotated.unopened) == ("k2", 5, ())
    for row in await rows.all("connections"):
        assert row["sealing_key_id"] == "k2"
        assert row["ciphertext"] == sealed[row["forge_instance"]], "the secret was not opened"
    new = desk.with_keys(KEY_2)
    for number in range(5):
        opened = await new.opened(forge_instance=f"git{number}.test")
        assert opened.token == f"token {number}"
    entries = await rows.all("audit_entries", action="RotateSealingKey")
    assert [entry["detail"]["sealing_key_id"] for entry in entries] == ["k2"] * 5
    assert (await both.operations.rotate(None, key_id="admin")).rewrapped == 0


@pytest.mark.guarantee("K1")
async def test_a_rotation_names_what_it_cannot_open_and_does_the_rest(
    desk: Desk, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "ROTATED_AT_ONCE", 2)
    for number in range(4):
        await desk.put(forge_instance=f"git{number}.test")
    await rows.change("connections", {"forge_instance": "git0.test"}, version=9)
    await rows.change("connections", {"forge_instance": "git1.test"}, sealing_key_id="lost")
    rotated = await desk.with_keys(KEY_2, KEY_1).operations.rotate(None, key_id="admin")
    assert rotated.rewrapped == 2
    assert [row.forge_instance for row in rotated.unopened] == ["git0.test", "git1.test"]


@pytest.mark.guarantee("X8")
async def test_a_tenant_rotates_its_own(desk: Desk, rows: Rows) -> None:
    await desk.put()
    await desk.put(tenant="globex")
    rotated = await desk.with_keys(KEY_2, KEY_1).operations.rotate("globex", key_id="admin")
    assert rotated.rewrapped == 1
    assert (await stored(rows, tenant="acme"))["sealing_key_id"] == "k1"


@pytest.mark.guarantee("K2")
async def test_no_audit_entry_holds_a_token(desk: Desk, rows: Rows) -> None:
    await desk.put()
    await desk.put(token="another-canary")
    text = json.dumps([entry["detail"] for entry in await rows.all("audit_entries")])
    assert TOKEN not in text
    assert "another-canary" not in text
