"""Statements that let dead work be tried again, once, by a new intent that the old one names."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement
from shared.schema.states import IntentStatus

TenantIntent = tuple[str, int]
"""An intent with its tenant."""


@dataclass(frozen=True)
class Latest:
    """Where the work of an intent is by now: in that intent, or in the last that redrove it."""

    origin: int
    tenant: str
    intent_id: int
    status: IntentStatus


_FIND_LATEST = statement("""
    WITH RECURSIVE chain AS (
        SELECT i.tenant, n.intent_id AS origin, i.intent_id, i.status, i.settled_by
        FROM (
            SELECT *
            FROM unnest(%(tenants)s::text[], %(intent_ids)s::bigint[])
                AS listed (tenant, intent_id)
            OFFSET 0
        ) AS n
        JOIN intents AS i USING (tenant, intent_id)
      UNION ALL
        SELECT i.tenant, c.origin, i.intent_id, i.status, i.settled_by
        FROM chain AS c
        JOIN intents AS i ON i.intent_id = c.settled_by AND i.tenant = c.tenant
        WHERE c.status = 'redriven'
    )
    SELECT origin, tenant, intent_id, status FROM chain WHERE status <> 'redriven'
""")


async def find_latest(tx: Transaction, intents: Sequence[TenantIntent]) -> list[Latest]:
    """Follows what was redriven to its end."""
    return await tx.all(_FIND_LATEST, Latest, **_listed(intents))


_LOCK_DEAD = statement("""
    SELECT i.tenant, i.intent_id
    FROM (
        SELECT *
        FROM unnest(%(tenants)s::text[], %(intent_ids)s::bigint[]) AS listed (tenant, intent_id)
        OFFSET 0
    ) AS n
    JOIN intents AS i USING (tenant, intent_id)
    WHERE i.status = 'dead'
    ORDER BY i.intent_id
    FOR UPDATE OF i
""")


@dataclass(frozen=True)
class _Dead:
    tenant: str
    intent_id: int


async def lock_dead(tx: Transaction, intents: Sequence[TenantIntent]) -> list[TenantIntent]:
    """Locks those that are dead, in order; one that a rival has redriven meanwhile is missing."""
    rows = await tx.all(_LOCK_DEAD, _Dead, **_listed(intents))
    return [(row.tenant, row.intent_id) for row in rows]


@dataclass(frozen=True)
class Again:
    """A new intent for the work of a dead one."""

    tenant: str
    intent_id: int
    dead_intent_id: int
    queue: str
    has_head: bool


_INSERT_AGAIN = statement("""
    WITH dead AS (
        SELECT i.*
        FROM (
            SELECT *
            FROM unnest(%(tenants)s::text[], %(intent_ids)s::bigint[])
                AS listed (tenant, intent_id)
            OFFSET 0
        ) AS n
        JOIN intents AS i USING (tenant, intent_id)
    ), made AS (
        INSERT INTO intents (tenant, queue, priority, key, key_label, action, generation,
            forge_instance, repo_id, number, head_sha, suffix, delivery_seq, payload, content_type,
            schema_name, traceparent)
        SELECT dead.tenant, queue, priority, key, key_label, action, generation, forge_instance,
            repo_id, number, head_sha, suffix, delivery_seq, payload, content_type, schema_name,
            traceparent
        FROM dead
        ORDER BY dead.tenant, key, action, generation
        ON CONFLICT DO NOTHING
        RETURNING tenant, intent_id, queue, key, action, generation, delivery_seq, head_sha
    )
    SELECT made.tenant, made.intent_id, dead.intent_id AS dead_intent_id, made.queue,
        made.head_sha IS NOT NULL AS has_head
    FROM made JOIN dead USING (tenant, key, action, generation, delivery_seq)
""")


async def insert_again(tx: Transaction, dead: Sequence[TenantIntent]) -> list[Again]:
    """One new intent for each locked dead one, like it; where its key is occupied it is missing."""
    return await tx.all(_INSERT_AGAIN, Again, **_listed(dead))


_MARK_REDRIVEN = statement("""
    WITH redriven AS (
        UPDATE intents AS i SET status = 'redriven', settled_by = n.settled_by
        FROM (
            SELECT *
            FROM unnest(
                %(tenants)s::text[], %(intent_ids)s::bigint[], %(settled_by)s::bigint[]
            ) AS listed (tenant, intent_id, settled_by)
            OFFSET 0
        ) AS n
        WHERE i.intent_id = n.intent_id AND i.tenant = n.tenant AND i.status = 'dead'
        RETURNING i.tenant, i.intent_id, i.settled_by
    ), told AS (
        UPDATE dead_letters AS l
        SET redriven_as = r.settled_by, redriven_at = clock_timestamp()
        FROM redriven AS r
        WHERE l.intent_id = r.intent_id AND l.tenant = r.tenant AND l.redriven_as IS NULL
    )
    SELECT intent_id FROM redriven
""")


async def mark_redriven(tx: Transaction, again: Sequence[Again]) -> int:
    """The guarded transition of the dead ones, with their dead letters; returns how many (I14)."""
    return await tx.execute(
        _MARK_REDRIVEN,
        tenants=[each.tenant for each in again],
        intent_ids=[each.dead_intent_id for each in again],
        settled_by=[each.intent_id for each in again],
    )


def _listed(intents: Sequence[TenantIntent]) -> dict[str, list[object]]:
    return {
        "tenants": [tenant for tenant, _ in intents],
        "intent_ids": [intent_id for _, intent_id in intents],
    }
