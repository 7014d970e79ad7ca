"""Endpoints: declared, listed, disabled, and given secrets; each change is one transaction with
its audit entry (W7).

None needs a request id: what is declared, or a secret, is told from another by itself.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fencepost.errors import DatabaseUnavailable, FieldInvalid, ResourceNotFound
from fencepost.metadata import TENANT

from services.ingress.endpoints import rules, secret_operations, secrets_store, store
from services.ingress.endpoints.model import Declared, DraftPolicy, ForgeKind, Proof
from services.ingress.endpoints.rules import Change
from services.ingress.endpoints.secret_operations import Place
from services.ingress.endpoints.secrets_store import SecretRow
from services.ingress.endpoints.store import EndpointRow, EndpointWrite
from shared.database import Database, Transaction
from shared.sealing import Keyring

T = TypeVar("T")

PUT = "PutEndpoint"
DISABLE = "DisableEndpoint"
ROTATE = "RotateEndpointSecret"

ENDPOINTS_PER_TENANT_MAX = 1000
"""Every replica reads all endpoints of all tenants every two seconds."""

NO_SECRET = "must be set for a new endpoint"


@dataclass(frozen=True, kw_only=True)
class Admin:
    """Who asks, and for which tenant."""

    key_id: str
    tenant: str


@dataclass(frozen=True, kw_only=True)
class PutEndpoint:
    """An endpoint as it shall be; no secret: the one it has."""

    admin: Admin
    declared: Declared
    secret: bytes | None = field(repr=False)
    enable: bool
    validate_only: bool


@dataclass(frozen=True, kw_only=True)
class RotateSecret:
    """The next secret of an endpoint."""

    admin: Admin
    name: str
    secret: bytes = field(repr=False)
    overlap_ms: int


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An endpoint with its secrets, newest first, sealed."""

    row: EndpointRow
    secrets: tuple[SecretRow, ...]


@dataclass(frozen=True, kw_only=True)
class PutOutcome:
    """What is stored, if anything, and what differed from what was declared."""

    stored: Stored | None
    created: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class RotateOutcome:
    """The endpoint, and whether it got a secret."""

    stored: Stored
    rotated: bool


@dataclass(frozen=True, kw_only=True)
class Page:
    """Endpoints by tenant and name; the token is empty on the last page."""

    endpoints: tuple[Stored, ...]
    next_page_token: str


@dataclass(frozen=True)
class EndpointOperations:
    """Endpoints on one database; `limit_bytes` is the service's own for bodies."""

    database: Database
    keyring: Keyring
    limit_bytes: int

    async def put(self, command: PutEndpoint) -> PutOutcome:
        """Makes or changes an endpoint, or says what would change. Keeps K1, K2, W7, X8.

        Raises FieldInvalid, SealingKeyUnknown, SecretTampered; then nothing is written.
        """
        _check(command, limit_bytes=self.limit_bytes)
        return await self._surely(
            lambda tx: put(tx, self.keyring, command), lambda outcome: bool(outcome.changes)
        )

    async def disable(self, admin: Admin, name: str, reason: str) -> Stored:
        """Ends its service; again it changes nothing. Keeps W7, X8. Raises ResourceNotFound."""
        return await self._surely(lambda tx: disable(tx, admin, name, reason), lambda _: True)

    async def rotate(self, command: RotateSecret) -> RotateOutcome:
        """Adds a newest secret. Keeps I5, K1, K2, W7, X8. Raises ResourceNotFound, FieldInvalid."""
        return await self._surely(
            lambda tx: rotate(tx, self.keyring, command), lambda outcome: outcome.rotated
        )

    async def page(self, tenant: str | None, *, size: int, token: str) -> Page:
        """One page; raises FieldInvalid for a token that was never given out."""
        after = None
        if token:
            after = rules.page_position(token)
            if after is None:
                sentence = "must be the next_page_token of an answer, or empty"
                raise FieldInvalid(violations=[("page_token", sentence)])
        return await self.database.read(lambda tx: page(tx, tenant, after, size))

    async def _surely(
        self, work: Callable[[Transaction], Awaitable[T]], changes: Callable[[T], bool]
    ) -> T:
        """Runs the work; when the COMMIT's answer is lost, runs it again to learn it (X6).

        Where the second run finds nothing to change, the first one counts, and what it found.
        """
        found: list[T] = []

        async def noted(tx: Transaction) -> T:
            found[:] = [await work(tx)]
            return found[0]

        try:
            return await self.database.run(noted)
        except DatabaseUnavailable as lost:
            if not lost.outcome_unknown:
                raise
            unknown = lost
        try:
            again = await self.database.run(work)
        except DatabaseUnavailable:
            raise unknown from None
        return again if changes(again) else found[0]


