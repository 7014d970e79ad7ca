"""Statements over connections; `tenant` None stands for all tenants (X8)."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.sealing import Sealed


@dataclass(frozen=True, kw_only=True)
class ConnectionRow:
    """A connection as stored, its token sealed."""

    tenant: str
    forge_instance: str
    forge: str
    base_url: str
    version: int
    sealing_key_id: str
    wrapped_key: bytes
    ciphertext: bytes
    created_at: datetime
    changed_at: datetime
    disabled_at: datetime | None

    @property
    def sealed(self) -> Sealed:
        """Its token."""
        return Sealed(
            key_id=self.sealing_key_id, wrapped_key=self.wrapped_key, ciphertext=self.ciphertext
        )


_FIND = statement("""
    SELECT tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
    FROM connections
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
""")


async def find_connection(
    tx: Transaction, *, tenant: str, forge_instance: str
) -> ConnectionRow | None:
    """The tenant's connection to this instance."""
    return await tx.one(_FIND, ConnectionRow, tenant=tenant, forge_instance=forge_instance)


_LOCK = statement("""
    SELECT tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
    FROM connections
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
    FOR UPDATE
""")


async def lock_connection(
    tx: Transaction, *, tenant: str, forge_instance: str
) -> ConnectionRow | None:
    """The same, which nobody else changes until the commit."""
    return await tx.one(_LOCK, ConnectionRow, tenant=tenant, forge_instance=forge_instance)


@dataclass(frozen=True, kw_only=True)
class ConnectionWrite:
    """A connection as it is to be stored."""

    tenant: str
    forge_instance: str
    forge: str
    base_url: str
    version: int
    sealed: Sealed


_INSERT = statement("""
    INSERT INTO connections (
        tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key, ciphertext
    ) VALUES (
        %(tenant)s, %(forge_instance)s, %(forge)s, %(base_url)s, %(version)s, %(sealing_key_id)s,
        %(wrapped_key)s, %(ciphertext)s
    )
    ON CONFLICT (tenant, forge_instance) DO NOTHING
    RETURNING tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
""")


async def insert_connection(tx: Transaction, write: ConnectionWrite) -> ConnectionRow | None:
    """Makes the connection. None: there is one, visible to the next statement."""
    return await tx.one(_INSERT, ConnectionRow, forge=write.forge, **_values(write))


_UPDATE = statement("""
    UPDATE connections
    SET base_url = %(base_url)s, version = %(version)s, sealing_key_id = %(sealing_key_id)s,
        wrapped_key = %(wrapped_key)s, ciphertext = %(ciphertext)s,
        disabled_at = CASE WHEN %(enable)s THEN NULL ELSE disabled_at END,
        changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND version <= %(version)s
    RETURNING tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
""")


async def update_connection(
    tx: Transaction, write: ConnectionWrite, *, enable: bool
) -> ConnectionRow | None:
    """Changes a locked connection. None: its version would go back."""
    return await tx.one(_UPDATE, ConnectionRow, enable=enable, **_values(write))


_DISABLE = statement("""
    UPDATE connections
    SET disabled_at = clock_timestamp(), changed_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s AND disabled_at IS NULL
    RETURNING tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
""")


async def disable_connection(
    tx: Transaction, *, tenant: str, forge_instance: str
) -> ConnectionRow | None:
    """Disables a live connection. None: there is none, or it is disabled."""
    return await tx.one(_DISABLE, ConnectionRow, tenant=tenant, forge_instance=forge_instance)


_LIST = statement("""
    SELECT tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
    FROM connections
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (tenant, forge_instance) > (%(after_tenant)s::text, %(after_instance)s::text)
    ORDER BY tenant, forge_instance
    LIMIT %(limit)s
""")


async def list_connections(
    tx: Transaction, *, tenant: str | None, after: tuple[str, str], limit: int
) -> list[ConnectionRow]:
    """Connections by tenant and instance, from after this position on."""
    after_tenant, after_instance = after
    return await tx.all(
        _LIST,
        ConnectionRow,
        tenant=tenant,
        after_tenant=after_tenant,
        after_instance=after_instance,
        limit=limit,
    )


_LOCK_WRAPPED_BY_OTHERS = statement("""
    SELECT tenant, forge_instance, forge, base_url, version, sealing_key_id, wrapped_key,
        ciphertext, created_at, changed_at, disabled_at
    FROM connections
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (tenant, forge_instance) > (%(after_tenant)s::text, %(after_instance)s::text)
        AND sealing_key_id <> %(active_key_id)s
    ORDER BY tenant, forge_instance
    LIMIT %(limit)s
    FOR UPDATE
""")


async def lock_wrapped_by_others(
    tx: Transaction,
    *,
    tenant: str | None,
    active_key_id: str,
    after: tuple[str, str],
    limit: int,
) -> list[ConnectionRow]:
    """Connections whose data key another key wraps, in order, locked to the commit."""
    after_tenant, after_instance = after
    return await tx.all(
        _LOCK_WRAPPED_BY_OTHERS,
        ConnectionRow,
        tenant=tenant,
        active_key_id=active_key_id,
        after_tenant=after_tenant,
        after_instance=after_instance,
        limit=limit,
    )


_REWRAP = statement("""
    UPDATE connections
    SET sealing_key_id = %(sealing_key_id)s, wrapped_key = %(wrapped_key)s
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s AND version = %(version)s
""")


async def rewrap_connection(tx: Transaction, row: ConnectionRow, sealed: Sealed) -> None:
    """Stores the data key of a locked connection as another key wraps it."""
    await tx.execute(
        _REWRAP,
        sealing_key_id=sealed.key_id,
        wrapped_key=sealed.wrapped_key,
        tenant=row.tenant,
        forge_instance=row.forge_instance,
        version=row.version,
    )


def _values(write: ConnectionWrite) -> dict[str, object]:
    return {
        "tenant": write.tenant,
        "forge_instance": write.forge_instance,
        "base_url": write.base_url,
        "version": write.version,
        "sealing_key_id": write.sealed.key_id,
        "wrapped_key": write.sealed.wrapped_key,
        "ciphertext": write.sealed.ciphertext,
    }
