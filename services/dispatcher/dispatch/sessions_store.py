"""Statements on worker sessions and on the leases that they hold.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """What a worker says of itself in Hello, and where it said it.

    `place` names the replica and the one stream there: who took a session up on another stream,
    of the same replica too, leaves nothing to the stream before.
    """

    session_id: str
    tenant: str
    key_id: str
    queues: Sequence[str]
    version: str
    labels: Mapping[str, str]
    place: str


_OPEN = statement("""
    INSERT INTO sessions AS s (
        session_id, tenant, key_id, queues, version, labels, replica, state
    )
    VALUES (%(session_id)s, %(tenant)s, %(key_id)s, %(queues)s::text[], %(version)s, %(labels)s,
        %(place)s, 'open')
    ON CONFLICT (session_id) DO UPDATE SET state = 'open', replica = excluded.replica,
        queues = excluded.queues, version = excluded.version, labels = excluded.labels,
        draining = false, heard_at = clock_timestamp()
    WHERE s.tenant = excluded.tenant AND s.key_id = excluded.key_id AND s.state <> 'ended'
""")

_RESUME = statement("""
    UPDATE sessions SET state = 'open', replica = %(place)s, queues = %(queues)s::text[],
        version = %(version)s, labels = %(labels)s, draining = false,
        heard_at = clock_timestamp()
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND state <> 'ended'
""")


async def open_session(tx: Transaction, session: NewSession) -> bool:
    """Makes the session; False when its id is taken.

    The same key's open session of that id is this very one: its Welcome was lost (X6).
    """
    return await tx.execute(_OPEN, **_said(session), key_id=session.key_id) == 1


async def resume_session(tx: Transaction, session: NewSession) -> bool:
    """Takes up a session that has not ended; False when this tenant has none of that id."""
    return await tx.execute(_RESUME, **_said(session)) == 1


def _said(session: NewSession) -> dict[str, object]:
    return {
        "session_id": session.session_id,
        "tenant": session.tenant,
        "queues": list(session.queues),
        "version": session.version,
        "labels": Jsonb(dict(session.labels)),
        "place": session.place,
    }


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The one stream of a session that may act for it."""

    tenant: str
    session_id: str
    place: str


_LOCK = statement("""
    SELECT session_id FROM sessions
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(place)s
        AND state = 'open'
    FOR UPDATE
""")

_HEARD = statement("""
    UPDATE sessions SET heard_at = clock_timestamp(), draining = %(draining)s
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(place)s
        AND state = 'open'
""")

_DETACH = statement("""
    UPDATE sessions SET state = 'detached'
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(place)s
        AND state = 'open'
""")

_END = statement("""
    UPDATE sessions SET state = 'ended', ended_at = clock_timestamp()
    WHERE session_id = %(session_id)s AND tenant = %(tenant)s AND replica = %(place)s
        AND state = 'open'
""")


async def lock_session(tx: Transaction, stream: Stream) -> bool:
    """Locks the session until commit; False when it ended or went to another stream.

    Whoever takes it up waits here for the grants under way, and then sees them.
    """
    return await tx.one(_LOCK, str, **vars(stream)) is not None


async def heard(tx: Transaction, stream: Stream, *, draining: bool) -> bool:
    """Records a sign of life; False when the session ended or went to another stream."""
    return await tx.execute(_HEARD, **vars(stream), draining=draining) == 1


async def detach(tx: Transaction, stream: Stream) -> bool:
    """Records that the stream was lost; a session that went to another stream stays open."""
    return await tx.execute(_DETACH, **vars(stream)) == 1


async def end(tx: Transaction, stream: Stream) -> bool:
    """Records that the worker closed its session on this stream."""
    return await tx.execute(_END, **vars(stream)) == 1


@dataclass(frozen=True)
class Granted:
    """A running lease, found again by its grant or its session; `lease_ms` is the time left."""

    intent_id: int
    queue: str
    key: str
    action: str
    epoch: int
    attempts: int
    lease_ms: int


_BY_GRANT = statement("""
    SELECT intent_id, queue, key, action, epoch, attempts,
        greatest(0, 1000 * extract(epoch FROM claimable_at - clock_timestamp()))::bigint AS lease_ms
    FROM leases
    WHERE tenant = %(tenant)s AND grant_id = %(grant_id)s AND session_id = %(session_id)s
        AND state = 'running'
    ORDER BY intent_id
""")

_BY_SESSION = statement("""
    SELECT intent_id, queue, key, action, epoch, attempts,
        greatest(0, 1000 * extract(epoch FROM claimable_at - clock_timestamp()))::bigint AS lease_ms
    FROM leases
    WHERE tenant = %(tenant)s AND session_id = %(session_id)s AND state = 'running'
    ORDER BY intent_id
""")


async def by_grant(
    tx: Transaction, *, tenant: str, session_id: str, grant_id: str
) -> list[Granted]:
    """Leases of a grant whose commit answer was lost; none when it never happened (X6)."""
    return await tx.all(_BY_GRANT, Granted, tenant=tenant, session_id=session_id, grant_id=grant_id)


async def by_session(tx: Transaction, *, tenant: str, session_id: str) -> list[Granted]:
    """Leases that a session holds."""
    return await tx.all(_BY_SESSION, Granted, tenant=tenant, session_id=session_id)


_SHORTEN = statement("""
    UPDATE leases AS l SET claimable_at = least(
        l.claimable_at, clock_timestamp() + %(grace_ms)s * interval '1 millisecond'
    )
    FROM (
        SELECT %(tenant)s::text AS tenant, %(session_id)s::text AS session_id,
            'running' AS state, listed.*
        FROM unnest(%(keys)s::text[], %(actions)s::text[]) AS listed (key, action)
        OFFSET 0
    ) AS h
    WHERE l.tenant = h.tenant AND l.key = h.key AND l.action = h.action
        AND l.session_id = h.session_id AND l.state = h.state
""")


async def shorten_leases(
    tx: Transaction,
    *,
    tenant: str,
    session_id: str,
    keys: Sequence[tuple[str, str]],
    grace_ms: int,
) -> int:
    """Leaves a grace to these leases, locked by now, where the session holds them still."""
    return await tx.execute(
        _SHORTEN,
        tenant=tenant,
        session_id=session_id,
        keys=[key for key, _ in keys],
        actions=[action for _, action in keys],
        grace_ms=grace_ms,
    )
