"""Statements on intents: add, put in line, read.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.keys import Key, intent_key


@dataclass(frozen=True)
class StoredAnswer:
    """What a request id was answered with, and the digest of its request."""

    digest: bytes
    response: bytes


_CLAIM_REQUEST = statement("""
    INSERT INTO request_ids (tenant, method, request_id, digest, response)
    VALUES (%(tenant)s, %(method)s, %(request_id)s, %(digest)s, %(response)s)
    ON CONFLICT (tenant, method, request_id) DO NOTHING
""")

_STORED_ANSWER = statement("""
    SELECT digest, response FROM request_ids
    WHERE tenant = %(tenant)s AND method = %(method)s AND request_id = %(request_id)s
""")


async def claim_request(
    tx: Transaction, answer: StoredAnswer, *, tenant: str, method: str, request_id: str
) -> bool:
    """Takes the request id with its answer; False when it was used: the next statement reads it."""
    inserted = await tx.execute(
        _CLAIM_REQUEST,
        tenant=tenant,
        method=method,
        request_id=request_id,
        digest=answer.digest,
        response=answer.response,
    )
    return inserted == 1


async def stored_answer(
    tx: Transaction, *, tenant: str, method: str, request_id: str
) -> StoredAnswer | None:
    """The answer that a used request id was given."""
    return await tx.one(
        _STORED_ANSWER, StoredAnswer, tenant=tenant, method=method, request_id=request_id
    )


_DRAW_IDS = statement("""
    SELECT nextval('intents_intent_id_seq') FROM generate_series(1, %(count)s::bigint)
""")


async def draw_intent_ids(tx: Transaction, *, count: int) -> list[int]:
    """Ids that no intent has, rising; what is not used is lost."""
    return sorted(await tx.all(_DRAW_IDS, int, count=count))


@dataclass(frozen=True, kw_only=True)
class NewIntent:
    """An intent to add; `key` None makes it its own key."""

    queue: str
    key: Key | None
    label: str
    action: str
    priority: int
    not_before: datetime | None
    payload: bytes
    content_type: str
    schema_name: str
    traceparent: str


_ADD = statement("""
    INSERT INTO intents (
        intent_id, tenant, queue, priority, key, key_label, action, generation, forge_instance,
        repo_id, number, head_sha, suffix, payload, content_type, schema_name, traceparent
    )
    OVERRIDING SYSTEM VALUE
    SELECT n.intent_id, %(tenant)s, n.queue, n.priority, n.key,
        coalesce(nullif(n.key_label, ''), n.key), n.action,
        coalesce(
            (
                SELECT max(h.generation) FROM change_request_heads AS h
                WHERE h.tenant = %(tenant)s AND h.forge_instance = n.forge_instance
                    AND h.repo_id = n.repo_id AND h.number = n.number
                    AND h.head_sha = n.head_sha
            ),
            (
                SELECT c.generation FROM change_requests AS c
                WHERE c.tenant = %(tenant)s AND c.forge_instance = n.forge_instance
                    AND c.repo_id = n.repo_id AND c.number = n.number
            ),
            1
        ),
        n.forge_instance, n.repo_id, n.number, n.head_sha, n.suffix, n.payload, n.content_type,
        n.schema_name, n.traceparent
    FROM unnest(
        %(intent_ids)s::bigint[], %(queues)s::text[], %(priorities)s::smallint[], %(keys)s::text[],
        %(labels)s::text[], %(actions)s::text[], %(forge_instances)s::text[],
        %(repo_ids)s::bigint[], %(numbers)s::bigint[], %(head_shas)s::text[], %(suffixes)s::text[],
        %(payloads)s::bytea[], %(content_types)s::text[], %(schema_names)s::text[],
        %(traceparents)s::text[]
    ) AS n (
        intent_id, queue, priority, key, key_label, action, forge_instance, repo_id, number,
        head_sha, suffix, payload, content_type, schema_name, traceparent
    )
    ORDER BY n.intent_id