async def put(tx: Transaction, keyring: Keyring, command: PutEndpoint) -> PutOutcome:
    """Under the lock of the endpoint's row; a rival that made it first is met as it is."""
    tenant, declared = command.admin.tenant, command.declared
    row = await store.lock_endpoint(tx, tenant=tenant, name=declared.name)
    if row is None:
        changes = rules.changes(None, declared)
        if command.secret is None:
            raise FieldInvalid(violations=[("secret", NO_SECRET)])
        if await store.count_endpoints(tx, tenant=tenant) >= ENDPOINTS_PER_TENANT_MAX:
            sentence = f"would be more than the {ENDPOINTS_PER_TENANT_MAX} that a tenant may have"
            raise FieldInvalid(violations=[("endpoint.name", sentence)])
        if command.validate_only:
            return PutOutcome(stored=None, created=True, changes=tuple(changes))
        if await store.insert_endpoint(tx, _write(tenant, declared)):
            place = Place(tenant=tenant, endpoint=declared.name)
            await secret_operations.add(tx, keyring, place, command.secret, version=1)
            return await _done(tx, command, created=True, changes=changes)
        row = await store.lock_endpoint(tx, tenant=tenant, name=declared.name)
        assert row is not None, "endpoints are never deleted"
    return await _change(tx, keyring, command, row)


async def _change(
    tx: Transaction, keyring: Keyring, command: PutEndpoint, row: EndpointRow
) -> PutOutcome:
    declared, before = command.declared, declared_of(row)
    if refused := list(rules.change_problems(before, declared)):
        raise FieldInvalid(violations=refused)
    place = Place(tenant=row.tenant, endpoint=row.name)
    newest = await secret_operations.require_newest(tx, keyring, place, command.secret)
    secret_operations.check_form(newest, declared.forge, declared.proof)
    changes = rules.changes(before, declared)
    enables = command.enable and row.disabled_at is not None
    if enables:
        changes.append(Change(field="disabled", before="true", after=""))
    if command.validate_only or not changes:
        return PutOutcome(stored=await _stored(tx, row), created=False, changes=tuple(changes))
    changed = await store.update_endpoint(tx, _write(row.tenant, declared))
    assert changed, "a locked endpoint went on without us"
    if enables:
        await store.enable_endpoint(tx, tenant=row.tenant, name=row.name)
    return await _done(tx, command, created=False, changes=changes)


async def disable(tx: Transaction, admin: Admin, name: str, reason: str) -> Stored:
    """Disables a served endpoint; one that is disabled is returned as it is."""
    if await store.disable_endpoint(tx, tenant=admin.tenant, name=name):
        await _write_down(tx, admin, DISABLE, name, {}, reason=reason)
    return await _find(tx, admin, name)


async def rotate(tx: Transaction, keyring: Keyring, command: RotateSecret) -> RotateOutcome:
    """Under the lock of the endpoint's row, so that of two rotations one comes after the other."""
    admin = command.admin
    row = await _lock(tx, admin, command.name)
    declared = declared_of(row)
    secret_operations.check_form(command.secret, declared.forge, declared.proof)
    place = Place(tenant=admin.tenant, endpoint=command.name)
    version = await secret_operations.succeed(
        tx, keyring, place, command.secret, overlap_ms=command.overlap_ms
    )
    if version is not None:
        detail = {"version": version, "overlap_ms": command.overlap_ms}
        await _write_down(tx, admin, ROTATE, command.name, detail)
    return RotateOutcome(stored=await _stored(tx, row), rotated=version is not None)


