"""Statements of the grant: pick, judge, take the lease, put back, settle what will not run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import LeaseState


@dataclass(frozen=True)
class Picked:
    """A row taken off the ready table; `attempts` were charged before."""

    intent_id: int
    queue: str
    priority: int
    key: str
    action: str
    attempts: int


_PICK = statement("""
    WITH locked AS (
        SELECT queue, priority, tenant, number, key, action
        FROM ready
        WHERE tenant = %(tenant)s AND queue = ANY (%(queues)s::text[])
        ORDER BY priority DESC, number
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), first_of_key AS (
        SELECT DISTINCT ON (key, action) queue, priority, tenant, number
        FROM locked
        ORDER BY key, action, priority DESC, number
    )
    DELETE FROM ready USING first_of_key AS picked
    WHERE ready.queue = picked.queue AND ready.priority = picked.priority
        AND ready.tenant = picked.tenant AND ready.number = picked.number
    RETURNING ready.intent_id, ready.queue, ready.priority, ready.key, ready.action, ready.attempts
""")


async def pick(tx: Transaction, *, tenant: str, queues: Sequence[str], limit: int) -> list[Picked]:
    """Takes runnable rows off the ready table in order, one per key; skips what others hold."""
    return await tx.all(_PICK, Picked, tenant=tenant, queues=list(queues), limit=limit)


@dataclass(frozen=True)
class IntentRow:
    """An open intent with its payload, which is None when it is too large to travel along."""

    intent_id: int
    key_label: str
    generation: int
    forge_instance: str | None
    repo_id: int | None
    number: int | None
    head_sha: str | None
    suffix: str
    content_type: str
    schema_name: str
    traceparent: str
    payload: bytes | None
    checkpoint_version: int


_INTENTS = statement("""
    SELECT i.intent_id, i.key_label, i.generation, i.forge_instance, i.repo_id, i.number,
        i.head_sha, i.suffix, i.content_type, i.schema_name, i.traceparent,
        CASE WHEN octet_length(coalesce(i.payload, d.body)) <= %(inline_limit_bytes)s
            THEN coalesce(i.payload, d.body) END AS payload,
        coalesce(r.version, 0) AS checkpoint_version
    FROM intents AS i
    LEFT JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq
    LEFT JOIN runs AS r ON r.tenant = i.tenant AND r.key = i.key AND r.action = i.action
        AND r.generation = i.generation
    WHERE i.intent_id = ANY (%(intent_ids)s::bigint[]) AND i.status = 'open'
""")


async def open_intents(
    tx: Transaction, *, intent_ids: Sequence[int], inline_limit_bytes: int
) -> list[IntentRow]:
    """Reads picked intents; one that was settled while it waited is missing from the answer."""
    return await tx.all(
        _INTENTS, IntentRow, intent_ids=list(intent_ids), inline_limit_bytes=inline_limit_bytes
    )


@dataclass(frozen=True)
class MarksRow:
    """What a change request refuses."""

    forge_instance: str
    repo_id: int
    number: int
    superseded_through: int
    abandoned_through: int


_LOCK_CHANGE_REQUESTS = statement("""
    SELECT c.forge_instance, c.repo_id, c.number, c.superseded_through, c.abandoned_through
    FROM change_requests AS c
    JOIN unnest(%(forge_instances)s::text[], %(repo_ids)s::bigint[], %(numbers)s::bigint[])
        AS wanted (forge_instance, repo_id, number) USING (forge_instance, repo_id, number)
    WHERE c.tenant = %(tenant)s
    ORDER BY c.forge_instance, c.repo_id, c.number
    FOR SHARE OF c
