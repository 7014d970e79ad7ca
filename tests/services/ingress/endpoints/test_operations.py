"""Endpoints declared, changed, disabled and listed, with audit entries, each its tenant's."""

from typing import Any

import pytest
from fencepost.errors import FieldInvalid, ResourceNotFound

from services.ingress.endpoints import operations
from services.ingress.endpoints.model import DraftPolicy, ForgeKind, Proof, Route
from services.ingress.endpoints.operations import Stored
from services.ingress.endpoints.rules import Change
from tests.services.ingress.endpoints.office import (
    DECLARED,
    LIMIT_BYTES,
    NEXT,
    SECRET,
    Office,
    admin,
    declared,
)

GITLAB: dict[str, Any] = {"forge": ForgeKind.GITLAB, "forge_instance": "gitlab.com"}


def names(stored: tuple[Stored, ...]) -> list[tuple[str, str]]:
    return [(each.row.tenant, each.row.name) for each in stored]


@pytest.mark.guarantee("W7", "K1", "K2")
async def test_a_new_endpoint_is_stored_with_a_sealed_secret_and_an_entry(office: Office) -> None:
    made = await office.put()
    assert made.created
    assert made.stored is not None
    assert made.stored.row.name == "main"
    assert await office.audited() == [("acme", "PutEndpoint", "endpoint main")]
    [row] = await office.rows.all("endpoint_secrets")
    assert (row["version"], row["sealing_key_id"], row["live_until"]) == (1, "k1", None)
    entry = await office.rows.one("audit_entries")
    assert entry["key_id"] == "adminkey"
    everything = repr([row, entry, made, await office.rows.one("endpoints")])
    assert SECRET not in everything
    assert SECRET.encode().hex() not in row["ciphertext"].hex()


async def test_what_is_declared_again_changes_nothing(office: Office) -> None:
    await office.put()
    before = await office.rows.one("endpoints")
    for secret in (SECRET, None):
        again = await office.put(secret=secret)
        assert (again.created, again.changes) == (False, ())
    assert await office.rows.one("endpoints") == before
    assert len(await office.audited()) == 1


@pytest.mark.guarantee("W7")
async def test_a_change_is_told_field_by_field_and_what_is_left_out_is_unset(
    office: Office,
) -> None:
    ids = {"bot_ids": frozenset({7}), "trusted_ids": frozenset({9, 8})}
    await office.put(declared(**ids, drafts=DraftPolicy.TAKE))
    changed = await office.put(declared(routes=(Route(action="review", queue="slow"),)))
    assert changed.changes == (
        Change(field="routes[0].queue", before="reviews", after="slow"),
        Change(field="drafts", before="take", after="ignore"),
        Change(field="bot_ids", before="7", after=""),
        Change(field="trusted_ids", before="8, 9", after=""),
    )
    assert changed.stored is not None
    assert changed.stored.row.changed_at > changed.stored.row.created_at
    assert [action for _, action, _ in await office.audited()] == ["PutEndpoint"] * 2
    entries = await office.rows.all("audit_entries")
    details = [entry["detail"]["changes"] for entry in entries if not entry["detail"]["created"]]
    assert details == [[vars(change) for change in changed.changes]]


