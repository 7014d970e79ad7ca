"""Statements on runs and their flushes; the fence is locked with the dispatch room's statement."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement


@dataclass(frozen=True)
class StoredFlush:
    """An acknowledgement that was given before."""

    run_id: int
    version: int
    request_sha256: bytes


_STORED_FLUSH = statement("""
    SELECT f.run_id, f.version, f.request_sha256
    FROM runs AS r
    JOIN flushes AS f ON f.run_id = r.run_id AND f.tenant = r.tenant AND f.flush_id = %(flush_id)s
    WHERE r.tenant = %(tenant)s AND r.key = %(key)s AND r.action = %(action)s
""")


async def stored_flush(
    tx: Transaction, *, tenant: str, key: str, action: str, flush_id: str
) -> StoredFlush | None:
    """The acknowledgement of this very flush, if it was given (C2)."""
    return await tx.one(
        _STORED_FLUSH, StoredFlush, tenant=tenant, key=key, action=action, flush_id=flush_id
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What one flush makes durable."""

    flush_id: str
    request_sha256: bytes
    based_on_version: int
    state: bytes
    state_schema_version: int
    state_codec: str
    event_cursor: int
    phase: str
    analysis_status: str
    final: bool
    span_count: int


@dataclass(frozen=True)
class Written:
    """The version that a flush made."""

    run_id: int
    version: int


_BEGIN_RUN = statement("""
    INSERT INTO runs (
        tenant, key, action, generation, intent_id, epoch, version, flush_id, state,
        state_schema_version, state_codec, event_cursor, phase, analysis_status, final
    ) VALUES (
        %(tenant)s, %(key)s, %(action)s, %(generation)s, %(intent_id)s, %(epoch)s, 1,
        %(flush_id)s, %(state)s, %(state_schema_version)s, %(state_codec)s, %(event_cursor)s,
        %(phase)s, %(analysis_status)s, %(final)s
    )
    ON CONFLICT (tenant, key, action, generation) DO NOTHING
    RETURNING run_id, version
""")

_ADVANCE_RUN = statement("""
    UPDATE runs SET intent_id = %(intent_id)s, epoch = %(epoch)s, version = version + 1,
        flush_id = %(flush_id)s, state = %(state)s,
        state_schema_version = %(state_schema_version)s, state_codec = %(state_codec)s,
        event_cursor = %(event_cursor)s, phase = %(phase)s,
        analysis_status = %(analysis_status)s, final = %(final)s,
        flushed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
        AND generation = %(generation)s AND version = %(based_on_version)s
    RETURNING run_id, version
""")


async def write_run(
    tx: Transaction,
    checkpoint: Checkpoint,
    *,
    tenant: str,
    key: str,
    action: str,
    generation: int,
    intent_id: int,
    epoch: int,
) -> Written | None:
    """Writes the next version; None when the run is not at the version it is based on (C2)."""
    based_on = checkpoint.based_on_version
    write, guard = (_ADVANCE_RUN, {"based_on_version": based_on}) if based_on else (_BEGIN_RUN, {})
    return await tx.one(
        write,
        Written,
        **guard,
        tenant=tenant,
        key=key,
        action=action,
        generation=generation,
        intent_id=intent_id,
        epoch=epoch,
        flush_id=checkpoint.flush_id,
        state=checkpoint.state,
        state_schema_version=checkpoint.state_schema_version,
        state_codec=checkpoint.state_codec,
        event_cursor=checkpoint.event_cursor,
        phase=checkpoint.phase,
        analysis_status=checkpoint.analysis_status,
        final=checkpoint.final,
    )


_ACKNOWLEDGE = statement("""
    INSERT INTO flushes (
        tenant, run_id, flush_id, request_sha256, version, epoch, state_bytes, span_count, phase,
        final
    )
    VALUES (%(tenant)s, %(run_id)s, %(flush_id)s, %(request_sha256)s, %(version)s, %(epoch)s,
        %(state_bytes)s, %(span_count)s, %(phase)s, %(final)s)
""")


async def acknowledge(
    tx: Transaction, checkpoint: Checkpoint, written: Written, *, tenant: str, epoch: int
) -> None:
    """Keeps the acknowledgement, so that a repeat of the flush is answered with it."""
    await tx.execute(
        _ACKNOWLEDGE,
        tenant=tenant,
        run_id=written.run_id,
        flush_id=checkpoint.flush_id,
        request_sha256=checkpoint.request_sha256,
        version=written.version,
        epoch=epoch,
        state_bytes=len(checkpoint.state),
        span_count=checkpoint.span_count,
        phase=checkpoint.phase,
        final=checkpoint.final,
    )


@dataclass(frozen=True)
class RunRow:
    """Latest checkpoint of a run."""

    run_id: int
    version: int
    flush_id: str
    state: bytes
    state_schema_version: int
    state_codec: str
    event_cursor: int
    phase: str
    analysis_status: str
    final: bool
    flushed_at: datetime


_RUN = statement("""
    SELECT run_id, version, flush_id, state, state_schema_version, state_codec, event_cursor,
        phase, analysis_status, final, flushed_at
    FROM runs
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
        AND generation = %(generation)s
""")


async def run(
    tx: Transaction, *, tenant: str, key: str, action: str, generation: int
) -> RunRow | None:
    """Latest checkpoint of the work on this generation; None when it never flushed."""
    return await tx.one(_RUN, RunRow, tenant=tenant, key=key, action=action, generation=generation)
