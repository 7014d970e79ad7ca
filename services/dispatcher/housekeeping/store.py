"""Statements of the background duties: guarded, paged, safe with many replicas."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement

_MOVE_DUE = statement("""
    WITH due AS (
        SELECT intent_id FROM waiting
        WHERE due_at <= statement_timestamp()
        ORDER BY due_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), moved AS (
        DELETE FROM waiting AS w USING due WHERE w.intent_id = due.intent_id
        RETURNING w.queue, w.priority, w.tenant, w.intent_id, w.key, w.action, w.attempts, w.due_at
    )
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT queue, priority, tenant, intent_id, key, action, attempts FROM moved
    ORDER BY due_at, intent_id
    RETURNING queue
""")


async def move_due(tx: Transaction, *, limit: int) -> list[str]:
    """Makes ready, newly numbered, what has waited long enough; returns their queues."""
    return await tx.all(_MOVE_DUE, str, limit=limit)


_MOVE_SETTLED = statement("""
    WITH settled AS (
        SELECT w.intent_id FROM waiting AS w
        WHERE w.publication_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM publication_attempts AS a
            WHERE a.publication_id = w.publication_id AND a.status IN ('running', 'uncertain')
        )
        ORDER BY w.publication_id LIMIT %(limit)s
        FOR UPDATE OF w SKIP LOCKED
    ), moved AS (
        DELETE FROM waiting AS w USING settled WHERE w.intent_id = settled.intent_id
        RETURNING w.queue, w.priority, w.tenant, w.intent_id, w.key, w.action, w.attempts
    )
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT queue, priority, tenant, intent_id, key, action, attempts FROM moved
    ORDER BY intent_id
    RETURNING queue
""")


async def move_unblocked(tx: Transaction, *, limit: int) -> list[str]:
    """Makes ready what waited for a publication that is settled now; returns their queues (P2)."""
    return await tx.all(_MOVE_SETTLED, str, limit=limit)


@dataclass(frozen=True)
class Overdue:
    """A running lease past its time, locked."""

    tenant: str
    key: str
    action: str
    epoch: int
    intent_id: int
    queue: str
    priority: int
    attempts: int


_LOCK_OVERDUE = statement("""
    SELECT tenant, key, action, epoch, intent_id, queue, priority, attempts
    FROM leases
    WHERE state = 'running' AND claimable_at <= statement_timestamp()
    ORDER BY claimable_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
""")


async def lock_overdue(tx: Transaction, *, limit: int) -> list[Overdue]:
    """Leases that nobody renewed in time, locked; what another transaction holds is left to it."""
    return await tx.all(_LOCK_OVERDUE, Overdue, limit=limit)


_QUEUE_AGAIN = statement("""
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT b.queue, b.priority, %(tenant)s, b.intent_id, b.key, b.action, b.attempts
    FROM unnest(
        %(queues)s::text[], %(priorities)s::smallint[], %(intent_ids)s::bigint[],
        %(keys)s::text[], %(actions)s::text[], %(attempts)s::int[]
    ) AS b (queue, priority, intent_id, key, action, attempts)
""")


async def queue_again(tx: Transaction, *, tenant: str, leases: Sequence[Overdue]) -> int:
    """Makes ready again, newly numbered, the intents of leases that ran out (L2)."""
    return await tx.execute(
        _QUEUE_AGAIN,
        tenant=tenant,
        queues=[lease.queue for lease in leases],
        priorities=[lease.priority for lease in leases],
        intent_ids=[lease.intent_id for lease in leases],
        keys=[lease.key for lease in leases],
        actions=[lease.action for lease in leases],
        attempts=[lease.attempts for lease in leases],
    )