async def page(
    tx: Transaction, tenant: str | None, after: tuple[str, str] | None, size: int
) -> Page:
    """Endpoints from after a position on, with their secrets, sealed."""
    rows = await store.list_endpoints(tx, tenant=tenant, after=after, limit=size + 1)
    shown, has_more = rows[:size], len(rows) > size
    secrets: dict[tuple[str, str], list[SecretRow]] = {}
    for secret in await secrets_store.list_secrets(tx, [(r.tenant, r.name) for r in shown]):
        secrets.setdefault((secret.tenant, secret.endpoint), []).append(secret)
    return Page(
        endpoints=tuple(
            Stored(row=row, secrets=tuple(secrets.get((row.tenant, row.name), ()))) for row in shown
        ),
        next_page_token=rules.page_token(shown[-1].tenant, shown[-1].name) if has_more else "",
    )


def declared_of(row: EndpointRow) -> Declared:
    """What was declared when the row was written."""
    return Declared(
        name=row.name,
        forge=ForgeKind(row.forge),
        forge_instance=row.forge_instance,
        proof=Proof(row.proof),
        routes=rules.routes_in(row.routes),
        bot_ids=frozenset(row.bot_ids),
        trusted_ids=frozenset(row.trusted_ids),
        wanted_events=frozenset(row.wanted_events),
        drafts=DraftPolicy(row.drafts),
        body_limit_bytes=row.body_limit_bytes,
    )


def _check(command: PutEndpoint, *, limit_bytes: int) -> None:
    found = rules.problems(command.declared, limit_bytes=limit_bytes)
    if problem := rules.tenant_problem(command.admin.tenant):
        found.append((TENANT, problem))
    if found:
        raise FieldInvalid(violations=found)
    if command.secret is not None:
        secret_operations.check_form(command.secret, command.declared.forge, command.declared.proof)


async def _done(
    tx: Transaction, command: PutEndpoint, *, created: bool, changes: Sequence[Change]
) -> PutOutcome:
    admin, name = command.admin, command.declared.name
    detail = {"created": created, "changes": [vars(change) for change in changes]}
    await _write_down(tx, admin, PUT, name, detail)
    stored = await _find(tx, admin, name)
    return PutOutcome(stored=stored, created=created, changes=tuple(changes))


async def _find(tx: Transaction, admin: Admin, name: str) -> Stored:
    return await _stored(tx, await _lock(tx, admin, name))


async def _lock(tx: Transaction, admin: Admin, name: str) -> EndpointRow:
    row = await store.lock_endpoint(tx, tenant=admin.tenant, name=name)
    if row is None:
        raise ResourceNotFound(kind="endpoint", name=name)
    return row


async def _stored(tx: Transaction, row: EndpointRow) -> Stored:
    place = Place(tenant=row.tenant, endpoint=row.name)
    return Stored(row=row, secrets=tuple(await secret_operations.listed(tx, place)))


def _write(tenant: str, declared: Declared) -> EndpointWrite:
    return EndpointWrite(
        tenant=tenant,
        name=declared.name,
        forge=declared.forge.value,
        forge_instance=declared.forge_instance,
        proof=declared.proof.value,
        routes=rules.routes_text(declared.routes),
        bot_ids=sorted(declared.bot_ids),
        trusted_ids=sorted(declared.trusted_ids),
        wanted_events=sorted(declared.wanted_events),
        drafts=declared.drafts.value,
        body_limit_bytes=declared.body_limit_bytes,
    )


async def _write_down(
    tx: Transaction,
    admin: Admin,
    action: str,
    name: str,
    detail: Mapping[str, object],
    reason: str = "",
) -> None:
    await store.insert_audit_entry(
        tx,
        tenant=admin.tenant,
        key_id=admin.key_id,
        action=action,
        subject=f"endpoint {name}",
        reason=reason,
        detail=json.dumps(detail),
    )
