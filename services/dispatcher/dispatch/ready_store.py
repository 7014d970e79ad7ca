"""Statements on intents that may be granted: pick, judge by change request, load, set aside.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement


@dataclass(frozen=True)
class ReadyRow:
    """An intent that may be granted now; `attempts` were charged before."""

    intent_id: int
    queue: str
    priority: int
    key: str
    action: str
    attempts: int


@dataclass(frozen=True)
class Band:
    """The work of one tenant on one queue at one priority: in order of number.

    `lease_ms` is what the queue declares, None where it is not declared.
    """

    queue: str
    priority: int
    lease_ms: int | None


_BANDS = statement("""
    WITH RECURSIVE steps AS (
        SELECT q.queue, q.turn,
            (SELECT max(r.priority) FROM ready AS r WHERE r.queue = q.queue) AS priority
        FROM unnest(%(queues)s::text[]) WITH ORDINALITY AS q (queue, turn)
        WHERE (
            SELECT p.paused_at FROM queues AS p
            WHERE p.tenant = %(tenant)s AND p.name = q.queue
        ) IS NULL
      UNION ALL
        SELECT s.queue, s.turn, (
            SELECT max(r.priority) FROM ready AS r
            WHERE r.queue = s.queue AND r.priority < s.priority
        )
        FROM steps AS s WHERE s.priority IS NOT NULL
    )
    SELECT s.queue, s.priority, (
        SELECT q.lease_ms FROM queues AS q WHERE q.tenant = %(tenant)s AND q.name = s.queue
    ) AS lease_ms
    FROM steps AS s
    WHERE (
        SELECT true FROM ready AS r
        WHERE r.queue = s.queue AND r.priority = s.priority AND r.tenant = %(tenant)s
        LIMIT 1
    )
    ORDER BY s.priority DESC, s.turn
""")


async def bands(tx: Transaction, *, tenant: str, queues: Sequence[str]) -> list[Band]:
    """Where the tenant has work, by priority, then in the order of the queues, paused ones not.

    Steps from one priority to the next in the index, however many rows stand at each.
    """
    return await tx.all(_BANDS, Band, tenant=tenant, queues=list(queues))


_PICK = statement("""
    WITH locked AS (
        SELECT queue, priority, tenant, number, key, action
        FROM ready
        WHERE queue = %(queue)s AND priority = %(priority)s AND tenant = %(tenant)s
        ORDER BY number
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), first_of_key AS (
        SELECT DISTINCT ON (key, action) queue, priority, tenant, number
        FROM locked
        WHERE (key, action) NOT IN (SELECT * FROM unnest(%(keys)s::text[], %(actions)s::text[]))
        ORDER BY key, action, number
    ), taken AS (
        DELETE FROM ready USING first_of_key AS picked
        WHERE ready.queue = picked.queue AND ready.priority = picked.priority
            AND ready.tenant = picked.tenant AND ready.number = picked.number
        RETURNING ready.intent_id, ready.queue, ready.priority, ready.key, ready.action,
            ready.attempts, ready.number
    )
    SELECT intent_id, queue, priority, key, action, attempts FROM taken ORDER BY number
""")


async def pick(
    tx: Transaction, *, tenant: str, band: Band, limit: int, beside: Sequence[ReadyRow]
) -> list[ReadyRow]:
    """Takes runnable rows off one band in order, one per key; skips what others hold.

    None has the key of a row that was picked `beside`.
    """
    return await tx.all(
        _PICK,
        ReadyRow,
        tenant=tenant,
        queue=band.queue,
        priority=band.priority,
        limit=limit,
        keys=[row.key for row in beside],
        actions=[row.action for row in beside],
    )


_LINE_UP = statement("""
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT r.queue, r.priority, %(tenant)s, r.intent_id, r.key, r.action, r.attempts
    FROM unnest(
        %(queues)s::text[], %(priorities)s::smallint[], %(intent_ids)s::bigint[],
        %(keys)s::text[], %(actions)s::text[], %(attempts)s::int[]
    ) AS r (queue, priority, intent_id, key, action, attempts)
    ORDER BY r.intent_id
""")


async def line_up(tx: Transaction, *, tenant: str, rows: Sequence[ReadyRow]) -> None:
    """Makes intents ready, newly numbered."""
    await tx.execute(
        _LINE_UP,
        tenant=tenant,
        queues=[row.queue for row in rows],
        priorities=[row.priority for row in rows],
        intent_ids=[row.intent_id for row in rows],
        keys=[row.key for row in rows],
        actions=[row.action for row in rows],
        attempts=[row.attempts for row in rows],
    )


@dataclass(frozen=True)
class IntentRow:
    """An open intent: what it is about and how it is told, without its payload."""

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


_INTENTS = statement("""
    SELECT i.intent_id, i.key_label, i.generation, i.forge_instance, i.repo_id, i.number,
        i.head_sha, i.suffix, i.content_type, i.schema_name, i.traceparent
    FROM intents AS i
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS picked USING (intent_id, tenant)
    WHERE i.status = 'open'
""")


async def open_intents(
    tx: Transaction, *, tenant: str, intent_ids: Sequence[int]
) -> list[IntentRow]:
    """Reads picked intents; one that was settled while it waited is missing from the answer."""
    return await tx.all(_INTENTS, IntentRow, tenant=tenant, intent_ids=list(intent_ids))


@dataclass(frozen=True)
class Load:
    """What a granted intent carries: its payload, None where it must be fetched, and its run."""

    intent_id: int
    payload: bytes | None
    checkpoint_version: int


_LOADS = statement("""
    WITH sized AS (
        SELECT i.intent_id, i.tenant, i.key, i.action, i.generation,
            coalesce(i.payload, d.body) AS payload,
            octet_length(coalesce(i.payload, d.body)) AS size
        FROM intents AS i
        JOIN (
            SELECT %(tenant)s::text AS tenant, listed.*
            FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
            OFFSET 0
        ) AS granted USING (intent_id, tenant)
        LEFT JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq AND d.tenant = i.tenant
    ), counted AS (
        SELECT sized.*, sum(size) FILTER (WHERE size <= %(payload_limit_bytes)s)
            OVER (ORDER BY intent_id) AS bytes_so_far
        FROM sized
    )
    SELECT c.intent_id,
        CASE WHEN c.size <= %(payload_limit_bytes)s AND c.bytes_so_far <= %(total_limit_bytes)s
            THEN c.payload END AS payload,
        coalesce(r.version, 0) AS checkpoint_version
    FROM counted AS c
    LEFT JOIN runs AS r ON r.tenant = c.tenant AND r.key = c.key AND r.action = c.action
        AND r.generation = c.generation
""")


async def loads(
    tx: Transaction,
    *,
    tenant: str,
    intent_ids: Sequence[int],
    payload_limit_bytes: int,
    total_limit_bytes: int,
) -> list[Load]:
    """Payloads and latest checkpoints of granted intents, read after their leases were taken.

    A payload over its limit, or one with which all together would pass theirs, stays behind.
    """
    return await tx.all(
        _LOADS,
        Load,
        tenant=tenant,
        intent_ids=list(intent_ids),
        payload_limit_bytes=payload_limit_bytes,
        total_limit_bytes=total_limit_bytes,
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
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(forge_instances)s::text[], %(repo_ids)s::bigint[], %(numbers)s::bigint[])
            AS listed (forge_instance, repo_id, number)
        OFFSET 0
    ) AS wanted USING (tenant, forge_instance, repo_id, number)
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
