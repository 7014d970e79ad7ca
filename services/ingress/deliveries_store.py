"""Statements on stored deliveries; a row is written once and never changed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from shared.database import Transaction, by_column, statement
from shared.schema.states import DeliveryOutcome

KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Bodies beyond this in one statement cost the memory of a connection more than a new one."""


class DeliveryWrite(NamedTuple):
    """A delivery with what became of it: a tuple, since many of them are sent as columns.

    `delivery_seq` is the number that its intents carry; None draws one.
    """

    delivery_seq: int | None
    tenant: str
    endpoint: str
    delivery_id: str
    forge: str
    forge_instance: str
    event: str
    event_action: str
    content_type: str
    body: bytes
    body_sha256: bytes
    outcome: DeliveryOutcome
    reason: str
    matched_delivery_id: str | None
    intent_ids: tuple[int, ...]
    key: str | None
    key_label: str | None
    repo_id: int | None
    number: int | None
    projection: Mapping[str, str | int | bool]
    traceparent: str


_INSERT_DELIVERIES = statement("""
    INSERT INTO deliveries (delivery_seq, tenant, endpoint, delivery_id, forge, forge_instance,
        event, event_action, content_type, body, body_sha256, outcome, reason,
        matched_delivery_id, intent_ids, key, key_label, repo_id, number, projection, traceparent)
    OVERRIDING SYSTEM VALUE
    SELECT coalesce(n.delivery_seq, nextval('deliveries_delivery_seq_seq')), n.tenant,
        n.endpoint, n.delivery_id, n.forge, n.forge_instance, n.event, n.event_action,
        n.content_type, n.body, n.body_sha256, n.outcome, n.reason, n.matched_delivery_id,
        n.intent_ids::bigint[], n.key, n.key_label, n.repo_id, n.number, n.projection::jsonb,
        n.traceparent
    FROM unnest(
        %(delivery_seq)s::bigint[], %(tenant)s::text[], %(endpoint)s::text[],
        %(delivery_id)s::text[], %(forge)s::text[], %(forge_instance)s::text[], %(event)s::text[],
        %(event_action)s::text[], %(content_type)s::text[], %(body)s::bytea[],
        %(body_sha256)s::bytea[], %(outcome)s::text[], %(reason)s::text[],
        %(matched_delivery_id)s::text[], %(intent_ids)s::text[], %(key)s::text[],
        %(key_label)s::text[], %(repo_id)s::bigint[], %(number)s::bigint[],
        %(projection)s::text[], %(traceparent)s::text[]
    ) AS n (delivery_seq, tenant, endpoint, delivery_id, forge, forge_instance, event,
        event_action, content_type, body, body_sha256, outcome, reason, matched_delivery_id,
        intent_ids, key, key_label, repo_id, number, projection, traceparent)
""")


def insert_deliveries(tx: Transaction, writes: Sequence[DeliveryWrite]) -> None:
    """Stores deliveries; their markers and intents stand in the same transaction (I2)."""
    if sum(len(write.body) for write in writes) > KEPT_BYTES_MAX:
        tx.spend_connection()
    columns = by_column(writes) | {
        "outcome": [write.outcome.value for write in writes],
        "reason": [str(write.reason) for write in writes],
        "intent_ids": [f"{{{','.join(map(str, write.intent_ids))}}}" for write in writes],
        "projection": [json.dumps(dict(write.projection)) for write in writes],
    }
    tx.later(_INSERT_DELIVERIES, **columns)


@dataclass(frozen=True)
class FirstResult:
    """What the first submission of a delivery id was answered."""

    turn: int
    first_delivery_id: str
    intent_ids: tuple[int, ...]
    reason: str


_FIND_FIRST_RESULTS = statement("""
    SELECT n.turn, found.first_delivery_id, found.intent_ids, found.reason
    FROM unnest(%(tenants)s::text[], %(endpoints)s::text[], %(delivery_ids)s::text[])
        WITH ORDINALITY AS n (tenant, endpoint, delivery_id, turn),
    LATERAL (
        SELECT coalesce(d.matched_delivery_id, d.delivery_id) AS first_delivery_id, d.intent_ids,
            d.reason
        FROM deliveries AS d
        WHERE d.tenant = n.tenant AND d.endpoint = n.endpoint AND d.delivery_id = n.delivery_id
            AND d.outcome <> 'refused'
        ORDER BY d.delivery_seq DESC
        LIMIT 1
    ) AS found
""")


async def find_first_results(
    tx: Transaction, deliveries: Sequence[tuple[str, str, str]]
) -> dict[int, FirstResult]:
    """The answers to repeat by tenant, endpoint and id, counted from 1 as they are listed.

    One whose delivery is no longer kept is missing.
    """
    rows = await tx.all(
        _FIND_FIRST_RESULTS,
        FirstResult,
        tenants=[tenant for tenant, _, _ in deliveries],
        endpoints=[endpoint for _, endpoint, _ in deliveries],
        delivery_ids=[delivery_id for _, _, delivery_id in deliveries],
    )
    return {row.turn: row for row in rows}


@dataclass(frozen=True)
class DeliveryRow:
    """A stored delivery without its body; the key's parts are None when it made no work."""

    delivery_seq: int
    endpoint: str
    delivery_id: str
    event: str
    event_action: str
    received_at: datetime
    outcome: DeliveryOutcome
    reason: str
    intent_ids: tuple[int, ...]
    forge_instance: str
    repo_id: int | None
    number: int | None
    head_sha: str | None
    suffix: str | None
    key_label: str | None
    body_bytes: int
    body_sha256: bytes
    traceparent: str


# OFFSET 0: intents are found by their delivery alone, never among all of the tenant's.
_FIND_DELIVERY = statement("""
    SELECT d.delivery_seq, d.endpoint, d.delivery_id, d.event, d.event_action, d.received_at,
        d.outcome, d.reason, coalesce(made.intent_ids, '{}') AS intent_ids, d.forge_instance,
        d.repo_id, d.number, made.head_sha, made.suffix, d.key_label,
        octet_length(d.body)::bigint AS body_bytes, d.body_sha256, d.traceparent
    FROM deliveries AS d
    LEFT JOIN LATERAL (
        SELECT array_agg(i.intent_id ORDER BY i.intent_id) AS intent_ids,
            min(i.head_sha) AS head_sha, min(i.suffix) AS suffix
        FROM (
            SELECT tenant, intent_id, head_sha, suffix FROM intents
            WHERE delivery_seq = d.delivery_seq
            OFFSET 0
        ) AS i
        WHERE i.tenant = d.tenant
    ) AS made ON true
    WHERE d.tenant = %(tenant)s AND d.endpoint = %(endpoint)s AND d.delivery_id = %(delivery_id)s
    ORDER BY d.outcome = 'refused', d.delivery_seq DESC
    LIMIT 1
""")


async def find_delivery(
    tx: Transaction, *, tenant: str, endpoint: str, delivery_id: str
) -> DeliveryRow | None:
    """The latest delivery of this id, one that was taken in first; None when there is none."""
    return await tx.one(
        _FIND_DELIVERY, DeliveryRow, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
    )
