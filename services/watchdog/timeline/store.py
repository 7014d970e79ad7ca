"""Which change request and which deliveries a story is about, and when this is.

Rows become what the caller gives as `into`, a dataclass with the statement's columns. `tenant` None
stands for all tenants; only an operator's caller gets that far (X8).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from shared.database import Transaction, statement

T = TypeVar("T")

RECENT_DELIVERIES_MAX = 10_000
ENDPOINTS_MAX = 20
CASE_BLIND_ROWS_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """A change request's identity."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int


_ONE_SNAPSHOT = statement("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

_NOW = statement("SELECT statement_timestamp()")


async def in_one_snapshot(tx: Transaction) -> datetime:
    """From here on the transaction sees one moment; returns it. Call it first."""
    await tx.execute(_ONE_SNAPSHOT)
    now = await tx.one(_NOW, datetime)
    assert now is not None, "the clock always answers"
    return now


_DELIVERIES_BY_ID = statement("""
    SELECT tenant, delivery_seq, endpoint, delivery_id, event, event_action, received_at, outcome,
        reason, matched_delivery_id, key, forge_instance, repo_id, number, traceparent
    FROM deliveries
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s) AND delivery_id = %(delivery_id)s
    ORDER BY delivery_seq DESC
    LIMIT %(limit)s
""")


async def deliveries_by_id(
    tx: Transaction, into: type[T], *, tenant: str | None, delivery_id: str, limit: int
) -> list[T]:
    """Deliveries of this id, newest first."""
    return await tx.all(
        _DELIVERIES_BY_ID, into, tenant=tenant, delivery_id=delivery_id, limit=limit
    )


_DELIVERIES_OF = statement("""
    SELECT tenant, delivery_seq, endpoint, delivery_id, event, event_action, received_at, outcome,
        reason, matched_delivery_id, key, forge_instance, repo_id, number, traceparent
    FROM deliveries
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s AND repo_id = %(repo_id)s
        AND number = %(number)s
        AND (%(keys)s::text[] IS NULL OR key = ANY (%(keys)s))
    ORDER BY received_at DESC
    LIMIT %(limit)s
""")


async def deliveries_of(
    tx: Transaction, into: type[T], place: Place, *, keys: Sequence[str] | None, limit: int
) -> list[T]:
    """Deliveries that spoke of the change request, or of these keys of it, newest first."""
    return await tx.all(_DELIVERIES_OF, into, **vars(place), keys=_list(keys), limit=limit)


_CHANGE_REQUEST = statement("""
    SELECT tenant, forge_instance, repo_id, number, repo_name, url, head_sha, generation, state,
        updated_at
    FROM change_requests
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s AND repo_id = %(repo_id)s
        AND number = %(number)s
""")


async def change_request(tx: Transaction, into: type[T], place: Place) -> T | None:
    """The change request of this identity."""
    return await tx.one(_CHANGE_REQUEST, into, **vars(place))


_BY_URL = statement("""
    SELECT tenant, forge_instance, repo_id, number, repo_name, url, head_sha, generation, state,
        updated_at
    FROM change_requests
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s) AND url = ANY (%(urls)s::text[])
    ORDER BY updated_at DESC
    LIMIT 100
""")

_BY_URL_IN_ANY_CASE = statement("""
    SELECT tenant, forge_instance, repo_id, number, repo_name, url, head_sha, generation, state,
        updated_at
    FROM (
        SELECT tenant, forge_instance, repo_id, number, repo_name, url, head_sha, generation,
            state, updated_at
        FROM change_requests
        WHERE %(tenant)s::text IS NULL OR tenant = %(tenant)s
        LIMIT %(looked_at_max)s
    ) AS looked_at
    WHERE lower(url) = ANY (SELECT lower(given) FROM unnest(%(urls)s::text[]) AS given)
    ORDER BY updated_at DESC
    LIMIT 100
""")


async def change_requests_by_url(
    tx: Transaction, into: type[T], *, tenant: str | None, urls: Sequence[str]
) -> list[T]:
    """Change requests at one of these addresses, the one changed last first.

    Only where there is none, and among a limited number, the case of letters does not count, as it
    does not on forges.
    """
    found = await tx.all(_BY_URL, into, tenant=tenant, urls=list(urls))
    return found or await tx.all(
        _BY_URL_IN_ANY_CASE,
        into,
        tenant=tenant,
        urls=list(urls),
        looked_at_max=CASE_BLIND_ROWS_MAX,
    )


_ENDPOINTS = statement("""
    WITH RECURSIVE known (tenant, endpoint, counted) AS (
        (
            SELECT d.tenant, d.endpoint, 1 FROM deliveries AS d
            WHERE %(tenant)s::text IS NULL OR d.tenant = %(tenant)s
            ORDER BY d.tenant, d.endpoint LIMIT 1
        )
        UNION ALL
        SELECT next.tenant, next.endpoint, known.counted + 1
        FROM known, LATERAL (
            SELECT d.tenant, d.endpoint FROM deliveries AS d
            WHERE (d.tenant, d.endpoint) > (known.tenant, known.endpoint)
                AND (%(tenant)s::text IS NULL OR d.tenant = %(tenant)s)
            ORDER BY d.tenant, d.endpoint LIMIT 1
        ) AS next
        WHERE known.counted < %(endpoints_max)s
    ), recent AS MATERIALIZED (
        (
            SELECT d.tenant, d.endpoint, d.received_at FROM deliveries AS d
            WHERE d.tenant = %(tenant)s
            ORDER BY d.received_at DESC LIMIT %(recent_max)s
        )
        UNION ALL
        (
            SELECT d.tenant, d.endpoint, d.received_at FROM deliveries AS d
            WHERE %(tenant)s::text IS NULL
            ORDER BY d.delivery_seq DESC LIMIT %(recent_max)s
        )
    )
    SELECT CASE WHEN %(tenant)s::text IS NULL THEN known.tenant END AS tenant, known.endpoint,
        max(recent.received_at) AS heard_at
    FROM known LEFT JOIN recent USING (tenant, endpoint)
    GROUP BY known.tenant, known.endpoint
    ORDER BY heard_at DESC NULLS LAST, known.tenant, known.endpoint
""")


async def endpoints(tx: Transaction, into: type[T], *, tenant: str | None) -> list[T]:
    """Endpoints that ever sent and when each was last heard, looking at recent deliveries only."""
    return await tx.all(
        _ENDPOINTS,
        into,
        tenant=tenant,
        recent_max=RECENT_DELIVERIES_MAX,
        endpoints_max=ENDPOINTS_MAX,
    )


_HEADS = statement("""
    WITH heads AS (
        SELECT generation, head_sha, became_current_at,
            forge_instance || '/' || repo_id || '#' || number || '@' || head_sha AS key
        FROM change_request_heads
        WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
            AND repo_id = %(repo_id)s AND number = %(number)s
    ), wanted AS (
        SELECT generation FROM heads
        WHERE %(keys)s::text[] IS NULL OR EXISTS (
            SELECT FROM unnest(%(keys)s) AS k (key)
            WHERE k.key = heads.key OR starts_with(k.key, heads.key || ':')
        )
    )
    SELECT generation, head_sha, key, became_current_at
    FROM heads
    WHERE generation IN (SELECT generation FROM wanted)
        OR generation IN (SELECT generation + 1 FROM wanted)
    ORDER BY generation DESC
    LIMIT %(limit)s
""")


async def heads(
    tx: Transaction, into: type[T], place: Place, *, keys: Sequence[str] | None, limit: int
) -> list[T]:
    """Heads that were current, newest first; of these keys alone, with what followed each."""
    return await tx.all(_HEADS, into, **vars(place), keys=_list(keys), limit=limit)


def _list(keys: Sequence[str] | None) -> list[str] | None:
    return None if keys is None else list(keys)
