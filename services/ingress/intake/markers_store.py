"""Statements on markers: which delivery ids are taken.

An INSERT with ON CONFLICT DO NOTHING waits for a rival that has not committed. When the rival
commits, the insert writes nothing and its winner is visible only to the next statement; when the
rival rolls back, the insert wins. Rows are inserted and deleted in the order of their keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement

DeliveryKey = tuple[str, str, str]
"""Tenant, endpoint and delivery id."""


@dataclass(frozen=True)
class _Taken:
    tenant: str
    endpoint: str
    delivery_id: str
    delivery_seq: int


# Drawing the delivery's number here lets the delivery be stored last, with its outcome.
_INSERT_MARKERS = statement("""
    INSERT INTO delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    SELECT n.tenant, n.endpoint, n.delivery_id, n.body_sha256,
        clock_timestamp() + %(ttl_seconds)s * interval '1 second'
    FROM unnest(
        %(tenants)s::text[], %(endpoints)s::text[], %(delivery_ids)s::text[], %(digests)s::bytea[]
    ) AS n (tenant, endpoint, delivery_id, body_sha256)
    ORDER BY n.tenant, n.endpoint, n.delivery_id
    ON CONFLICT (tenant, endpoint, delivery_id) DO NOTHING
    RETURNING tenant, endpoint, delivery_id,
        nextval('deliveries_delivery_seq_seq') AS delivery_seq
""")


async def insert_markers(
    tx: Transaction, digests: dict[DeliveryKey, bytes], *, ttl_seconds: int
) -> dict[DeliveryKey, int]:
    """Takes delivery ids, each with a number for its delivery; a taken one is missing (I1)."""
    rows = await tx.all(
        _INSERT_MARKERS,
        _Taken,
        **_ids(digests),
        digests=list(digests.values()),
        ttl_seconds=ttl_seconds,
    )
    return {(row.tenant, row.endpoint, row.delivery_id): row.delivery_seq for row in rows}


@dataclass(frozen=True)
class _Marker:
    tenant: str
    endpoint: str
    delivery_id: str
    body_sha256: bytes


_FIND_MARKERS = statement("""
    SELECT m.tenant, m.endpoint, m.delivery_id, m.body_sha256
    FROM (
        SELECT *
        FROM unnest(%(tenants)s::text[], %(endpoints)s::text[], %(delivery_ids)s::text[])
            AS listed (tenant, endpoint, delivery_id)
        OFFSET 0
    ) AS n
    JOIN delivery_markers AS m USING (tenant, endpoint, delivery_id)
    WHERE m.expires_at > clock_timestamp()
""")


async def find_markers(tx: Transaction, keys: Sequence[DeliveryKey]) -> dict[DeliveryKey, bytes]:
    """The body's digest of each id that still counts as seen."""
    rows = await tx.all(_FIND_MARKERS, _Marker, **_ids(keys))
    return {(row.tenant, row.endpoint, row.delivery_id): row.body_sha256 for row in rows}


_DELETE_EXPIRED_MARKERS = statement("""
    DELETE FROM delivery_markers AS m
    USING (
        SELECT *
        FROM unnest(%(tenants)s::text[], %(endpoints)s::text[], %(delivery_ids)s::text[])
            AS listed (tenant, endpoint, delivery_id)
        ORDER BY tenant, endpoint, delivery_id
        OFFSET 0
    ) AS n
    WHERE m.tenant = n.tenant AND m.endpoint = n.endpoint AND m.delivery_id = n.delivery_id
        AND m.expires_at <= clock_timestamp()
""")


async def delete_expired_markers(tx: Transaction, keys: Sequence[DeliveryKey]) -> None:
    """Makes room where markers have expired; a rival's new marker stays (I3)."""
    await tx.execute(_DELETE_EXPIRED_MARKERS, **_ids(keys))


def _ids(keys: "Sequence[DeliveryKey] | dict[DeliveryKey, bytes]") -> dict[str, list[object]]:
    return {
        "tenants": [tenant for tenant, _, _ in keys],
        "endpoints": [endpoint for _, endpoint, _ in keys],
        "delivery_ids": [delivery_id for _, _, delivery_id in keys],
    }
