"""Statements over publications and attempts; None means that nothing fitted the guard."""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import AttemptStatus


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What makes two publications the same one (P2)."""

    tenant: str
    key: str
    action: str
    generation: int
    name: str
    kind: str
    target: str
    ordinal: int


_INSERT_PUBLICATION = statement("""
    INSERT INTO publications (
        tenant, key, action, generation, name, kind, target, ordinal, key_label, intent_id
    ) VALUES (
        %(tenant)s, %(key)s, %(action)s, %(generation)s, %(name)s, %(kind)s, %(target)s,
        %(ordinal)s, %(key_label)s, %(intent_id)s
    )
    ON CONFLICT ON CONSTRAINT publications_identity_key DO NOTHING
    RETURNING publication_id
""")


async def insert_publication(
    tx: Transaction, identity: Identity, *, key_label: str, intent_id: int
) -> int | None:
    """Makes the identity. None: it is there, visible to the next statement."""
    return await tx.one(
        _INSERT_PUBLICATION, int, **vars(identity), key_label=key_label, intent_id=intent_id
    )


_FIND_PUBLICATION = statement("""
    SELECT publication_id
    FROM publications
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
        AND generation = %(generation)s AND name = %(name)s AND kind = %(kind)s
        AND target = %(target)s AND ordinal = %(ordinal)s
""")


async def find_publication(tx: Transaction, identity: Identity) -> int | None:
    """The publication of this identity."""
    return await tx.one(_FIND_PUBLICATION, int, **vars(identity))


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """An attempt as the ledger has it."""

    attempt: int
    status: AttemptStatus
    epoch: int
    claimed_at: datetime
    settled_at: datetime | None
    remote_id: str
    remote_url: str
    detail: str
    digest: bytes


_ATTEMPTS = statement("""
    SELECT attempt, status, epoch, claimed_at, settled_at, coalesce(remote_id, '') AS remote_id,
        coalesce(remote_url, '') AS remote_url, detail, digest
    FROM publication_attempts
    WHERE publication_id = %(publication_id)s
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    ORDER BY attempt
""")


async def attempts_of(
    tx: Transaction, *, tenant: str | None, publication_id: int
) -> list[AttemptRow]:
    """Every attempt of the tenant's publication, oldest first; without a tenant of anybody's."""
    return await tx.all(_ATTEMPTS, AttemptRow, tenant=tenant, publication_id=publication_id)


@dataclass(frozen=True, kw_only=True)
class NewAttempt:
    """An attempt about to be sent, with the request as it will be sent."""

    tenant: str
    publication_id: int
    attempt: int
    holder: str
    epoch: int
    intent_id: int
    claim_token: str
    checkpoint_version: int
    digest: bytes
    request: bytes
    evidence: str
    traceparent: str


_INSERT_ATTEMPT = statement("""
    INSERT INTO publication_attempts (
        tenant, publication_id, attempt, status, holder, epoch, intent_id, claim_token,
        checkpoint_version, digest, request, evidence, traceparent
    ) VALUES (
        %(tenant)s, %(publication_id)s, %(attempt)s, 'running', %(holder)s, %(epoch)s,
        %(intent_id)s, %(claim_token)s, %(checkpoint_version)s, %(digest)s, %(request)s,
        %(evidence)s, %(traceparent)s
    )
    ON CONFLICT DO NOTHING
    RETURNING attempt
""")


async def insert_attempt(tx: Transaction, new: NewAttempt) -> int | None:
    """Marks the attempt running. None: another one blocks it, visible to the next statement.

    The unique index over attempts that block decides (P2).
    """
    return await tx.one(_INSERT_ATTEMPT, int, **vars(new))


_CLAIM_STATUS = statement("""
    SELECT status
    FROM publication_attempts
    WHERE tenant = %(tenant)s AND publication_id = %(publication_id)s AND attempt = %(attempt)s
        AND claim_token = %(claim_token)s
""")


async def claim_status(
    tx: Transaction, *, tenant: str, publication_id: int, attempt: int, claim_token: str
) -> str | None:
    """How far the attempt is that was claimed with this token. None: no such claim."""
    return await tx.one(
        _CLAIM_STATUS,
        str,
        tenant=tenant,
        publication_id=publication_id,
        attempt=attempt,
        claim_token=claim_token,
    )


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What became of an attempt; remote fields only of one that succeeded."""

    status: AttemptStatus
    detail: str = ""
    remote_id: str | None = None
    remote_url: str | None = None
    result: bytes | None = None


# The state stands in a list, where it opens no partial index: the identity alone finds the attempt.
_SETTLE_ATTEMPT = statement("""
    UPDATE publication_attempts AS a
    SET status = %(status)s, settled_at = clock_timestamp(), detail = %(detail)s,
        remote_id = %(remote_id)s, remote_url = %(remote_url)s, result = %(result)s
    FROM (SELECT 'running' AS status OFFSET 0) AS claimed
    WHERE a.tenant = %(tenant)s AND a.publication_id = %(publication_id)s
        AND a.attempt = %(attempt)s AND a.claim_token = %(claim_token)s
        AND a.status = claimed.status
    RETURNING a.attempt
""")


async def settle_attempt(
    tx: Transaction,
    settlement: Settlement,
    *,
    tenant: str,
    publication_id: int,
    attempt: int,
    claim_token: str,
) -> int | None:
    """Ends a running attempt, whoever holds the lease now. None: not with this token (P5)."""
    return await tx.one(
        _SETTLE_ATTEMPT,
        int,
        **vars(settlement),
        tenant=tenant,
        publication_id=publication_id,
        attempt=attempt,
        claim_token=claim_token,
    )


@dataclass(frozen=True, kw_only=True)
class PublicationRow:
    """A publication without its attempts."""

    publication_id: int
    key_label: str
    action: str
    name: str
    kind: str
    target: str
    ordinal: int


_PUBLICATION = statement("""
    SELECT publication_id, key_label, action, name, kind, target, ordinal
    FROM publications
    WHERE publication_id = %(publication_id)s
        AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
""")


async def read_publication(
    tx: Transaction, *, tenant: str | None, publication_id: int
) -> PublicationRow | None:
    """The publication, if it is the tenant's; without a tenant anybody's (X8)."""
    return await tx.one(_PUBLICATION, PublicationRow, tenant=tenant, publication_id=publication_id)
