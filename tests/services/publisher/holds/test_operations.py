"""Placing and lifting holds, each with its audit entry."""

from typing import Any

import pytest
from fencepost.errors import RequestIdReused, ResourceNotFound

from services.publisher.holds import operations as holds
from services.publisher.holds.operations import HoldScope, PlaceHold
from shared.database import Database
from tests.rows import Rows

SCOPES: list[HoldScope] = [
    HoldScope(tenant=None),
    HoldScope(tenant="acme"),
    HoldScope(tenant="acme", action="container-dispatch"),
    HoldScope(tenant=None, forge_instance="github.com", repo_id=4711),
    HoldScope(tenant="acme", forge_instance="github.com", repo_id=4711, number=7),
]


def command(**changes: Any) -> PlaceHold:
    """An operator's hold on the tenant acme."""
    given = {
        "request_id": "request-1",
        "scope": HoldScope(tenant="acme"),
        "reason": "bot gone wild",
        "key_id": "operator",
    }
    return PlaceHold(**{**given, **changes})


async def place(database: Database, placed: PlaceHold) -> int:
    return await database.run(lambda tx: holds.place(tx, placed))


@pytest.mark.guarantee("P11", "W7")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_a_hold_and_its_audit_entry_are_one_transaction(
    database: Database, rows: Rows, scope: HoldScope
) -> None:
    hold_id = await place(database, command(scope=scope))
    hold = await rows.one("holds", hold_id=hold_id)
    assert hold == {
        **hold,
        **vars(scope),
        "reason": "bot gone wild",
        "placed_by": "operator",
        "released_by": None,
        "released_at": None,
    }
    entry = await rows.one("audit_entries")
    assert entry == {
        **entry,
        "tenant": scope.tenant or "*",
        "key_id": "operator",
        "action": "HoldPublications",
        "subject": f"hold {hold_id}",
        "reason": "bot gone wild",
        "detail": vars(scope),
    }


@pytest.mark.guarantee("P11")
async def test_a_repeat_of_a_request_returns_the_first_hold(database: Database, rows: Rows) -> None:
    first = await place(database, command())
    assert await place(database, command(key_id="another operator")) == first
    assert len(await rows.all("holds")) == 1
    assert len(await rows.all("audit_entries")) == 1


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    "other", [{"reason": "another"}, {"scope": HoldScope(tenant="acme", action="a-bot")}], ids=str
)
async def test_a_request_id_stands_for_one_request(
    database: Database, rows: Rows, other: dict[str, Any]
) -> None:
    await place(database, command())
    with pytest.raises(RequestIdReused):
        await place(database, command(**other))
    assert len(await rows.all("holds")) == 1
    assert len(await rows.all("audit_entries")) == 1


@pytest.mark.guarantee("X8")
async def test_request_ids_of_two_tenants_do_not_meet(database: Database, rows: Rows) -> None:
    scopes = [HoldScope(tenant=tenant) for tenant in ("acme", "other", None)]
    placed = [await place(database, command(scope=scope)) for scope in scopes]
    assert len(set(placed)) == 3


@pytest.mark.guarantee("P11", "W7")
async def test_a_hold_is_lifted_once(database: Database, rows: Rows) -> None:
    hold_id = await place(database, command())

    async def release(key_id: str) -> object:
        return await database.run(
            lambda tx: holds.release(tx, tenant="acme", hold_id=hold_id, key_id=key_id)
        )

    lifted_at = await release("first")
    assert await release("second") == lifted_at
    hold = await rows.one("holds", hold_id=hold_id)
    assert (hold["released_by"], hold["released_at"]) == ("first", lifted_at)
    placed, lifted = await rows.all("audit_entries")
    assert placed["action"] == "HoldPublications"
    assert (lifted["action"], lifted["subject"], lifted["key_id"]) == (
        *("ReleaseHold", f"hold {hold_id}", "first"),
    )


@pytest.mark.guarantee("X8")
@pytest.mark.parametrize("owner", ["other", None])
async def test_another_tenants_hold_is_not_found(
    database: Database, rows: Rows, owner: str | None
) -> None:
    hold = await rows.hold(tenant=owner)
    with pytest.raises(ResourceNotFound, match="hold"):
        await database.run(
            lambda tx: holds.release(tx, tenant="acme", hold_id=hold["hold_id"], key_id="k")
        )
    assert (await rows.one("holds"))["released_at"] is None
    assert await rows.all("audit_entries") == []


@pytest.mark.guarantee("X8")
async def test_a_key_of_no_tenant_lifts_any_hold(database: Database, rows: Rows) -> None:
    for tenant in ("acme", None):
        hold = await rows.hold(tenant=tenant)
        await database.run(
            lambda tx: holds.release(tx, tenant=None, hold_id=hold["hold_id"], key_id="k")  # noqa: B023
        )
    assert [hold["released_by"] for hold in await rows.all("holds")] == ["k", "k"]
