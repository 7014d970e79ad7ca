"""Statements on the intents that deliveries make: insert, who was first, enter into the queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.ingress.intake.places import KeyParts, columns
from shared.database import Transaction, by_column, statement


class IntentWrite(NamedTuple):
    """An intent that a delivery makes; its payload is the delivery's body.

    A tuple, since many of them are sent as columns. One without `head_sha` waits until somebody
    has resolved its head (I7).
    """

    change_request: KeyParts
    queue: str
    key: str
    key_label: str
    action: str
    generation: int
    head_sha: str | None
    suffix: str
    delivery_seq: int
    content_type: str
    traceparent: str


@dataclass(frozen=True)
class Made:
    """An intent that occupies its key now, with the number of the delivery that made it."""

    intent_id: int
    delivery_seq: int
    key: str
    action: str


# Two unique indexes may conflict: that of keys, and that of commands, whose key has no head yet.
# The markers gave the transaction its xid before this draws numbers of ready, as Q11 asks.
_INSERT_INTENTS = statement("""
    WITH made AS (
        INSERT INTO intents (tenant, queue, key, key_label, action, generation, forge_instance,
            repo_id, number, head_sha, suffix, delivery_seq, content_type, traceparent)
        SELECT n.tenant, n.queue, n.key, n.key_label, n.action, n.generation, n.forge_instance,
            n.repo_id, n.number, n.head_sha, n.suffix, n.delivery_seq, n.content_type,
            n.traceparent
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[], %(queue)s::text[], %(key)s::text[], %(key_label)s::text[],
            %(action)s::text[], %(generation)s::bigint[], %(head_sha)s::text[],
            %(suffix)s::text[], %(delivery_seq)s::bigint[], %(content_type)s::text[],
            %(traceparent)s::text[]
        ) WITH ORDINALITY AS n (tenant, forge_instance, repo_id, number, queue, key, key_label,
            action, generation, head_sha, suffix, delivery_seq, content_type, traceparent, turn)
        ORDER BY n.tenant, n.key, n.action, n.generation, n.turn
        ON CONFLICT DO NOTHING
        RETURNING intent_id, tenant, queue, priority, key, action, delivery_seq, head_sha
    ), placed AS (
        INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
        SELECT queue, priority, tenant, intent_id, key, action
        FROM made
        WHERE head_sha IS NOT NULL
        ORDER BY delivery_seq, intent_id
    )
    SELECT intent_id, delivery_seq, key, action FROM made
""")


async def insert_intents(tx: Transaction, writes: Sequence[IntentWrite]) -> list[Made]:
    """Occupies keys, the first of a list for each; a refused one is missing. Keeps I6, I13.

    Those with heads may be granted, in the order of their deliveries.
    """
    listed = by_column(writes)
    del listed["change_request"]
    change_requests = columns(write.change_request for write in writes)
    return await tx.all(_INSERT_INTENTS, Made, **change_requests, **listed)


@dataclass(frozen=True)
class Occupant:
    """The intent that occupies a key; `delivery_id` is None while its delivery is not stored."""

    turn: int
    intent_id: int
    delivery_seq: int
    delivery_id: str | None


_FIND_OCCUPANTS = statement("""
    SELECT n.turn, i.intent_id, i.delivery_seq, d.delivery_id
    FROM unnest(
        %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
        %(numbers)s::bigint[], %(suffixes)s::text[], %(keys)s::text[], %(actions)s::text[],
        %(generations)s::bigint[]
    ) WITH ORDINALITY AS n (tenant, forge_instance, repo_id, number, suffix, key, action,
        generation, turn),
    LATERAL (
        SELECT found.intent_id, found.delivery_seq, found.tenant FROM (
            SELECT k.intent_id, k.delivery_seq, k.tenant FROM intents AS k
            WHERE k.tenant = n.tenant AND k.key = n.key AND k.action = n.action
                AND k.generation = n.generation
                AND k.delivery_seq IS NOT NULL AND k.status IN ('open', 'succeeded')
          UNION ALL
            SELECT m.intent_id, m.delivery_seq, m.tenant FROM intents AS m
            WHERE m.tenant = n.tenant AND m.forge_instance = n.forge_instance
                AND m.repo_id = n.repo_id AND m.number = n.number AND m.suffix = n.suffix
                AND m.action = n.action AND m.suffix LIKE 'manual-%%'
                AND m.delivery_seq IS NOT NULL AND m.status IN ('open', 'succeeded')
        ) AS found
        LIMIT 1
    ) AS i
    LEFT JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq AND d.tenant = i.tenant
""")


async def find_occupants(tx: Transaction, writes: Sequence[IntentWrite]) -> dict[int, Occupant]:
    """Who occupies what these wanted, counted from 1; one that is free is missing."""
    rows = await tx.all(
        _FIND_OCCUPANTS,
        Occupant,
        **columns(write.change_request for write in writes),
        suffixes=[write.suffix for write in writes],
        keys=[write.key for write in writes],
        actions=[write.action for write in writes],
        generations=[write.generation for write in writes],
    )
    return {row.turn: row for row in rows}


# The markers gave the transaction its xid before this draws numbers, as Q11 asks.
_INSERT_READY = statement("""
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
    SELECT i.queue, i.priority, i.tenant, i.intent_id, i.key, i.action
    FROM unnest(%(tenants)s::text[], %(intent_ids)s::bigint[])
        WITH ORDINALITY AS n (tenant, intent_id, turn)
    JOIN intents AS i USING (tenant, intent_id)
    ORDER BY n.turn
""")


def insert_ready(tx: Transaction, made: Sequence[tuple[str, int]]) -> None:
    """Lets new intents, each with its tenant, be granted in this order."""
    tx.later(
        _INSERT_READY,
        tenants=[tenant for tenant, _ in made],
        intent_ids=[intent_id for _, intent_id in made],
    )


_INSERT_WAITING = statement("""
    INSERT INTO waiting (intent_id, tenant, queue, priority, key, action, attempts, waits_on,
        due_at)
    SELECT i.intent_id, i.tenant, i.queue, i.priority, i.key, i.action, 0, 'head',
        clock_timestamp()
    FROM unnest(%(tenants)s::text[], %(intent_ids)s::bigint[]) AS n (tenant, intent_id)
    JOIN intents AS i USING (tenant, intent_id)
    ORDER BY i.intent_id
""")


def insert_waiting(tx: Transaction, made: Sequence[tuple[str, int]]) -> None:
    """Lets new intents, each with its tenant, wait until their heads are resolved (I7)."""
    tx.later(
        _INSERT_WAITING,
        tenants=[tenant for tenant, _ in made],
        intent_ids=[intent_id for _, intent_id in made],
    )
