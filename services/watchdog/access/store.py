"""Statements on API keys, their request ids and the audit trail.

`tenant` None stands for all tenants; only an operator's caller gets that far (X8).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """A key as stored, without its secret's digest."""

    key_id: str
    tenant: str | None
    label: str
    scopes: tuple[str, ...]
    created_at: datetime
    ends_at: datetime | None
    rotated_from: str | None


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A key about to be stored; `valid_for_ms` None: it has no end."""

    key_id: str
    tenant: str | None
    label: str
    scopes: Sequence[str]
    secret_sha256: bytes = field(repr=False)
    created_by: str
    rotated_from: str | None
    valid_for_ms: int | None


_INSERT_KEY = statement("""
    INSERT INTO api_keys (
        key_id, tenant, label, scopes, secret_sha256, created_by, rotated_from, ends_at
    )
    VALUES (
        %(key_id)s, %(tenant)s, %(label)s, %(scopes)s::text[], %(secret_sha256)s, %(created_by)s,
        %(rotated_from)s,
        clock_timestamp() + %(valid_for_ms)s::bigint * interval '1 millisecond'
    )
    RETURNING key_id, tenant, label, scopes, created_at, ends_at, rotated_from
""")


async def insert_key(tx: Transaction, new: NewKey) -> KeyRow:
    """Stores the key."""
    made = await tx.one(_INSERT_KEY, KeyRow, **{**vars(new), "scopes": list(new.scopes)})
    assert made is not None, "an insert without a condition returns its row"
    return made


_LOCK_KEY = statement("""
    SELECT key_id, tenant, label, scopes, created_at, ends_at, rotated_from
    FROM api_keys
    WHERE key_id = %(key_id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    FOR UPDATE
""")


async def lock_key(tx: Transaction, *, tenant: str | None, key_id: str) -> KeyRow | None:
    """The key, which nobody else changes until the commit. None: the tenant has no such key."""
    return await tx.one(_LOCK_KEY, KeyRow, tenant=tenant, key_id=key_id)


_FIND_KEY = statement("""
    SELECT key_id, tenant, label, scopes, created_at, ends_at, rotated_from
    FROM api_keys
    WHERE key_id = %(key_id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")


async def find_key(tx: Transaction, *, tenant: str | None, key_id: str) -> KeyRow | None:
    """The key. None: the tenant has no such key."""
    return await tx.one(_FIND_KEY, KeyRow, tenant=tenant, key_id=key_id)


_END_KEY = statement("""
    UPDATE api_keys
    SET ends_at = least(ends_at, clock_timestamp() + %(in_ms)s * interval '1 millisecond')
    WHERE key_id = %(key_id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (ends_at IS NULL OR ends_at > clock_timestamp())
    RETURNING key_id, tenant, label, scopes, created_at, ends_at, rotated_from
""")


async def end_key(tx: Transaction, *, tenant: str | None, key_id: str, in_ms: int) -> KeyRow | None:
    """Lets a live key end in so long, never later than it would. None: it is not live."""
    return await tx.one(_END_KEY, KeyRow, tenant=tenant, key_id=key_id, in_ms=in_ms)


_FIND_SUCCESSOR = statement("""
    SELECT key_id
    FROM api_keys
    WHERE rotated_from = %(key_id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    LIMIT 1
""")


async def find_successor(tx: Transaction, *, tenant: str | None, key_id: str) -> str | None:
    """The key that this one was rotated to. None: it never was."""
    return await tx.one(_FIND_SUCCESSOR, str, tenant=tenant, key_id=key_id)


_LIST_KEYS = statement("""
    SELECT key_id, tenant, label, scopes, created_at, ends_at, rotated_from
    FROM api_keys
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (
            %(after_created_at)s::timestamptz IS NULL
            OR (created_at, key_id) < (%(after_created_at)s, %(after_key_id)s::text)
        )
    ORDER BY created_at DESC, key_id DESC
    LIMIT %(limit)s
""")


async def list_keys(
    tx: Transaction, *, tenant: str | None, after: tuple[datetime, str] | None, limit: int
) -> list[KeyRow]:
    """Keys, newest first, from after this position on."""
    after_created_at, after_key_id = after or (None, None)
    return await tx.all(
        _LIST_KEYS,
        KeyRow,
        tenant=tenant,
        after_created_at=after_created_at,
        after_key_id=after_key_id,
        limit=limit,
    )


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a request id stands for; `response` is the id of the key that it made."""

    digest: bytes
    response: bytes


_CLAIM_REQUEST = statement("""
    INSERT INTO request_ids (tenant, method, request_id, digest, response)
    VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(response)s)
    ON CONFLICT (tenant, method, request_id) DO NOTHING
""")


async def claim_request(
    tx: Transaction, answered: Answered, *, tenant: str, method: str, request_id: str
) -> bool:
    """Takes the request id. False: it was used, which the next statement can read."""
    inserted = await tx.execute(
        _CLAIM_REQUEST, **vars(answered), tenant=tenant, method=method, request_id=request_id
    )
    return inserted == 1


_FIND_ANSWER = statement("""
    SELECT digest, response
    FROM request_ids
    WHERE tenant = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
""")


async def find_answer(
    tx: Transaction, *, tenant: str, method: str, request_id: str
) -> Answered | None:
    """What the request id was used for."""
    return await tx.one(_FIND_ANSWER, Answered, tenant=tenant, method=method, request_id=request_id)


_INSERT_AUDIT_ENTRY = statement("""
    INSERT INTO audit_entries (tenant, key_id, action, subject, detail)
    VALUES (%(tenant)s, %(key_id)s, %(action)s, %(subject)s, %(detail)s::jsonb)
""")


async def insert_audit_entry(
    tx: Transaction, *, tenant: str, key_id: str, action: str, subject: str, detail: str
) -> None:
    """Writes down who did what (W7); `detail` is JSON text."""
    await tx.execute(
        _INSERT_AUDIT_ENTRY,
        tenant=tenant,
        key_id=key_id,
        action=action,
        subject=subject,
        detail=detail,
    )
