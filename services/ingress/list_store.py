"""Lists stored deliveries, a page at a time."""

from dataclasses import dataclass
from datetime import datetime

from services.ingress.deliveries_store import DeliveryRow
from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries of a tenant; what is None leaves nothing out."""

    tenant: str
    endpoint: str | None = None
    outcome: str | None = None
    event: str | None = None
    received_from: datetime | None = None
    received_before: datetime | None = None
    forge_instance: str | None = None
    repo_id: int | None = None
    number: int | None = None
    key: str | None = None


Position = tuple[datetime, int]
"""When a delivery was received, and its number."""

_LIST_DELIVERIES = statement("""
    WITH page AS (
        SELECT delivery_seq, tenant, endpoint, delivery_id, event, event_action, received_at,
            outcome, reason, forge_instance, repo_id, number, key_label,
            octet_length(body)::bigint AS body_bytes, body_sha256, traceparent
        FROM deliveries
        WHERE tenant = %(tenant)s
            AND (%(endpoint)s::text IS NULL OR endpoint = %(endpoint)s)
            AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
            AND (%(event)s::text IS NULL OR event = %(event)s)
            AND (%(received_from)s::timestamptz IS NULL OR received_at >= %(received_from)s)
            AND (%(received_before)s::timestamptz IS NULL OR received_at < %(received_before)s)
            AND (%(forge_instance)s::text IS NULL OR forge_instance = %(forge_instance)s)
            AND (%(repo_id)s::bigint IS NULL OR repo_id = %(repo_id)s)
            AND (%(number)s::bigint IS NULL OR number = %(number)s)
            AND (%(key)s::text IS NULL OR key = %(key)s)
            AND (
                %(after_received_at)s::timestamptz IS NULL
                OR (received_at, delivery_seq) < (%(after_received_at)s, %(after_seq)s::bigint)
            )
        ORDER BY received_at DESC, delivery_seq DESC
        LIMIT %(limit)s
    )
    SELECT d.delivery_seq, d.endpoint, d.delivery_id, d.event, d.event_action, d.received_at,
        d.outcome, d.reason, coalesce(made.intent_ids, '{}') AS intent_ids, d.forge_instance,
        d.repo_id, d.number, made.head_sha, made.suffix, d.key_label, d.body_bytes,
        d.body_sha256, d.traceparent
    FROM page AS d
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
    ORDER BY d.received_at DESC, d.delivery_seq DESC
""")


async def list_deliveries(
    tx: Transaction, wanted: DeliveryFilter, *, after: Position | None, limit: int
) -> list[DeliveryRow]:
    """Deliveries from the position on, newest first (X8)."""
    after_received_at, after_seq = (None, None) if after is None else after
    return await tx.all(
        _LIST_DELIVERIES,
        DeliveryRow,
        **vars(wanted),
        after_received_at=after_received_at,
        after_seq=after_seq,
        limit=limit,
    )
