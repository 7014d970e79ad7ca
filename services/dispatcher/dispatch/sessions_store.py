"""Statements on worker sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """What a worker says of itself in Hello, and where it said it."""

    session_id: str
    tenant: str
    key_id: str
    queues: Sequence[str]
    version: str
    labels: Mapping[str, str]
    replica: str


_OPEN = statement("""
    INSERT INTO sessions (session_id, tenant, key_id, queues, version, labels, replica, state)
    VALUES (%(session_id)s, %(tenant)s, %(key_id)s, %(queues)s::text[], %(version)s, %(labels)s,
        %(replica)s, 'open')
    ON CONFLICT (session_id) DO NOTHING
""")

_RESUME = statement("""
    UPDATE sessions SET state = 'open', replica = %(replica)s, queues = %(queues)s::text[],
        version = %(version)s, labels = %(labels)s, draining = false,
        heard_at = clock_timestamp()
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND state <> 'ended'
""")


def _values(session: NewSession) -> dict[str, object]:
    return {
        "session_id": session.session_id,
        "tenant": session.tenant,
        "key_id": session.key_id,
        "queues": list(session.queues),
        "version": session.version,
        "labels": Jsonb(dict(session.labels)),
        "replica": session.replica,
    }


async def open_session(tx: Transaction, session: NewSession) -> bool:
    """Makes the session; False when its id is taken."""
    return await tx.execute(_OPEN, **_values(session)) == 1


async def resume_session(tx: Transaction, session: NewSession) -> bool:
    """Takes up a session that has not ended; False when this tenant has none of that id."""
    return await tx.execute(_RESUME, **_values(session)) == 1


_HEARD = statement("""
    UPDATE sessions SET heard_at = clock_timestamp(), draining = %(draining)s
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(replica)s
        AND state = 'open'
""")


async def heard(
    tx: Transaction, *, tenant: str, session_id: str, replica: str, draining: bool
) -> bool:
    """Records a sign of life; False when the session ended or went to another replica."""
    return (
        await tx.execute(
            _HEARD, tenant=tenant, session_id=session_id, replica=replica, draining=draining
        )
        == 1
    )


_DETACH = statement("""
    UPDATE sessions SET state = 'detached'
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(replica)s
        AND state = 'open'
""")


async def detach(tx: Transaction, *, tenant: str, session_id: str, replica: str) -> None:
    """Records that the stream was lost; a session that went to another replica stays open."""
    await tx.execute(_DETACH, tenant=tenant, session_id=session_id, replica=replica)


_END = statement("""
    UPDATE sessions SET state = 'ended', ended_at = clock_timestamp()
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(replica)s
        AND state = 'open'
""")


async def end(tx: Transaction, *, tenant: str, session_id: str, replica: str) -> None:
    """Records that the worker closed its session."""
    await tx.execute(_END, tenant=tenant, session_id=session_id, replica=replica)
