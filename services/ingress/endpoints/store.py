"""Statements on endpoints and the audit trail; `tenant` None stands for all tenants (X8)."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class EndpointRow:
    """An endpoint as stored; `routes` is JSON text."""

    tenant: str
    name: str
    forge: str
    forge_instance: str
    proof: str
    routes: str
    bot_ids: tuple[int, ...]
    trusted_ids: tuple[int, ...]
    wanted_events: tuple[str, ...]
    drafts: str
    body_limit_bytes: int
    created_at: datetime
    changed_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class EndpointWrite:
    """An endpoint as it shall be."""

    tenant: str
    name: str
    forge: str
    forge_instance: str
    proof: str
    routes: str
    bot_ids: list[int]
    trusted_ids: list[int]
    wanted_events: list[str]
    drafts: str
    body_limit_bytes: int


_INSERT_ENDPOINT = statement("""
    INSERT INTO endpoints (
        tenant, name, forge, forge_instance, proof, routes, bot_ids, trusted_ids, wanted_events,
        drafts, body_limit_bytes
    )
    VALUES (
        %(tenant)s, %(name)s, %(forge)s, %(forge_instance)s, %(proof)s, %(routes)s::text::jsonb,
        %(bot_ids)s, %(trusted_ids)s, %(wanted_events)s, %(drafts)s, %(body_limit_bytes)s
    )
    ON CONFLICT (tenant, name) DO NOTHING
""")


async def insert_endpoint(tx: Transaction, new: EndpointWrite) -> bool:
    """Makes the endpoint. False: another made it, whose row the next statement finds."""
    return await tx.execute(_INSERT_ENDPOINT, **vars(new)) == 1


_COUNT_ENDPOINTS = statement("""
    SELECT count(*) FROM endpoints WHERE tenant = %(tenant)s
""")


async def count_endpoints(tx: Transaction, *, tenant: str) -> int:
    """How many the tenant has, disabled ones included."""
    return await tx.one(_COUNT_ENDPOINTS, int, tenant=tenant) or 0


_UPDATE_ENDPOINT = statement("""
    UPDATE endpoints
    SET proof = %(proof)s, routes = %(routes)s::text::jsonb, bot_ids = %(bot_ids)s,
        trusted_ids = %(trusted_ids)s, wanted_events = %(wanted_events)s, drafts = %(drafts)s,
        body_limit_bytes = %(body_limit_bytes)s, changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND name = %(name)s AND forge = %(forge)s
        AND forge_instance = %(forge_instance)s
""")


async def update_endpoint(tx: Transaction, new: EndpointWrite) -> bool:
    """Changes what may change. False: there is none of this name and forge."""
    return await tx.execute(_UPDATE_ENDPOINT, **vars(new)) == 1


_DISABLE_ENDPOINT = statement("""
    UPDATE endpoints
    SET disabled_at = clock_timestamp(), changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND name = %(name)s AND disabled_at IS NULL
""")


async def disable_endpoint(tx: Transaction, *, tenant: str, name: str) -> bool:
    """Ends its service. False: it is not served."""
    return await tx.execute(_DISABLE_ENDPOINT, tenant=tenant, name=name) == 1


_ENABLE_ENDPOINT = statement("""
    UPDATE endpoints
    SET disabled_at = NULL, changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND name = %(name)s AND disabled_at IS NOT NULL
""")


async def enable_endpoint(tx: Transaction, *, tenant: str, name: str) -> bool:
    """Serves it again. False: it is not disabled."""
    return await tx.execute(_ENABLE_ENDPOINT, tenant=tenant, name=name) == 1


_LOCK_ENDPOINT = statement("""
    SELECT tenant, name, forge, forge_instance, proof, routes::text AS routes, bot_ids,
        trusted_ids, wanted_events, drafts, body_limit_bytes, created_at, changed_at, disabled_at
    FROM endpoints
    WHERE tenant = %(tenant)s AND name = %(name)s
    FOR UPDATE
""")


async def lock_endpoint(tx: Transaction, *, tenant: str, name: str) -> EndpointRow | None:
    """The endpoint, which nobody else changes until the commit. None: the tenant has none."""
    return await tx.one(_LOCK_ENDPOINT, EndpointRow, tenant=tenant, name=name)


_LIST_ENDPOINTS = statement("""
    SELECT tenant, name, forge, forge_instance, proof, routes::text AS routes, bot_ids,
        trusted_ids, wanted_events, drafts, body_limit_bytes, created_at, changed_at, disabled_at
    FROM endpoints
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (
            %(after_tenant)s::text IS NULL
            OR (tenant, name) > (%(after_tenant)s, %(after_name)s::text)
        )
    ORDER BY tenant, name
    LIMIT %(limit)s
""")


async def list_endpoints(
    tx: Transaction, *, tenant: str | None, after: tuple[str, str] | None, limit: int
) -> list[EndpointRow]:
    """Endpoints by tenant and name, from after this position on."""
    after_tenant, after_name = after or (None, None)
    return await tx.all(
        _LIST_ENDPOINTS,
        EndpointRow,
        tenant=tenant,
        after_tenant=after_tenant,
        after_name=after_name,
        limit=limit,
    )


_ALL_ENDPOINTS = statement("""
    SELECT tenant, name, forge, forge_instance, proof, routes::text AS routes, bot_ids,
        trusted_ids, wanted_events, drafts, body_limit_bytes, created_at, changed_at, disabled_at
    FROM endpoints
    ORDER BY created_at, tenant
""")


async def all_endpoints(tx: Transaction) -> list[EndpointRow]:
    """Every endpoint of every tenant, oldest first, for the doors that serve them."""
    return await tx.all(_ALL_ENDPOINTS, EndpointRow)


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
