"""What the work on a change request left behind, newest first, each list cut at `limit` rows.

A row counts with the newest thing that it tells. Rows become what the caller gives as `into`, a
dataclass with the statement's columns; all are of one tenant (X8).

What is the same for all of a list stands in what is joined, or is asked of what was found, and
OFFSET 0 keeps it there: a plan can only go from each listed row to its place in an index.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from services.watchdog.timeline.store import Place
from shared.database import Transaction, statement

T = TypeVar("T")

_INTENTS = statement("""
    SELECT intent_id, queue, key, action, generation, coalesce(head_sha, '') AS head_sha,
        delivery_seq, created_at, status, attempts, settled_at, settled_by, reason, traceparent
    FROM intents
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s AND repo_id = %(repo_id)s
        AND number = %(number)s
        AND (%(keys)s::text[] IS NULL OR key = ANY (%(keys)s))
    ORDER BY coalesce(settled_at, created_at) DESC
    LIMIT %(limit)s
""")


async def intents(
    tx: Transaction, into: type[T], place: Place, *, keys: Sequence[str] | None, limit: int
) -> list[T]:
    """Intents for the change request, or for these keys of it."""
    wanted = None if keys is None else list(keys)
    return await tx.all(_INTENTS, into, **vars(place), keys=wanted, limit=limit)


_DISPATCHES = statement("""
    SELECT d.intent_id, d.action, d.epoch, d.holder, nullif(s.version, '') AS worker_version,
        d.attempt, d.granted_at, d.ended_at, d.outcome, d.disposition, d.reason
    FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id), LATERAL (
        SELECT tenant, intent_id, action, epoch, holder, attempt, granted_at, ended_at, outcome,
            disposition, reason
        FROM dispatches WHERE intent_id = listed.intent_id
        OFFSET 0
    ) AS d
    LEFT JOIN LATERAL (
        SELECT version FROM sessions WHERE session_id = d.holder AND tenant = d.tenant OFFSET 0
    ) AS s ON true
    WHERE d.tenant = %(tenant)s
    ORDER BY d.ended_at DESC
    LIMIT %(limit)s
""")


async def dispatches(
    tx: Transaction, into: type[T], *, tenant: str, intent_ids: Sequence[int], limit: int
) -> list[T]:
    """Ended dispatches of these intents."""
    return await tx.all(_DISPATCHES, into, tenant=tenant, intent_ids=list(intent_ids), limit=limit)


_LEASES = statement("""
    SELECT l.intent_id, l.action, l.epoch, l.holder, nullif(s.version, '') AS worker_version,
        l.attempts AS attempt, l.granted_at, l.renewed_at, l.claimable_at,
        s.state AS session_state, s.heard_at AS session_heard_at
    FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id), LATERAL (
        SELECT tenant, intent_id, action, epoch, holder, session_id, attempts, granted_at,
            renewed_at, claimable_at
        FROM leases WHERE intent_id = listed.intent_id AND state = 'running'
        OFFSET 0
    ) AS l
    LEFT JOIN LATERAL (
        SELECT version, state, heard_at FROM sessions
        WHERE session_id = l.session_id AND tenant = l.tenant
        OFFSET 0
    ) AS s ON true
    WHERE l.tenant = %(tenant)s
    ORDER BY l.granted_at DESC
""")


async def running_leases(
    tx: Transaction, into: type[T], *, tenant: str, intent_ids: Sequence[int]
) -> list[T]:
    """Leases that run on these intents; at most one each."""
    return await tx.all(_LEASES, into, tenant=tenant, intent_ids=list(intent_ids))


_FLUSHES = statement("""
    SELECT f.run_id, r.key, r.action, r.generation, f.version, f.epoch, f.state_bytes,
        f.span_count, f.phase, f.final, f.flushed_at
    FROM runs AS r
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(keys)s::text[]) AS listed (key)
        OFFSET 0
    ) AS wanted USING (tenant, key)
    JOIN flushes AS f ON f.run_id = r.run_id AND f.tenant = r.tenant
    ORDER BY f.flushed_at DESC
    LIMIT %(limit)s