""")


async def lock_change_requests(
    tx: Transaction, *, tenant: str, change_requests: Sequence[tuple[str, int, int]]
) -> list[MarksRow]:
    """Locks change requests against a new head until commit, in order; reads their marks."""
    return await tx.all(
        _LOCK_CHANGE_REQUESTS,
        MarksRow,
        tenant=tenant,
        forge_instances=[instance for instance, _, _ in change_requests],
        repo_ids=[repo_id for _, repo_id, _ in change_requests],
        numbers=[number for _, _, number in change_requests],
    )


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
    JOIN unnest(%(keys)s::text[], %(actions)s::text[]) AS wanted (key, action) USING (key, action)
    WHERE l.tenant = %(tenant)s
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


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who asks, under which grant, for how long."""

    tenant: str
    holder: str
    session_id: str | None
    grant_id: str
    lease_ms: int


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
        %(session_id)s, w.intent_id, w.queue, w.priority, w.attempts, %(grant_id)s, %(lease_ms)s,
        clock_timestamp(), clock_timestamp(),
        clock_timestamp() + %(lease_ms)s * interval '1 millisecond'
    FROM unnest(
        %(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[],
        %(epochs_seen)s::bigint[], %(intent_ids)s::bigint[], %(queues)s::text[],
        %(priorities)s::smallint[], %(attempts)s::int[]
    ) AS w (key, action, generation, epoch_seen, intent_id, queue, priority, attempts)
    ORDER BY w.key, w.action
    ON CONFLICT (tenant, key, action) DO UPDATE SET
        generation = excluded.generation, state = 'running', epoch = excluded.epoch,
        holder = excluded.holder, session_id = excluded.session_id,
        intent_id = excluded.intent_id, queue = excluded.queue, priority = excluded.priority,
        attempts = excluded.attempts, grant_id = excluded.grant_id, lease_ms = excluded.lease_ms,
        granted_at = excluded.granted_at, renewed_at = excluded.renewed_at,
        claimable_at = excluded.claimable_at, settled_at = NULL
    WHERE held.epoch = excluded.epoch - 1 AND (
        (held.state IN ('free', 'dead'))
        OR (held.state <> 'running' AND held.generation < excluded.generation)
        OR (held.state = 'running' AND held.claimable_at <= clock_timestamp()
            AND held.generation <= excluded.generation)
    )
    RETURNING held.key, held.action, held.epoch
""")


async def take_leases(tx: Transaction, holder: Holder, wanted: Sequence[Wanted]) -> list[Taken]:
    """The guarded grant (L1): raises the epoch by exactly one (L2); a refused one is missing.

    The guard compares the epoch seen under the lock, so a lease that appeared in between is
    refused, and reads the clock again after any wait.
    """
    return await tx.all(
        _TAKE_LEASES,
        Taken,
        tenant=holder.tenant,
        holder=holder.holder,
        session_id=holder.session_id,
        grant_id=holder.grant_id,
        lease_ms=holder.lease_ms,
        keys=[item.key for item in wanted],
        actions=[item.action for item in wanted],
        generations=[item.generation for item in wanted],
        epochs_seen=[item.epoch_seen for item in wanted],
        intent_ids=[item.intent_id for item in wanted],
        queues=[item.queue for item in wanted],
        priorities=[item.priority for item in wanted],
        attempts=[item.attempts for item in wanted],
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


@dataclass(frozen=True, kw_only=True)
class Waiter:
    """An intent that must wait; `delay_ms` is the cap where it waits on something else."""

    intent_id: int
    queue: str
    priority: int
    key: str
    action: str
    attempts: int
    waits_on: str
    delay_ms: int
    reason: str
    publication_id: int | None = None


_WAIT = statement("""
    INSERT INTO waiting (
        intent_id, tenant, queue, priority, key, action, attempts, waits_on, publication_id,
        due_at, reason
    )
    SELECT w.intent_id, %(tenant)s, w.queue, w.priority, w.key, w.action, w.attempts, w.waits_on,
        w.publication_id, clock_timestamp() + w.delay_ms * interval '1 millisecond', w.reason
    FROM unnest(
        %(intent_ids)s::bigint[], %(queues)s::text[], %(priorities)s::smallint[],
        %(keys)s::text[], %(actions)s::text[], %(attempts)s::int[], %(waits_on)s::text[],
        %(publication_ids)s::bigint[], %(delays_ms)s::bigint[], %(reasons)s::text[]
    ) AS w (
        intent_id, queue, priority, key, action, attempts, waits_on, publication_id, delay_ms,
        reason
    )
""")


async def wait(tx: Transaction, *, tenant: str, waiters: Sequence[Waiter]) -> None:
    """Sets intents aside until their time, their holder's end or their publication's."""
    await tx.execute(
        _WAIT,
        tenant=tenant,
        intent_ids=[waiter.intent_id for waiter in waiters],
        queues=[waiter.queue for waiter in waiters],
        priorities=[waiter.priority for waiter in waiters],
        keys=[waiter.key for waiter in waiters],
        actions=[waiter.action for waiter in waiters],
        attempts=[waiter.attempts for waiter in waiters],
        waits_on=[waiter.waits_on for waiter in waiters],
        publication_ids=[waiter.publication_id for waiter in waiters],
        delays_ms=[waiter.delay_ms for waiter in waiters],
        reasons=[waiter.reason for waiter in waiters],
    )


@dataclass(frozen=True)
class Granted:
    """A running lease, found again by its grant or its session."""

    intent_id: int
    queue: str
    key: str
    action: str
    epoch: int
    attempts: int


_BY_GRANT = statement("""
    SELECT intent_id, queue, key, action, epoch, attempts FROM leases
    WHERE tenant = %(tenant)s AND grant_id = %(grant_id)s AND holder = %(holder)s
        AND state = 'running'
""")


async def by_grant(tx: Transaction, *, tenant: str, grant_id: str, holder: str) -> list[Granted]:
    """Leases of a grant whose commit answer was lost; none when it never happened (X6)."""
    return await tx.all(_BY_GRANT, Granted, tenant=tenant, grant_id=grant_id, holder=holder)


_BY_SESSION = statement("""
    SELECT intent_id, queue, key, action, epoch, attempts FROM leases
    WHERE tenant = %(tenant)s AND session_id = %(session_id)s AND state = 'running'
    ORDER BY intent_id
""")


async def by_session(tx: Transaction, *, tenant: str, session_id: str) -> list[Granted]:
    """Leases that a session holds."""
    return await tx.all(_BY_SESSION, Granted, tenant=tenant, session_id=session_id)
