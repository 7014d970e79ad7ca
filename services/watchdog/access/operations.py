"""Making, succeeding, ending and listing keys: each change is one transaction with its audit entry.

A credential is made before its transaction and stored as a digest; nothing here can show it again.
So a request id whose key exists is refused, and the refusal names the key and says how to go on.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from fencepost.errors import (
    DatabaseUnavailable,
    FieldInvalid,
    RequestIdReused,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.metadata import TENANT

from services.watchdog.access import rules, store
from services.watchdog.access.store import Answered, KeyRow, NewKey
from shared.credentials import Credential, new_credential
from shared.database import Database, Transaction

T = TypeVar("T")

CREATE = "CreateKey"
ROTATE = "RotateKey"
REVOKE = "RevokeKey"
EVERY_TENANT = "*"


@dataclass(frozen=True, kw_only=True)
class Admin:
    """Who asks: the key, the tenant it acts for (None: all), and the scopes it can pass on."""

    key_id: str
    tenant: str | None
    scopes: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class CreateKey:
    """A key to make, for the tenant that the admin acts for."""

    admin: Admin
    request_id: str
    label: str
    scopes: tuple[str, ...]
    valid_for_ms: int | None


@dataclass(frozen=True, kw_only=True)
class RotateKey:
    """A key to succeed."""

    admin: Admin
    request_id: str
    key_id: str
    overlap_ms: int


@dataclass(frozen=True, kw_only=True)
class Made:
    """A new key with its credential, which is shown to its maker and to nobody else."""

    key: KeyRow
    credential: Credential


@dataclass(frozen=True, kw_only=True)
class Page:
    """Keys, newest first; the token is empty on the last page."""

    keys: list[KeyRow]
    next_page_token: str


class AccessOperations:
    """Keys on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, command: CreateKey) -> Made:
        """Makes a key; raises ScopeMissing, FieldInvalid, RequestIdReused. Keeps X2, W7."""
        credential = new_credential()
        return Made(
            key=await self._surely(lambda tx: create(tx, command, credential)),
            credential=credential,
        )

    async def rotate(self, command: RotateKey) -> Made:
        """Makes a successor and lets the key end after the overlap. Keeps X2, X8, W7.

        Raises ResourceNotFound, ScopeMissing, FieldInvalid, RequestIdReused.
        """
        credential = new_credential()
        return Made(
            key=await self._surely(lambda tx: rotate(tx, command, credential)),
            credential=credential,
        )

    async def revoke(self, admin: Admin, key_id: str) -> KeyRow:
        """Ends a key now; ending it again changes nothing. Keeps X2, X8, W7.

        Raises ResourceNotFound.
        """
        return await self._surely(lambda tx: revoke(tx, admin, key_id))

    async def page(self, tenant: str | None, *, size: int, token: str) -> Page:
        """One page of keys; raises FieldInvalid for a token that was never given out."""
        after = None
        if token:
            after = rules.page_position(token)
            if after is None:
                sentence = "must be the next_page_token of an answer, or empty"
                raise FieldInvalid(violations=[("page_token", sentence)])
        rows = await self._database.read(
            lambda tx: store.list_keys(tx, tenant=tenant, after=after, limit=size + 1)
        )
        keys, has_more = rows[:size], len(rows) > size
        last = keys[-1] if has_more else None
        return Page(
            keys=keys,
            next_page_token=rules.page_token(last.created_at, last.key_id) if last else "",
        )

    async def _surely(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Runs the work; when the COMMIT's answer is lost, runs it again to learn it (X6)."""
        try:
            return await self._database.run(work)
        except DatabaseUnavailable as lost:
            if not lost.outcome_unknown:
                raise
            unknown = lost
        try:
            return await self._database.run(work)
        except DatabaseUnavailable:
            raise unknown from None


async def create(tx: Transaction, command: CreateKey, credential: Credential) -> KeyRow:
    """Stores the key; run again with the same credential it finds what it did."""
    admin = command.admin
    _require_valid(command)
    _require_scopes(command.scopes, admin)
    digest = rules.request_digest(command.label, sorted(command.scopes), command.valid_for_ms)
    found = await _claim_request(tx, admin, CREATE, command.request_id, digest, credential)
    if found is not None:
        return found
    key = await store.insert_key(
        tx,
        NewKey(
            key_id=credential.key_id,
            tenant=admin.tenant,
            label=command.label,
            scopes=command.scopes,
            secret_sha256=credential.secret_sha256,
            created_by=admin.key_id,
            rotated_from=None,
            valid_for_ms=command.valid_for_ms,
        ),
    )
    await _write_down(tx, admin, CREATE, key, ends_at=key.ends_at)
    return key


async def rotate(tx: Transaction, command: RotateKey, credential: Credential) -> KeyRow:
    """Locks the key, so that of two rotations one succeeds; run again it finds what it did."""
    admin = command.admin
    digest = rules.request_digest(command.key_id, command.overlap_ms)
    found = await _claim_request(tx, admin, ROTATE, command.request_id, digest, credential)
    if found is not None:
        return found
    old = await store.lock_key(tx, tenant=admin.tenant, key_id=command.key_id)
    if old is None:
        raise _not_found(command.key_id)
    _require_scopes(old.scopes, admin)
    successor = await store.find_successor(tx, tenant=admin.tenant, key_id=old.key_id)
    if successor is not None:
        raise _key_invalid(f"was rotated already, to key {successor}: rotate that one")
    # Before its end is moved: the successor lives as long as the key was given to live.
    valid_for_ms = rules.life_ms(old.created_at, old.ends_at)
    ended = await store.end_key(
        tx, tenant=admin.tenant, key_id=old.key_id, in_ms=command.overlap_ms
    )
    if ended is None:
        raise _key_invalid("has ended: create a new key")
    key = await store.insert_key(
        tx,
        NewKey(
            key_id=credential.key_id,
            tenant=old.tenant,
            label=old.label,
            scopes=old.scopes,
            secret_sha256=credential.secret_sha256,
            created_by=admin.key_id,
            rotated_from=old.key_id,
            valid_for_ms=valid_for_ms,
        ),
    )
    await _write_down(tx, admin, ROTATE, key, rotated_from=old.key_id, old_ends_at=ended.ends_at)
    return key


async def revoke(tx: Transaction, admin: Admin, key_id: str) -> KeyRow:
    """Ends a live key; one that has ended is returned as it is, and nothing is written."""
    ended = await store.end_key(tx, tenant=admin.tenant, key_id=key_id, in_ms=0)
    if ended is None:
        found = await store.find_key(tx, tenant=admin.tenant, key_id=key_id)
        if found is None:
            raise _not_found(key_id)
        return found
    await _write_down(tx, admin, REVOKE, ended, ends_at=ended.ends_at)
    return ended


def _require_valid(command: CreateKey) -> None:
    problems: list[tuple[str, str]] = []
    life, tenant = command.valid_for_ms, command.admin.tenant
    if life is not None and (problem := rules.life_problem(life)):
        problems.append(("valid_for", problem))
    if tenant is not None and (problem := rules.tenant_problem(tenant)):
        problems.append((TENANT, problem))
    if tenant is None and (problem := rules.useless_without_a_tenant(command.scopes)):
        problems.append((TENANT, problem))
    if problems:
        raise FieldInvalid(violations=problems)


def _require_scopes(scopes: tuple[str, ...], admin: Admin) -> None:
    missing = rules.missing_scope(scopes, admin.scopes)
    if missing is not None:
        sentence = f"Your key lacks the scope {missing}, so it can give it to no other key."
        raise ScopeMissing(scope=missing, message=sentence)


async def _claim_request(
    tx: Transaction,
    admin: Admin,
    method: str,
    request_id: str,
    digest: bytes,
    credential: Credential,
) -> KeyRow | None:
    """Takes the request id. A key is returned when this very credential took it before (X6)."""
    request = {
        "tenant": admin.tenant or EVERY_TENANT,
        "method": method,
        "request_id": request_id,
    }
    answer = Answered(digest=digest, response=credential.key_id.encode())
    if await store.claim_request(tx, answer, **request):
        return None
    answered = await store.find_answer(tx, **request)
    if answered is None or answered.digest != digest:
        raise RequestIdReused(request_id=request_id)
    key_id = answered.response.decode()
    if key_id == credential.key_id:
        return await store.find_key(tx, tenant=admin.tenant, key_id=key_id)
    raise RequestIdReused(request_id=request_id, message=_shown_once(request_id, key_id))


def _shown_once(request_id: str, key_id: str) -> str:
    return (
        f"Request id {request_id!a} made key {key_id}, whose credential was shown once: if it is "
        f"lost, revoke key {key_id} and create another under a new request id."
    )


def _not_found(key_id: str) -> ResourceNotFound:
    return ResourceNotFound(kind="key", name=key_id)


def _key_invalid(sentence: str) -> FieldInvalid:
    return FieldInvalid(violations=[("key_id", sentence)])


async def _write_down(
    tx: Transaction, admin: Admin, action: str, key: KeyRow, **facts: str | datetime | None
) -> None:
    """The audit entry, under the tenant of the key that it is about."""
    detail = {"label": key.label, "scopes": list(key.scopes), **facts}
    await store.insert_audit_entry(
        tx,
        tenant=key.tenant or EVERY_TENANT,
        key_id=admin.key_id,
        action=action,
        subject=f"key {key.key_id}",
        detail=json.dumps(detail, default=datetime.isoformat),
    )
