"""Statements on the worker's finished spans."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class WorkerSpan:
    """One finished span as the worker serialised it, with its ids read out of it."""

    intent_id: int
    trace_id: bytes
    span_id: bytes
    otlp_span: bytes


_STORE = statement("""
    INSERT INTO run_spans (tenant, intent_id, trace_id, span_id, service_name, otlp_span)
    SELECT %(tenant)s, s.intent_id, s.trace_id, s.span_id,
        coalesce(
            (
                SELECT w.labels ->> 'service.name' FROM sessions AS w
                WHERE w.session_id = %(holder)s AND w.tenant = %(tenant)s
            ),
            'fencepost-worker'
        ),
        s.otlp_span
    FROM unnest(
        %(intent_ids)s::bigint[], %(trace_ids)s::bytea[], %(span_ids)s::bytea[],
        %(otlp_spans)s::bytea[]
    ) AS s (intent_id, trace_id, span_id, otlp_span)
    ORDER BY s.trace_id, s.span_id
    ON CONFLICT (tenant, trace_id, span_id) DO NOTHING
""")


async def store_spans(
    tx: Transaction, *, tenant: str, holder: str, spans: Sequence[WorkerSpan]
) -> int:
    """Stores spans once; one that is stored already stays as it is. Returns how many were new.

    They belong to the service that the holder's session names in its label service.name.
    """
    return await tx.execute(
        _STORE,
        tenant=tenant,
        holder=holder,
        intent_ids=[span.intent_id for span in spans],
        trace_ids=[span.trace_id for span in spans],
        span_ids=[span.span_id for span in spans],
        otlp_spans=[span.otlp_span for span in spans],
    )


@dataclass(frozen=True)
class PendingSpan:
    """A stored span that no collector has confirmed, with the service that made it."""

    span_seq: int
    service_name: str
    otlp_span: bytes


_PENDING = statement("""
    WITH page AS (
        SELECT span_seq, octet_length(otlp_span) AS size FROM run_spans
        WHERE exported_at IS NULL
        ORDER BY span_seq LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ), counted AS (
        SELECT span_seq, sum(size) OVER (ORDER BY span_seq) - size AS bytes_before FROM page
    )
    SELECT s.span_seq, s.service_name, s.otlp_span
    FROM counted AS c JOIN run_spans AS s ON s.span_seq = c.span_seq
    WHERE c.bytes_before < %(bytes_max)s
    ORDER BY s.span_seq
""")


async def lock_pending_spans(tx: Transaction, *, limit: int, bytes_max: int) -> list[PendingSpan]:
    """Oldest spans that were not exported yet, locked against other replicas.

    Those that together pass `bytes_max` are left for the next time, but for the first.
    """
    return await tx.all(_PENDING, PendingSpan, limit=limit, bytes_max=bytes_max)


_EXPORTED = statement("""
    UPDATE run_spans SET exported_at = clock_timestamp()
    WHERE span_seq = ANY (%(span_seqs)s::bigint[]) AND exported_at IS NULL
""")


async def mark_exported(tx: Transaction, *, span_seqs: Sequence[int]) -> int:
    """Records that these spans wait no more: a collector confirmed them, or never will."""
    return await tx.execute(_EXPORTED, span_seqs=list(span_seqs))
