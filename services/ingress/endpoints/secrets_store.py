"""Statements on the sealed secrets of endpoints (K1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.database import Transaction, statement
from shared.sealing import Sealed


@dataclass(frozen=True, kw_only=True)
class SecretRow:
    """A secret as stored; `live_until` None: the newest of its endpoint."""

    tenant: str
    endpoint: str
    version: int
    sealing_key_id: str
    wrapped_key: bytes = field(repr=False)
    ciphertext: bytes = field(repr=False)
    live_from: datetime
    live_until: datetime | None

    @property
    def sealed(self) -> Sealed:
        """What there is to unseal."""
        return Sealed(
            key_id=self.sealing_key_id, wrapped_key=self.wrapped_key, ciphertext=self.ciphertext
        )


_INSERT_SECRET = statement("""
    INSERT INTO endpoint_secrets (
        tenant, endpoint, version, sealing_key_id, wrapped_key, ciphertext
    )
    VALUES (
        %(tenant)s, %(endpoint)s, %(version)s, %(key_id)s, %(wrapped_key)s, %(ciphertext)s
    )
""")


async def insert_secret(
    tx: Transaction, sealed: Sealed, *, tenant: str, endpoint: str, version: int
) -> None:
    """Adds the newest secret of a locked endpoint, whose last newest one was given its end."""
    await tx.execute(
        _INSERT_SECRET, **vars(sealed), tenant=tenant, endpoint=endpoint, version=version
    )


_END_SECRETS = statement("""
    UPDATE endpoint_secrets
    SET live_until = least(live_until, clock_timestamp() + %(in_ms)s * interval '1 millisecond')
    WHERE tenant = %(tenant)s AND endpoint = %(endpoint)s
""")


async def end_secrets(tx: Transaction, *, tenant: str, endpoint: str, in_ms: int) -> None:
    """Lets all secrets of a locked endpoint end in so long, none later than it would."""
    await tx.execute(_END_SECRETS, tenant=tenant, endpoint=endpoint, in_ms=in_ms)


_DELETE_ENDED_SECRETS = statement("""
    DELETE FROM endpoint_secrets WHERE live_until <= clock_timestamp()
""")


async def delete_ended_secrets(tx: Transaction) -> int:
    """Forgets every secret that counts no more; how many."""
    return await tx.execute(_DELETE_ENDED_SECRETS)


_LIST_SECRETS = statement("""
    SELECT s.tenant, s.endpoint, s.version, s.sealing_key_id, s.wrapped_key, s.ciphertext,
        s.live_from, s.live_until
    FROM endpoint_secrets AS s
    JOIN unnest(%(tenants)s::text[], %(endpoints)s::text[]) AS wanted (tenant, endpoint)
        ON s.tenant = wanted.tenant AND s.endpoint = wanted.endpoint
    WHERE s.live_until IS NULL OR s.live_until > clock_timestamp()
    ORDER BY s.tenant, s.endpoint, s.version DESC
""")


async def list_secrets(tx: Transaction, endpoints: Sequence[tuple[str, str]]) -> list[SecretRow]:
    """Secrets of these endpoints, each tenant and name, that count now, newest first."""
    return await tx.all(
        _LIST_SECRETS,
        SecretRow,
        tenants=[tenant for tenant, _ in endpoints],
        endpoints=[name for _, name in endpoints],
    )


_LIVE_SECRETS = statement("""
    SELECT tenant, endpoint, version, sealing_key_id, wrapped_key, ciphertext, live_from,
        live_until
    FROM endpoint_secrets
    WHERE live_until IS NULL OR live_until > statement_timestamp()
    ORDER BY tenant, endpoint, version DESC
""")


async def live_secrets(tx: Transaction) -> list[SecretRow]:
    """Every secret of every tenant that counts now, newest first, for the doors that check."""
    return await tx.all(_LIVE_SECRETS, SecretRow)


_LOCK_SEALED_UNDER_OTHERS = statement("""
    SELECT tenant, endpoint, version, sealing_key_id, wrapped_key, ciphertext, live_from,
        live_until
    FROM endpoint_secrets
    WHERE sealing_key_id <> %(active_id)s AND sealing_key_id = ANY (%(known_ids)s::text[])
        AND (tenant, endpoint, version)
            > (%(after_tenant)s::text, %(after_endpoint)s::text, %(after_version)s::bigint)
    ORDER BY tenant, endpoint, version
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
""")


async def lock_sealed_under_others(
    tx: Transaction,
    *,
    active_id: str,
    known_ids: Sequence[str],
    after: tuple[str, str, int],
    limit: int,
) -> list[SecretRow]:
    """Secrets under a known key that is not the active one, locked; what others lock is left."""
    after_tenant, after_endpoint, after_version = after
    return await tx.all(
        _LOCK_SEALED_UNDER_OTHERS,
        SecretRow,
        active_id=active_id,
        known_ids=list(known_ids),
        after_tenant=after_tenant,
        after_endpoint=after_endpoint,
        after_version=after_version,
        limit=limit,
    )


_REWRAP_SECRET = statement("""
    UPDATE endpoint_secrets
    SET sealing_key_id = %(key_id)s, wrapped_key = %(wrapped_key)s
    WHERE tenant = %(tenant)s AND endpoint = %(endpoint)s AND version = %(version)s
        AND ciphertext = %(ciphertext)s
""")


async def rewrap_secret(tx: Transaction, row: SecretRow, sealed: Sealed) -> bool:
    """Stores the same secret under another key. False: it is not the one that was read."""
    place = {"tenant": row.tenant, "endpoint": row.endpoint, "version": row.version}
    return await tx.execute(_REWRAP_SECRET, **vars(sealed), **place) == 1


@dataclass(frozen=True, kw_only=True)
class KeyUse:
    """How many stored secrets a key-encryption key still wraps."""

    sealing_key_id: str
    secrets: int


_COUNT_BY_KEY = statement("""
    SELECT sealing_key_id, count(*) AS secrets
    FROM endpoint_secrets
    GROUP BY sealing_key_id
    ORDER BY sealing_key_id
""")


async def count_by_key(tx: Transaction) -> list[KeyUse]:
    """Each key that is still used."""
    return await tx.all(_COUNT_BY_KEY, KeyUse)
