"""Statements on stored deliveries; a row is written once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import DeliveryOutcome


@dataclass(frozen=True, kw_only=True)
class DeliveryWrite:
    """A delivery with what became of it.

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
    key: str | None
    key_label: str | None
    repo_id: int | None
    number: int | None
    projection: Mapping[str, str | int | bool]
    traceparent: str


_INSERT_DELIVERY = statement("""
    INSERT INTO deliveries (delivery_seq, tenant, endpoint, delivery_id, forge, forge_instance,
        event, event_action, content_type, body, body_sha256, outcome, reason,
        matched_delivery_id, key, key_label, repo_id, number, projection, traceparent)
    OVERRIDING SYSTEM VALUE
    VALUES (coalesce(%(delivery_seq)s, nextval('deliveries_delivery_seq_seq')), %(tenant)s,
        %(endpoint)s, %(delivery_id)s, %(forge)s, %(forge_instance)s, %(event)s,
        %(event_action)s, %(content_type)s, %(body)s, %(body_sha256)s, %(outcome)s, %(reason)s,
        %(matched_delivery_id)s, %(key)s, %(key_label)s, %(repo_id)s, %(number)s,
        %(projection)s, %(traceparent)s)
""")


async def insert_delivery(tx: Transaction, write: DeliveryWrite) -> None:
    """Stores the delivery; its marker and intents stand in the same transaction (I2)."""
    await tx.execute(
        _INSERT_DELIVERY,
        delivery_seq=write.delivery_seq,
        tenant=write.tenant,
        endpoint=write.endpoint,
        delivery_id=write.delivery_id,
        forge=write.forge,
        forge_instance=write.forge_instance,
        event=write.event,
        event_action=write.event_action,
        content_type=write.content_type,
        body=write.body,
        body_sha256=write.body_sha256,
        outcome=write.outcome,
        reason=write.reason,
        matched_delivery_id=write.matched_delivery_id,
        key=write.key,
        key_label=write.key_label,
        repo_id=write.repo_id,
        number=write.number,
        projection=dict(write.projection),
        traceparent=write.traceparent,
    )


@dataclass(frozen=True)
class FirstResult:
    """What the first submission of a delivery id was answered."""

    first_delivery_id: str
    intent_ids: tuple[int, ...]
    reason: str


_FIND_FIRST_RESULT = statement("""
    SELECT coalesce(d.matched_delivery_id, d.delivery_id) AS first_delivery_id,
        ARRAY(
            SELECT i.intent_id
            FROM deliveries AS made
            JOIN intents AS i ON i.delivery_seq = made.delivery_seq AND i.tenant = made.tenant
            WHERE made.tenant = d.tenant AND i.key = d.key
                AND made.delivery_id = coalesce(d.matched_delivery_id, d.delivery_id)
            ORDER BY i.intent_id
        ) AS intent_ids,
        d.reason
    FROM deliveries AS d
    WHERE d.tenant = %(tenant)s AND d.endpoint = %(endpoint)s AND d.delivery_id = %(delivery_id)s
        AND d.outcome <> 'refused'
    ORDER BY d.delivery_seq DESC
    LIMIT 1
""")


async def find_first_result(
    tx: Transaction, *, tenant: str, endpoint: str, delivery_id: str
) -> FirstResult | None:
    """The answer to repeat; None when the delivery is no longer kept."""
    return await tx.one(
        _FIND_FIRST_RESULT, FirstResult, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
    )


@dataclass(frozen=True)
class DeliveryRow:
    """A stored delivery without its body; the key's parts are None when it made no work."""

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
    SELECT d.endpoint, d.delivery_id, d.event, d.event_action, d.received_at, d.outcome, d.reason,
        coalesce(made.intent_ids, '{}') AS intent_ids, d.forge_instance, d.repo_id, d.number,
        made.head_sha, made.suffix, d.key_label, octet_length(d.body)::bigint AS body_bytes,
        d.body_sha256, d.traceparent
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
