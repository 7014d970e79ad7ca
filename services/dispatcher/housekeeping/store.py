"""Statements of the background duties: guarded, paged, safe with many replicas."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.dispatcher.dispatch.wakeups import Lane
from shared.database import Transaction, statement

_MOVE_DUE = statement("""
    WITH due AS (
        SELECT intent_id FROM waiting
        WHERE due_at <= statement_timestamp() AND waits_on <> 'head'
        ORDER BY due_at LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), moved AS (
        DELETE FROM waiting AS w USING due WHERE w.intent_id = due.intent_id
        RETURNING w.queue, w.priority, w.tenant, w.intent_id, w.key, w.action, w.attempts, w.due_at
    )
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT queue, priority, tenant, intent_id, key, action, attempts FROM moved
    ORDER BY due_at, intent_id
    RETURNING tenant, queue
""")


async def move_due(tx: Transaction, *, limit: int) -> list[Lane]:
    """Makes ready, newly numbered, what has waited long enough; returns where, one for each.

    What waits for its head stays: nothing is granted at a key without one (I7).
    """
    return await tx.all(_MOVE_DUE, Lane, limit=limit)


_MOVE_SETTLED = statement("""
    WITH settled AS (
        SELECT w.intent_id FROM waiting AS w
        WHERE w.publication_id IS NOT NULL AND (
            SELECT a.status FROM publication_attempts AS a
            WHERE a.publication_id = w.publication_id AND a.status IN ('running', 'uncertain')
            LIMIT 1
        ) IS NULL
        ORDER BY w.publication_id LIMIT %(limit)s
        FOR UPDATE OF w SKIP LOCKED
    ), moved AS (
        DELETE FROM waiting AS w USING settled WHERE w.intent_id = settled.intent_id
        RETURNING w.queue, w.priority, w.tenant, w.intent_id, w.key, w.action, w.attempts
    )
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT queue, priority, tenant, intent_id, key, action, attempts FROM moved
    ORDER BY intent_id
    RETURNING tenant, queue
""")


async def move_unblocked(tx: Transaction, *, limit: int) -> list[Lane]:
    """Makes ready what waited for a publication that is settled now; returns where (P2)."""
    return await tx.all(_MOVE_SETTLED, Lane, limit=limit)


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


@dataclass(frozen=True)
class Seen:
    """What a look found; lanes by their number, from 1, in the list that was asked about."""

    is_due: bool
    is_headless: bool
    is_overdue: bool
    has_spans: bool
    lane_numbers: tuple[int, ...]


_LOOK = statement("""
    WITH RECURSIVE steps AS (
        SELECT l.number, l.tenant, l.queue,
            (SELECT max(r.priority) FROM ready AS r WHERE r.queue = l.queue) AS priority
        FROM unnest(%(tenants)s::text[], %(queues)s::text[]) WITH ORDINALITY
            AS l (tenant, queue, number)
      UNION ALL
        SELECT s.number, s.tenant, s.queue, (
            SELECT max(r.priority) FROM ready AS r
            WHERE r.queue = s.queue AND r.priority < s.priority
        )
        FROM steps AS s WHERE s.priority IS NOT NULL
    )
    SELECT
        EXISTS (
            SELECT FROM waiting WHERE due_at <= statement_timestamp() AND waits_on <> 'head'
        ) OR EXISTS (
            SELECT FROM waiting AS w
            WHERE w.publication_id IS NOT NULL AND (
                SELECT a.status FROM publication_attempts AS a
                WHERE a.publication_id = w.publication_id AND a.status IN ('running', 'uncertain')
                LIMIT 1
            ) IS NULL
        ) AS is_due,
        EXISTS (
            SELECT FROM waiting WHERE waits_on = 'head' AND due_at <= statement_timestamp()
        ) AS is_headless,
        EXISTS (
            SELECT FROM leases WHERE state = 'running' AND claimable_at <= statement_timestamp()
        ) AS is_overdue,
        EXISTS (SELECT FROM run_spans WHERE exported_at IS NULL) AS has_spans,
        ARRAY(
            SELECT DISTINCT s.number FROM steps AS s
            WHERE (
                SELECT true FROM ready AS r
                WHERE r.queue = s.queue AND r.priority = s.priority AND r.tenant = s.tenant
                LIMIT 1
            )
        ) AS lane_numbers
""")


async def look(tx: Transaction, *, lanes: Sequence[Lane]) -> Seen:
    """Whether anything is due, without its head, overdue or to be exported; lanes with work."""
    seen = await tx.one(
        _LOOK,
        Seen,
        tenants=[lane.tenant for lane in lanes],
        queues=[lane.queue for lane in lanes],
    )
    assert seen is not None, "a select without a table has one row"
    return seen
