"""Statements of intake, each guarded; what lost a race is read by the next statement.

An INSERT with ON CONFLICT DO NOTHING waits for a rival that has not committed. When the rival
commits, the insert writes nothing and its winner is visible only to the next statement; when the
rival rolls back, the insert wins.
"""

from dataclasses import dataclass
from datetime import datetime

from shared.database import Transaction, statement
from shared.schema.states import ChangeRequestState

KeyParts = tuple[str, str, int, int]
"""Tenant, forge instance, repository id and number: identity of a change request."""


_FIND_NOW_S = statement("""
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now_s
""")


@dataclass(frozen=True)
class _Now:
    now_s: float


async def find_now_s(tx: Transaction) -> float:
    """The database's clock, in seconds since 1970."""
    now = await tx.one(_FIND_NOW_S, _Now)
    assert now is not None, "the clock always answers"
    return now.now_s


@dataclass(frozen=True)
class Marker:
    """A delivery id that is taken."""

    body_sha256: bytes
    expired: bool


_INSERT_MARKER = statement("""
    INSERT INTO delivery_markers (tenant, endpoint, delivery_id, body_sha256, expires_at)
    VALUES (%(tenant)s, %(endpoint)s, %(delivery_id)s, %(body_sha256)s,
        clock_timestamp() + %(ttl_seconds)s * interval '1 second')
    ON CONFLICT (tenant, endpoint, delivery_id) DO NOTHING
""")


async def insert_marker(
    tx: Transaction,
    *,
    tenant: str,
    endpoint: str,
    delivery_id: str,
    body_sha256: bytes,
    ttl_seconds: int,
) -> bool:
    """Takes the delivery id; False when it is taken. Waits for a rival's commit (I1)."""
    inserted = await tx.execute(
        _INSERT_MARKER,
        tenant=tenant,
        endpoint=endpoint,
        delivery_id=delivery_id,
        body_sha256=body_sha256,
        ttl_seconds=ttl_seconds,
    )
    return inserted == 1


_FIND_MARKER = statement("""
    SELECT body_sha256, expires_at <= clock_timestamp() AS expired
    FROM delivery_markers
    WHERE tenant = %(tenant)s AND endpoint = %(endpoint)s AND delivery_id = %(delivery_id)s
""")


async def find_marker(
    tx: Transaction, *, tenant: str, endpoint: str, delivery_id: str
) -> Marker | None:
    """The marker that took the id; None when it has gone since."""
    return await tx.one(
        _FIND_MARKER, Marker, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
    )


_DELETE_EXPIRED_MARKER = statement("""
    DELETE FROM delivery_markers
    WHERE tenant = %(tenant)s AND endpoint = %(endpoint)s AND delivery_id = %(delivery_id)s
        AND expires_at <= clock_timestamp()
""")


async def delete_expired_marker(
    tx: Transaction, *, tenant: str, endpoint: str, delivery_id: str
) -> None:
    """Makes room where the marker has expired; a rival's new marker stays (I3)."""
    await tx.execute(
        _DELETE_EXPIRED_MARKER, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
    )


@dataclass(frozen=True)
class ChangeRequestRow:
    """What is recorded of a change request, its row locked."""

    head_sha: str
    generation: int
    state: ChangeRequestState
    forge_updated_at: datetime | None


_LOCK_CHANGE_REQUEST = statement("""
    SELECT head_sha, generation, state, forge_updated_at
    FROM change_requests
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND repo_id = %(repo_id)s AND number = %(number)s
    FOR UPDATE
""")


async def lock_change_request(tx: Transaction, key: KeyParts) -> ChangeRequestRow | None:
    """Locks the row until the end of the transaction; None when there is none."""
    tenant, forge_instance, repo_id, number = key
    return await tx.one(
        _LOCK_CHANGE_REQUEST,
        ChangeRequestRow,
        tenant=tenant,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
    )


@dataclass(frozen=True, kw_only=True)
class ChangeRequestWrite:
    """What is to be recorded of a change request."""

    key: KeyParts
    forge: str
    repo_name: str
    url: str
    base_ref: str
    head_sha: str
    generation: int
    state: ChangeRequestState
    forge_updated_at: datetime | None


_INSERT_CHANGE_REQUEST = statement("""
    INSERT INTO change_requests (tenant, forge_instance, repo_id, number, forge, repo_name, url,
        base_ref, head_sha, generation, state, forge_updated_at)
    VALUES (%(tenant)s, %(forge_instance)s, %(repo_id)s, %(number)s, %(forge)s, %(repo_name)s,
        %(url)s, %(base_ref)s, %(head_sha)s, %(generation)s, %(state)s, %(forge_updated_at)s)
    ON CONFLICT (tenant, forge_instance, repo_id, number) DO NOTHING
""")


async def insert_change_request(tx: Transaction, write: ChangeRequestWrite) -> bool:
    """Records a change request nobody told of, and so locks it; False when a rival was first."""
    return await tx.execute(_INSERT_CHANGE_REQUEST, forge=write.forge, **_values(write)) == 1


_UPDATE_CHANGE_REQUEST = statement("""
    UPDATE change_requests
    SET repo_name = %(repo_name)s, url = %(url)s, base_ref = %(base_ref)s,
        head_sha = %(head_sha)s, generation = %(generation)s, state = %(state)s,
        forge_updated_at = %(forge_updated_at)s, updated_at = clock_timestamp()
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND repo_id = %(repo_id)s AND number = %(number)s
        AND generation <= %(generation)s
""")


