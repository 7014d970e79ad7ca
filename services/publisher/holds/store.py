"""Statements over holds and request ids."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class NewHold:
    """A hold about to be placed; a field that is None holds every value of it."""

    tenant: str | None
    action: str | None
    forge_instance: str | None
    repo_id: int | None
    number: int | None
    reason: str
    placed_by: str


_INSERT_HOLD = statement("""
    INSERT INTO holds (tenant, action, forge_instance, repo_id, number, reason, placed_by)
    VALUES (
        %(tenant)s, %(action)s, %(forge_instance)s, %(repo_id)s, %(number)s, %(reason)s,
        %(placed_by)s
    )
    RETURNING hold_id
""")


async def insert_hold(tx: Transaction, new: NewHold) -> int:
    """Places the hold."""
    hold_id = await tx.one(_INSERT_HOLD, int, **vars(new))
    assert hold_id is not None, "an insert without a condition returns its row"
    return hold_id


_RELEASE_HOLD = statement("""
    UPDATE holds
    SET released_by = %(released_by)s, released_at = clock_timestamp()
    WHERE hold_id = %(hold_id)s AND released_at IS NULL
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    RETURNING released_at
""")


async def release_hold(
    tx: Transaction, *, tenant: str | None, hold_id: int, released_by: str
) -> datetime | None:
    """Lifts a hold that stands. None: it does not stand, or is not the tenant's."""
    return await tx.one(
        _RELEASE_HOLD, datetime, tenant=tenant, hold_id=hold_id, released_by=released_by
    )


_RELEASED_AT = statement("""
    SELECT released_at
    FROM holds
    WHERE hold_id = %(hold_id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")


async def released_at(tx: Transaction, *, tenant: str | None, hold_id: int) -> datetime | None:
    """When the hold was lifted. None: it never was, or it is not the tenant's."""
    return await tx.one(_RELEASED_AT, datetime, tenant=tenant, hold_id=hold_id)


_LOCK_REQUEST = statement("""
    SELECT pg_advisory_xact_lock(
        hashtextextended(%(tenant)s::text || ' ' || %(method)s || ' ' || %(request_id)s, 0)
    )
""")


async def lock_request(tx: Transaction, *, tenant: str, method: str, request_id: str) -> None:
    """Lets requests of one id pass one after the other, each to the end of its transaction."""
    await tx.execute(_LOCK_REQUEST, tenant=tenant, method=method, request_id=request_id)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The stored answer of a request id."""

    digest: bytes
    response: bytes


_FIND_ANSWER = statement("""
    SELECT digest, response
    FROM request_ids
    WHERE tenant = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
""")


async def find_answer(
    tx: Transaction, *, tenant: str, method: str, request_id: str
) -> Answered | None:
    """What the request id was answered before."""
    return await tx.one(_FIND_ANSWER, Answered, tenant=tenant, method=method, request_id=request_id)


_INSERT_ANSWER = statement("""
    INSERT INTO request_ids (tenant, method, request_id, digest, response)
    VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(response)s)
""")


async def insert_answer(
    tx: Transaction,
    answered: Answered,
    *,
    tenant: str,
    method: str,
    request_id: str,
) -> None:
    """Keeps the answer for repeats; the id must be locked."""
    await tx.execute(
        _INSERT_ANSWER, **vars(answered), tenant=tenant, method=method, request_id=request_id
    )
