"""Statements on queues and the audit trail; `tenant` None stands for all tenants (X8)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from services.dispatcher.queues.model import Declared
from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class QueueRow:
    """A queue as stored."""

    tenant: str
    name: str
    retries_max: int
    retry_delays_ms: tuple[int, ...]
    retry_cap_ms: int | None
    retry_jitter_percent: int
    lease_ms: int
    created_at: datetime
    changed_at: datetime
    paused_at: datetime | None


_INSERT_QUEUE = statement("""
    INSERT INTO queues (
        tenant, name, retries_max, retry_delays_ms, retry_cap_ms, retry_jitter_percent, lease_ms
    )
    VALUES (
        %(tenant)s, %(name)s, %(retries_max)s, %(retry_delays_ms)s::bigint[], %(retry_cap_ms)s,
        %(retry_jitter_percent)s, %(lease_ms)s
    )
    ON CONFLICT (tenant, name) DO NOTHING
""")


async def insert_queue(tx: Transaction, *, tenant: str, declared: Declared) -> bool:
    """Declares the queue. False: another did, whose row the next statement finds."""
    return await tx.execute(_INSERT_QUEUE, tenant=tenant, **_values(declared)) == 1


_UPDATE_QUEUE = statement("""
    UPDATE queues
    SET retries_max = %(retries_max)s, retry_delays_ms = %(retry_delays_ms)s::bigint[],
        retry_cap_ms = %(retry_cap_ms)s, retry_jitter_percent = %(retry_jitter_percent)s,
        lease_ms = %(lease_ms)s, changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND name = %(name)s
""")


async def update_queue(tx: Transaction, *, tenant: str, declared: Declared) -> bool:
    """Changes what was declared. False: there is none of this name."""
    return await tx.execute(_UPDATE_QUEUE, tenant=tenant, **_values(declared)) == 1


_PAUSE_QUEUE = statement("""
    UPDATE queues SET paused_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND name = %(name)s AND paused_at IS NULL
""")


async def pause_queue(tx: Transaction, *, tenant: str, name: str) -> bool:
    """Stops its grants. False: it is paused, or not declared."""
    return await tx.execute(_PAUSE_QUEUE, tenant=tenant, name=name) == 1


_RESUME_QUEUE = statement("""
    UPDATE queues SET paused_at = NULL
    WHERE tenant = %(tenant)s AND name = %(name)s AND paused_at IS NOT NULL
""")


async def resume_queue(tx: Transaction, *, tenant: str, name: str) -> bool:
    """Lets its grants go on. False: it is not paused, or not declared."""
    return await tx.execute(_RESUME_QUEUE, tenant=tenant, name=name) == 1


_LOCK_QUEUE = statement("""
    SELECT tenant, name, retries_max, retry_delays_ms, retry_cap_ms, retry_jitter_percent,
        lease_ms, created_at, changed_at, paused_at
    FROM queues
    WHERE tenant = %(tenant)s AND name = %(name)s
    FOR UPDATE
""")


async def lock_queue(tx: Transaction, *, tenant: str, name: str) -> QueueRow | None:
    """The queue, which nobody else changes until the commit. None: it is not declared."""
    return await tx.one(_LOCK_QUEUE, QueueRow, tenant=tenant, name=name)


_FIND_QUEUE = statement("""
    SELECT tenant, name, retries_max, retry_delays_ms, retry_cap_ms, retry_jitter_percent,
        lease_ms, created_at, changed_at, paused_at
    FROM queues
    WHERE tenant = %(tenant)s AND name = %(name)s
""")


async def find_queue(tx: Transaction, *, tenant: str, name: str) -> QueueRow | None:
    """The queue as it is. None: it is not declared."""
    return await tx.one(_FIND_QUEUE, QueueRow, tenant=tenant, name=name)


_RULES = statement("""
    SELECT name, retries_max, retry_delays_ms, retry_cap_ms, retry_jitter_percent, lease_ms
    FROM queues
    WHERE tenant = %(tenant)s AND name = ANY(%(names)s::text[])
""")


async def rules_of(tx: Transaction, *, tenant: str, names: Iterable[str]) -> list[Declared]:
    """What is declared of these queues; one that is not declared is missing."""
    return await tx.all(_RULES, Declared, tenant=tenant, names=sorted(set(names)))


_COUNT_QUEUES = statement("""
    SELECT count(*) FROM queues WHERE tenant = %(tenant)s
""")


async def count_queues(tx: Transaction, *, tenant: str) -> int:
    """How many the tenant has declared."""
    return await tx.one(_COUNT_QUEUES, int, tenant=tenant) or 0


_LIST_QUEUES = statement("""
    SELECT tenant, name, retries_max, retry_delays_ms, retry_cap_ms, retry_jitter_percent,
        lease_ms, created_at, changed_at, paused_at
    FROM queues
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (
            %(after_tenant)s::text IS NULL
            OR (tenant, name) > (%(after_tenant)s, %(after_name)s::text)
        )
    ORDER BY tenant, name
    LIMIT %(limit)s
""")


async def list_queues(
    tx: Transaction, *, tenant: str | None, after: tuple[str, str] | None, limit: int
) -> list[QueueRow]:
    """Queues by tenant and name, from after this position on."""
    after_tenant, after_name = after or (None, None)
    return await tx.all(
        _LIST_QUEUES,
        QueueRow,
        tenant=tenant,
        after_tenant=after_tenant,
        after_name=after_name,
        limit=limit,
    )


_INSERT_AUDIT_ENTRY = statement("""
    INSERT INTO audit_entries (tenant, key_id, action, subject, reason, detail)
    VALUES (
        %(tenant)s, %(key_id)s, %(action)s, %(subject)s, %(reason)s, %(detail)s::text::jsonb
    )
""")


async def insert_audit_entry(
    tx: Transaction,
    *,
    tenant: str,
    key_id: str,
    action: str,
    subject: str,
    reason: str,
    detail: str,
) -> None:
    """Writes down who did what (W7); `detail` is JSON text."""
    await tx.execute(
        _INSERT_AUDIT_ENTRY,
        tenant=tenant,
        key_id=key_id,
        action=action,
        subject=subject,
        reason=reason,
        detail=detail,
    )


def _values(declared: Declared) -> dict[str, object]:
    return {**vars(declared), "retry_delays_ms": list(declared.retry_delays_ms)}
