"""Statements on bodies: which ones made work already, under whatever delivery id (I12)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement

BodyKey = tuple[str, str, str, bytes]
"""Tenant, endpoint, event and SHA-256 of the body."""


@dataclass(frozen=True)
class _Body:
    tenant: str
    endpoint: str
    event: str
    body_sha256: bytes
    delivery_id: str


_INSERT_BODIES = statement("""
    INSERT INTO body_markers (tenant, endpoint, event, body_sha256, delivery_id, expires_at)
    SELECT n.tenant, n.endpoint, n.event, n.body_sha256, n.delivery_id,
        clock_timestamp() + %(ttl_seconds)s * interval '1 second'
    FROM unnest(
        %(tenants)s::text[], %(endpoints)s::text[], %(events)s::text[], %(digests)s::bytea[],
        %(delivery_ids)s::text[]
    ) AS n (tenant, endpoint, event, body_sha256, delivery_id)
    ORDER BY n.tenant, n.endpoint, n.event, n.body_sha256
    ON CONFLICT (tenant, endpoint, event, body_sha256) DO NOTHING
    RETURNING tenant, endpoint, event, body_sha256, delivery_id
""")


async def insert_bodies(
    tx: Transaction, delivery_ids: dict[BodyKey, str], *, ttl_seconds: int
) -> dict[BodyKey, str]:
    """Takes bodies for these deliveries; one that is taken is missing (I12)."""
    rows = await tx.all(
        _INSERT_BODIES,
        _Body,
        **_bodies(delivery_ids),
        delivery_ids=list(delivery_ids.values()),
        ttl_seconds=ttl_seconds,
    )
    return _by_body(rows)


_FIND_BODIES = statement("""
    SELECT b.tenant, b.endpoint, b.event, b.body_sha256, b.delivery_id
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(endpoints)s::text[], %(events)s::text[], %(digests)s::bytea[]
        ) AS listed (tenant, endpoint, event, body_sha256)
        OFFSET 0
    ) AS n
    JOIN body_markers AS b USING (tenant, endpoint, event, body_sha256)
    WHERE b.expires_at > clock_timestamp()
""")


async def find_bodies(tx: Transaction, keys: Sequence[BodyKey]) -> dict[BodyKey, str]:
    """The delivery that made work of each body, where it still counts as seen."""
    return _by_body(await tx.all(_FIND_BODIES, _Body, **_bodies(keys)))


_DELETE_EXPIRED_BODIES = statement("""
    DELETE FROM body_markers AS b
    USING (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(endpoints)s::text[], %(events)s::text[], %(digests)s::bytea[]
        ) AS listed (tenant, endpoint, event, body_sha256)
        ORDER BY tenant, endpoint, event, body_sha256
        OFFSET 0
    ) AS n
    WHERE b.tenant = n.tenant AND b.endpoint = n.endpoint AND b.event = n.event
        AND b.body_sha256 = n.body_sha256 AND b.expires_at <= clock_timestamp()
""")


async def delete_expired_bodies(tx: Transaction, keys: Sequence[BodyKey]) -> None:
    """Makes room where markers have expired; a rival's new marker stays."""
    await tx.execute(_DELETE_EXPIRED_BODIES, **_bodies(keys))


_DELETE_BODIES = statement("""
    DELETE FROM body_markers AS b
    USING (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(endpoints)s::text[], %(events)s::text[], %(digests)s::bytea[]
        ) AS listed (tenant, endpoint, event, body_sha256)
        OFFSET 0
    ) AS n
    WHERE b.tenant = n.tenant AND b.endpoint = n.endpoint AND b.event = n.event
        AND b.body_sha256 = n.body_sha256
""")


async def delete_bodies(tx: Transaction, keys: Sequence[BodyKey]) -> None:
    """Lets go of bodies that this transaction took and made no work of."""
    await tx.execute(_DELETE_BODIES, **_bodies(keys))


def _bodies(keys: Iterable[BodyKey]) -> dict[str, list[object]]:
    listed = list(keys)
    return {
        "tenants": [tenant for tenant, _, _, _ in listed],
        "endpoints": [endpoint for _, endpoint, _, _ in listed],
        "events": [event for _, _, event, _ in listed],
        "digests": [digest for _, _, _, digest in listed],
    }


def _by_body(rows: Sequence[_Body]) -> dict[BodyKey, str]:
    return {(row.tenant, row.endpoint, row.event, row.body_sha256): row.delivery_id for row in rows}
