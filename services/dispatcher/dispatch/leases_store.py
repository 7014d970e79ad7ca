"""Statements of the grant on leases: lock, take under the guard, record who was displaced.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import LeaseState


@dataclass(frozen=True)
class LeaseRow:
    """A lease as it stood when it was locked."""

    key: str
    action: str
    generation: int
    state: LeaseState
    epoch: int
    holder: str
    intent_id: int
    attempts: int
    granted_at: datetime


_LOCK_LEASES = statement("""
    SELECT l.key, l.action, l.generation, l.state, l.epoch, l.holder, l.intent_id, l.attempts,
        l.granted_at
    FROM leases AS l
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(keys)s::text[], %(actions)s::text[]) AS listed (key, action)
        OFFSET 0
    ) AS wanted USING (tenant, key, action)
    ORDER BY l.key, l.action
    FOR UPDATE OF l
""")


async def lock_leases(
    tx: Transaction, *, tenant: str, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], LeaseRow]:
    """Locks the leases that exist, in order of (key, action); a key without one is missing."""
    rows = await tx.all(
        _LOCK_LEASES,
        LeaseRow,
        tenant=tenant,
        keys=[key for key, _ in keys],
        actions=[action for _, action in keys],
    )
    return {(row.key, row.action): row for row in rows}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A lease that a picked intent asks for; `epoch_seen` is 0 where no lease was seen."""

    key: str
    action: str
    generation: int
    epoch_seen: int
    intent_id: int
    queue: str
    priority: int
    attempts: int
    lease_ms: int


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who asks, under which grant."""

    tenant: str
    holder: str
    session_id: str | None
    grant_id: str


@dataclass(frozen=True)
class Taken:
    """A lease that was granted."""

    key: str
    action: str
    epoch: int


_TAKE_LEASES = statement("""
    INSERT INTO leases AS held (
        tenant, key, action, generation, state, epoch, holder, session_id, intent_id, queue,
        priority, attempts, grant_id, lease_ms, granted_at, renewed_at, claimable_at
    )
    SELECT %(tenant)s, w.key, w.action, w.generation, 'running', w.epoch_seen + 1, %(holder)s,
        %(session_id)s, w.intent_id, w.queue, w.priority, w.attempts, %(grant_id)s, w.lease_ms,
        clock_timestamp(), clock_timestamp(),
        clock_timestamp() + w.lease_ms * interval '1 millisecond'
    FROM unnest(
        %(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[],
        %(epochs_seen)s::bigint[], %(intent_ids)s::bigint[], %(queues)s::text[],
        %(priorities)s::smallint[], %(attempts)s::int[], %(leases_ms)s::bigint[]
    ) AS w (key, action, generation, epoch_seen, intent_id, queue, priority, attempts, lease_ms)
    WHERE w.queue <> ALL (ARRAY(
        SELECT p.name FROM queues AS p
        WHERE p.tenant = %(tenant)s AND p.name = ANY(%(queues)s::text[])
            AND p.paused_at IS NOT NULL
    ))
    ORDER BY w.key, w.action
    ON CONFLICT (tenant, key, action) DO UPDATE SET
        generation = excluded.generation, state = 'running', epoch = excluded.epoch,
        holder = excluded.holder, session_id = excluded.session_id,
        intent_id = excluded.intent_id, queue = excluded.queue, priority = excluded.priority,
        attempts = excluded.attempts, grant_id = excluded.grant_id, lease_ms = excluded.lease_ms,
        granted_at = excluded.granted_at, renewed_at = excluded.renewed_at,
        claimable_at = excluded.claimable_at, settled_at = NULL
    WHERE held.epoch = excluded.epoch - 1 AND (
        (held.state IN ('free', 'dead') AND held.generation <= excluded.generation)
        OR (held.state <> 'running' AND held.generation < excluded.generation)
        OR (held.state = 'running' AND held.claimable_at <= clock_timestamp()
            AND held.generation <= excluded.generation)
    )
    RETURNING held.key, held.action, held.epoch
""")


async def take_leases(tx: Transaction, holder: Holder, wanted: Sequence[Wanted]) -> list[Taken]:
    """The guarded grant (L1): raises the epoch by exactly one (L2); a refused one is missing.

    The guard compares the epoch seen under the lock, so a lease that appeared in between is
    refused, and reads the clock again after any wait. Nothing of a paused queue is granted.
    """
    return await tx.all(
        _TAKE_LEASES,
        Taken,
        tenant=holder.tenant,
        holder=holder.holder,
        session_id=holder.session_id,
        grant_id=holder.grant_id,
        keys=[item.key for item in wanted],
        actions=[item.action for item in wanted],
        generations=[item.generation for item in wanted],
        epochs_seen=[item.epoch_seen for item in wanted],
        intent_ids=[item.intent_id for item in wanted],
        queues=[item.queue for item in wanted],
        priorities=[item.priority for item in wanted],
        attempts=[item.attempts for item in wanted],
        leases_ms=[item.lease_ms for item in wanted],
    )


_RECORD_DISPLACED = statement("""
    INSERT INTO dispatches (
        tenant, key, action, epoch, intent_id, generation, holder, attempt, granted_at, outcome,
        outcome_sha256, reason
    )
    SELECT %(tenant)s, d.key, d.action, d.epoch, d.intent_id, d.generation, d.holder, d.attempt,
        d.granted_at, 'displaced', ''::bytea, %(reason)s
    FROM unnest(
        %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(intent_ids)s::bigint[],
        %(generations)s::bigint[], %(holders)s::text[], %(attempts)s::int[],
        %(granted_at)s::timestamptz[]
    ) AS d (key, action, epoch, intent_id, generation, holder, attempt, granted_at)
""")


async def record_displaced(
    tx: Transaction, *, tenant: str, leases: Sequence[LeaseRow], reason: str
) -> None:
    """Writes the history of dispatches whose locked lease was past its time and is gone now."""
    await tx.execute(
        _RECORD_DISPLACED,
        tenant=tenant,
        reason=reason,
        keys=[lease.key for lease in leases],
        actions=[lease.action for lease in leases],
        epochs=[lease.epoch for lease in leases],
        intent_ids=[lease.intent_id for lease in leases],
        generations=[lease.generation for lease in leases],
        holders=[lease.holder for lease in leases],
        attempts=[lease.attempts for lease in leases],
        granted_at=[lease.granted_at for lease in leases],
    )
