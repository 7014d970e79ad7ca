"""Statements that take expired markers away, a bounded number at a time."""

from shared.database import Transaction, statement

# What intake works on just now is left to the next time.
_PURGE_MARKERS = statement("""
    WITH expired AS (
        SELECT tenant, endpoint, delivery_id
        FROM delivery_markers
        WHERE expires_at <= statement_timestamp()
        ORDER BY expires_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM delivery_markers AS m USING expired AS e
    WHERE m.tenant = e.tenant AND m.endpoint = e.endpoint AND m.delivery_id = e.delivery_id
""")


async def purge_markers(tx: Transaction, *, limit: int) -> int:
    """Forgets delivery ids whose time is over; returns how many."""
    return await tx.execute(_PURGE_MARKERS, limit=limit)


_PURGE_BODIES = statement("""
    WITH expired AS (
        SELECT tenant, endpoint, event, body_sha256
        FROM body_markers
        WHERE expires_at <= statement_timestamp()
        ORDER BY expires_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM body_markers AS b USING expired AS e
    WHERE b.tenant = e.tenant AND b.endpoint = e.endpoint AND b.event = e.event
        AND b.body_sha256 = e.body_sha256
""")


async def purge_bodies(tx: Transaction, *, limit: int) -> int:
    """Forgets bodies whose time is over; returns how many."""
    return await tx.execute(_PURGE_BODIES, limit=limit)