""")


async def flushes(
    tx: Transaction, into: type[T], *, tenant: str, keys: Sequence[str], limit: int
) -> list[T]:
    """Checkpoints of the work on these keys."""
    return await tx.all(_FLUSHES, into, tenant=tenant, keys=list(keys), limit=limit)


_ATTEMPTS = statement("""
    SELECT p.publication_id, p.name, p.kind, p.target, a.attempt, a.status, a.epoch, a.intent_id,
        a.claimed_at, a.settled_at, a.remote_url, a.detail, a.traceparent
    FROM publications AS p
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(keys)s::text[]) AS listed (key)
        OFFSET 0
    ) AS wanted USING (tenant, key)
    JOIN publication_attempts AS a ON a.publication_id = p.publication_id AND a.tenant = p.tenant
    ORDER BY coalesce(a.settled_at, a.claimed_at) DESC
    LIMIT %(limit)s
""")


async def attempts(
    tx: Transaction, into: type[T], *, tenant: str, keys: Sequence[str], limit: int
) -> list[T]:
    """Attempts to publish for these keys."""
    return await tx.all(_ATTEMPTS, into, tenant=tenant, keys=list(keys), limit=limit)


_READY = statement("""
    SELECT r.intent_id, r.queue, r.entered_at, coalesce(able.workers, 0) AS workers
    FROM ready AS r
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS wanted USING (intent_id, tenant)
    LEFT JOIN (
        SELECT q.queue, count(DISTINCT s.session_id) AS workers
        FROM sessions AS s, unnest(s.queues) AS q (queue)
        WHERE s.state <> 'ended' AND s.state = 'open' AND NOT s.draining
            AND s.tenant = %(tenant)s
        GROUP BY q.queue
    ) AS able USING (queue)
    ORDER BY r.entered_at DESC
""")


async def ready(
    tx: Transaction, into: type[T], *, tenant: str, intent_ids: Sequence[int]
) -> list[T]:
    """Those of these intents that a worker could take, with how many workers could."""
    return await tx.all(_READY, into, tenant=tenant, intent_ids=list(intent_ids))


_WAITING = statement("""
    SELECT w.intent_id, w.waits_on, w.publication_id, w.due_at, w.since, w.reason
    FROM waiting AS w
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS wanted USING (intent_id, tenant)
    ORDER BY w.since DESC
""")


async def waiting(
    tx: Transaction, into: type[T], *, tenant: str, intent_ids: Sequence[int]
) -> list[T]:
    """Those of these intents that wait."""
    return await tx.all(_WAITING, into, tenant=tenant, intent_ids=list(intent_ids))


_HOLDS = statement("""
    SELECT hold_id, reason, CASE WHEN tenant IS NOT NULL THEN placed_by END AS placed_by,
        placed_at, released_at
    FROM holds
    WHERE (tenant IS NULL OR tenant = %(tenant)s)
        AND (action IS NULL OR action = ANY (%(actions)s::text[]))
        AND (
            forge_instance IS NULL
            OR (forge_instance = %(forge_instance)s AND repo_id = %(repo_id)s)
        )
        AND (number IS NULL OR number = %(number)s)
        AND (released_at IS NULL OR released_at >= %(since)s)
    ORDER BY coalesce(released_at, placed_at) DESC
    LIMIT %(limit)s
""")


async def holds(
    tx: Transaction,
    into: type[T],
    place: Place,
    *,
    actions: Sequence[str],
    since: datetime,
    limit: int,
) -> list[T]:
    """Holds that covered these actions on the change request at some time since then (P11)."""
    return await tx.all(
        _HOLDS, into, **vars(place), actions=list(actions), since=since, limit=limit
    )