async def test_a_preview_writes_nothing(office: Office) -> None:
    preview = await office.put(validate_only=True)
    assert (preview.stored, preview.created) == (None, True)
    assert preview.changes
    assert await office.rows.all("endpoints") == []
    await office.put()
    changed = await office.put(declared(bot_ids=frozenset({7})), validate_only=True)
    assert changed.changes == (Change(field="bot_ids", before="", after="7"),)
    assert (await office.rows.one("endpoints"))["bot_ids"] == []
    assert len(await office.audited()) == 1


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("changes", "secret", "field"),
    [
        ({}, None, "secret"),
        ({"proof": Proof.TOKEN}, SECRET, "endpoint.proof"),
        ({"body_limit_bytes": LIMIT_BYTES + 1}, SECRET, "endpoint.body_limit_bytes"),
        (GITLAB, SECRET, "secret"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_does_not_fit_is_named_and_nothing_is_written(
    office: Office,
    changes: dict[str, Any],
    secret: str | None,
    field: str,
    validate_only: bool,
) -> None:
    with pytest.raises(FieldInvalid) as refused:
        await office.put(declared(**changes), secret=secret, validate_only=validate_only)
    assert [named for named, _ in refused.value.violations] == [field]
    assert await office.rows.all("endpoints") == []
    assert await office.audited() == []


@pytest.mark.guarantee("I5", "X4")
async def test_another_secret_or_forge_does_not_slip_in_with_a_put(office: Office) -> None:
    await office.put()
    for changes, secret, field in (
        ({}, NEXT, "secret"),
        ({"forge_instance": "ghe.example.org"}, SECRET, "endpoint.forge_instance"),
        (GITLAB | {"proof": Proof.TOKEN}, SECRET, "endpoint.forge"),
    ):
        with pytest.raises(FieldInvalid) as refused:
            await office.put(declared(**changes), secret=secret)
        assert refused.value.violations[0][0] == field
    assert len(await office.rows.all("endpoint_secrets")) == 1


@pytest.mark.guarantee("I5")
async def test_a_proof_changes_only_where_the_secret_can_give_it(office: Office) -> None:
    await office.put(declared(**GITLAB, proof=Proof.TOKEN))
    with pytest.raises(FieldInvalid, match="signing token"):
        await office.put(declared(**GITLAB), secret=None)
    await office.rotate("whsec_c2lnbmluZyBrZXk=")
    changed = await office.put(declared(**GITLAB), secret=None)
    assert changed.changes == (Change(field="proof", before="token", after="signature"),)


@pytest.mark.guarantee("W7")
async def test_a_disabled_endpoint_stays_so_until_it_is_enabled(office: Office) -> None:
    await office.put()
    disabled = await office.operations.disable(admin("acme"), "main", "leaked")
    assert disabled.row.disabled_at is not None
    again = await office.operations.disable(admin("acme"), "main", "leaked")
    assert again == disabled
    put = await office.put(declared(bot_ids=frozenset({7})))
    assert put.stored is not None
    assert put.stored.row.disabled_at == disabled.row.disabled_at
    enabled = await office.put(declared(bot_ids=frozenset({7})), enable=True)
    assert enabled.changes == (Change(field="disabled", before="true", after=""),)
    assert enabled.stored is not None
    assert enabled.stored.row.disabled_at is None
    actions = [action for _, action, _ in await office.audited()]
    assert actions == ["PutEndpoint", "DisableEndpoint", "PutEndpoint", "PutEndpoint"]
    [entry] = await office.rows.all("audit_entries", action="DisableEndpoint")
    assert entry["reason"] == "leaked"


@pytest.mark.guarantee("X8")
async def test_anothers_endpoint_is_not_there_and_its_name_is_free(office: Office) -> None:
    await office.put(declared(bot_ids=frozenset({7})))
    for call in (
        office.operations.disable(admin("other"), "main", ""),
        office.rotate(NEXT, tenant="other"),
    ):
        with pytest.raises(ResourceNotFound, match="no endpoint 'main'"):
            await call
    made = await office.put(tenant="other", secret=NEXT)
    assert made.created
    await office.operations.disable(admin("other"), "main", "")
    ours = await office.rows.one("endpoints", tenant="acme")
    assert (ours["bot_ids"], ours["disabled_at"]) == ([7], None)
    assert len(await office.rows.all("endpoint_secrets", tenant="acme")) == 1


@pytest.mark.guarantee("X8")
async def test_pages_hold_the_tenants_endpoints_by_name(office: Office) -> None:
    for tenant, name in (("acme", "b"), ("acme", "a"), ("other", "a"), ("acme", "c")):
        await office.put(declared(name=name), tenant=tenant)
    first = await office.operations.page("acme", size=2, token="")
    assert names(first.endpoints) == [("acme", "a"), ("acme", "b")]
    assert [len(each.secrets) for each in first.endpoints] == [1, 1]
    last = await office.operations.page("acme", size=2, token=first.next_page_token)
    assert (names(last.endpoints), last.next_page_token) == ([("acme", "c")], "")
    everything = await office.operations.page(None, size=10, token="")
    assert names(everything.endpoints)[-1] == ("other", "a")
    with pytest.raises(FieldInvalid, match="page_token"):
        await office.operations.page("acme", size=2, token="made up")


async def test_a_tenant_whose_name_fits_no_address_is_refused(office: Office) -> None:
    with pytest.raises(FieldInvalid, match="letters, digits"):
        await office.put(tenant="a/b")


async def test_a_tenant_has_no_more_endpoints_than_it_may(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "ENDPOINTS_PER_TENANT_MAX", 1)
    await office.put()
    with pytest.raises(FieldInvalid, match="more than the 1 that a tenant may have"):
        await office.put(declared(name="second"))
    await office.put(declared(bot_ids=frozenset({7})))
    assert (await office.put(tenant="other")).created


async def test_the_declaration_comes_back_whole(office: Office) -> None:
    full = declared(
        routes=(
            Route(action="review", queue="reviews", repo_ids=frozenset({1}), checks=True),
            Route(action="fix", queue="fixes", commands=frozenset({"fix"})),
        ),
        bot_ids=frozenset({7}),
        wanted_events=frozenset({"pull_request"}),
        drafts=DraftPolicy.TAKE,
        body_limit_bytes=1024,
    )
    await office.put(full)
    endpoint = await office.endpoints().of_tenant("acme", "main")
    assert {name: getattr(endpoint, name) for name in vars(full)} == vars(full)
    assert full != DECLARED