async def update_change_request(tx: Transaction, write: ChangeRequestWrite) -> bool:
    """Moves a locked row on; False, and nothing written, if its generation would go back."""
    return await tx.execute(_UPDATE_CHANGE_REQUEST, **_values(write)) == 1


def _values(write: ChangeRequestWrite) -> dict[str, object]:
    tenant, forge_instance, repo_id, number = write.key
    return {
        "tenant": tenant,
        "forge_instance": forge_instance,
        "repo_id": repo_id,
        "number": number,
        "repo_name": write.repo_name,
        "url": write.url,
        "base_ref": write.base_ref,
        "head_sha": write.head_sha,
        "generation": write.generation,
        "state": write.state,
        "forge_updated_at": write.forge_updated_at,
    }


_INSERT_HEAD = statement("""
    INSERT INTO change_request_heads (tenant, forge_instance, repo_id, number, generation, head_sha)
    VALUES (%(tenant)s, %(forge_instance)s, %(repo_id)s, %(number)s, %(generation)s, %(head_sha)s)
""")


async def insert_head(tx: Transaction, key: KeyParts, *, generation: int, head_sha: str) -> None:
    """Records that a head became current; the change request's row is locked."""
    tenant, forge_instance, repo_id, number = key
    await tx.execute(
        _INSERT_HEAD,
        tenant=tenant,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
        generation=generation,
        head_sha=head_sha,
    )


_FIND_HEAD_GENERATION = statement("""
    SELECT max(generation) AS generation
    FROM change_request_heads
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND repo_id = %(repo_id)s AND number = %(number)s AND head_sha = %(head_sha)s
""")


async def find_head_generation(tx: Transaction, key: KeyParts, *, head_sha: str) -> int | None:
    """Generation under which the head was last current; None when it never was."""
    tenant, forge_instance, repo_id, number = key
    return await tx.one(
        _FIND_HEAD_GENERATION,
        int,
        tenant=tenant,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
        head_sha=head_sha,
    )


@dataclass(frozen=True, kw_only=True)
class IntentWrite:
    """An intent that a delivery makes; its payload is the delivery's body."""

    change_request: KeyParts
    queue: str
    key: str
    key_label: str
    action: str
    generation: int
    head_sha: str
    content_type: str
    traceparent: str


@dataclass(frozen=True)
class IntentRow:
    """An intent with the number of the delivery that made it."""

    intent_id: int
    delivery_seq: int


# Drawing the delivery's number here lets the delivery be stored last, with its outcome.
_INSERT_INTENT = statement("""
    INSERT INTO intents (tenant, queue, key, key_label, action, generation, forge_instance,
        repo_id, number, head_sha, delivery_seq, content_type, traceparent)
    VALUES (%(tenant)s, %(queue)s, %(key)s, %(key_label)s, %(action)s, %(generation)s,
        %(forge_instance)s, %(repo_id)s, %(number)s, %(head_sha)s,
        nextval('deliveries_delivery_seq_seq'), %(content_type)s, %(traceparent)s)
    ON CONFLICT (tenant, key, action, generation)
        WHERE delivery_seq IS NOT NULL AND status IN ('open', 'succeeded') DO NOTHING
    RETURNING intent_id, delivery_seq
""")


async def insert_intent(tx: Transaction, write: IntentWrite) -> IntentRow | None:
    """Occupies (key, action, generation); None when another delivery's intent does (I13)."""
    tenant, forge_instance, repo_id, number = write.change_request
    return await tx.one(
        _INSERT_INTENT,
        IntentRow,
        tenant=tenant,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
        queue=write.queue,
        key=write.key,
        key_label=write.key_label,
        action=write.action,
        generation=write.generation,
        head_sha=write.head_sha,
        content_type=write.content_type,
        traceparent=write.traceparent,
    )


@dataclass(frozen=True)
class Occupant:
    """The intent that occupies a key, with the id of the delivery that made it."""

    intent_id: int
    delivery_id: str


_FIND_OCCUPANT = statement("""
    SELECT i.intent_id, d.delivery_id
    FROM intents AS i
    JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq AND d.tenant = i.tenant
    WHERE i.tenant = %(tenant)s AND i.key = %(key)s AND i.action = %(action)s
        AND i.generation = %(generation)s
        AND i.delivery_seq IS NOT NULL AND i.status IN ('open', 'succeeded')
""")


async def find_occupant(
    tx: Transaction, *, tenant: str, key: str, action: str, generation: int
) -> Occupant | None:
    """Who occupies (key, action, generation); None when it has become free since."""
    return await tx.one(
        _FIND_OCCUPANT, Occupant, tenant=tenant, key=key, action=action, generation=generation
    )


# The marker gave the transaction its xid before this draws a number, as Q11 asks.
_INSERT_READY = statement("""
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action)
    SELECT queue, priority, tenant, intent_id, key, action
    FROM intents WHERE intent_id = %(intent_id)s AND tenant = %(tenant)s
""")


async def insert_ready(tx: Transaction, *, tenant: str, intent_id: int) -> None:
    """Lets the new intent be granted."""
    await tx.execute(_INSERT_READY, tenant=tenant, intent_id=intent_id)