""")


async def add_intents(
    tx: Transaction, *, tenant: str, intents: Sequence[tuple[int, NewIntent]]
) -> None:
    """Adds intents under these ids.

    The generation is the one under which the key's head was last current; for a head that nobody
    has told of, the change request's present one, or 1.
    """
    news = [intent for _, intent in intents]
    keys = [intent.key for intent in news]
    await tx.execute(
        _ADD,
        tenant=tenant,
        intent_ids=[intent_id for intent_id, _ in intents],
        queues=[intent.queue for intent in news],
        priorities=[intent.priority for intent in news],
        keys=[
            intent.key.canonical() if intent.key else intent_key(intent_id)
            for intent_id, intent in intents
        ],
        labels=[intent.label for intent in news],
        actions=[intent.action for intent in news],
        forge_instances=[key.forge_instance if key else None for key in keys],
        repo_ids=[key.repo_id if key else None for key in keys],
        numbers=[key.number if key else None for key in keys],
        head_shas=[key.head_sha if key else None for key in keys],
        suffixes=[key.suffix if key else "" for key in keys],
        payloads=[intent.payload for intent in news],
        content_types=[intent.content_type for intent in news],
        schema_names=[intent.schema_name for intent in news],
        traceparents=[intent.traceparent for intent in news],
    )


_LINE_UP = statement("""
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
    SELECT i.queue, i.priority, i.tenant, i.intent_id, i.key, i.action
    FROM intents AS i
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS added USING (intent_id, tenant)
    ORDER BY i.intent_id
""")


async def line_up(tx: Transaction, *, tenant: str, intent_ids: Sequence[int]) -> None:
    """Makes new intents ready in order; the transaction has its xid by then (Q11)."""
    await tx.execute(_LINE_UP, tenant=tenant, intent_ids=list(intent_ids))


_SCHEDULE = statement("""
    INSERT INTO waiting (
        intent_id, tenant, queue, priority, key, action, attempts, waits_on, due_at, reason
    )
    SELECT i.intent_id, i.tenant, i.queue, i.priority, i.key, i.action, 0, 'time', n.not_before,
        'not before its time'
    FROM intents AS i
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[], %(not_before)s::timestamptz[])
            AS listed (intent_id, not_before)
        OFFSET 0
    ) AS n USING (intent_id, tenant)
""")


async def schedule(tx: Transaction, *, tenant: str, due: Sequence[tuple[int, datetime]]) -> None:
    """Lets new intents wait for their time."""
    await tx.execute(
        _SCHEDULE,
        tenant=tenant,
        intent_ids=[intent_id for intent_id, _ in due],
        not_before=[not_before for _, not_before in due],
    )


@dataclass(frozen=True)
class IntentView:
    """An intent as it is shown, with the row that holds it while it is open."""

    intent_id: int
    queue: str
    key_label: str
    action: str
    generation: int
    forge_instance: str | None
    repo_id: int | None
    number: int | None
    head_sha: str | None
    suffix: str
    status: str
    attempts: int
    created_at: datetime
    settled_at: datetime | None
    reason: str
    result: bytes | None
    is_ready: bool
    is_waiting: bool
    is_leased: bool


_VIEW = statement("""
    SELECT i.intent_id, i.queue, i.key_label, i.action, i.generation, i.forge_instance, i.repo_id,
        i.number, i.head_sha, i.suffix, i.status,
        coalesce(r.attempts, w.attempts, l.attempts, i.attempts) AS attempts,
        i.created_at, i.settled_at, coalesce(w.reason, i.reason) AS reason, i.result,
        r.intent_id IS NOT NULL AS is_ready, w.intent_id IS NOT NULL AS is_waiting,
        l.intent_id IS NOT NULL AS is_leased
    FROM intents AS i
    LEFT JOIN ready AS r ON r.intent_id = i.intent_id AND r.tenant = i.tenant
    LEFT JOIN waiting AS w ON w.intent_id = i.intent_id AND w.tenant = i.tenant
    LEFT JOIN leases AS l ON l.intent_id = i.intent_id AND l.tenant = i.tenant
        AND l.state = 'running'
    WHERE i.intent_id = %(intent_id)s AND i.tenant = %(tenant)s
""")


async def view(tx: Transaction, *, tenant: str, intent_id: int) -> IntentView | None:
    """One intent of this tenant."""
    return await tx.one(_VIEW, IntentView, tenant=tenant, intent_id=intent_id)
