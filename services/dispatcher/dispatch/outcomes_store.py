"""Statements under a fence: lock what is held, renew, end, record, and settle intents."""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import LeaseLost

from shared.database import Transaction, statement
from shared.schema.states import DispatchOutcome, Disposition, IntentStatus, LeaseState


@dataclass(frozen=True, kw_only=True)
class Fence:
    """What a worker sends to prove its right: (key, action, epoch, holder) and its intent."""

    key: str
    action: str
    epoch: int
    holder: str
    intent_id: int

    def lost(self) -> LeaseLost:
        """The refusal of a fence that no longer holds."""
        return LeaseLost(key=self.key, action=self.action, epoch=self.epoch)


@dataclass(frozen=True)
class Held:
    """A lease that the fence matched, locked until commit."""

    key: str
    action: str
    epoch: int
    holder: str
    intent_id: int
    generation: int
    attempts: int
    queue: str
    priority: int
    lease_ms: int

    def admits(self, fence: Fence) -> bool:
        """Whether this very fence holds it; another of the same key may stand in one list."""
        return (self.key, self.action, self.epoch, self.holder, self.intent_id) == (
            fence.key,
            fence.action,
            fence.epoch,
            fence.holder,
            fence.intent_id,
        )


_LOCK_HELD = statement("""
    SELECT l.key, l.action, l.epoch, l.holder, l.intent_id, l.generation, l.attempts, l.queue,
        l.priority, l.lease_ms
    FROM leases AS l
    JOIN unnest(
        %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(holders)s::text[],
        %(intent_ids)s::bigint[]
    ) AS claimed (key, action, epoch, holder, intent_id)
        USING (key, action, epoch, holder, intent_id)
    WHERE l.tenant = %(tenant)s AND l.state = 'running'
    ORDER BY l.key, l.action
    FOR UPDATE OF l
""")


async def lock_held(
    tx: Transaction, *, tenant: str, fences: Sequence[Fence]
) -> dict[tuple[str, str], Held]:
    """Locks the leases that these fences still hold, in order; a lost one is missing (L3).

    A statement of its own, first in every fenced transaction: what it returns is true until
    commit.
    """
    rows = await tx.all(
        _LOCK_HELD,
        Held,
        tenant=tenant,
        keys=[fence.key for fence in fences],
        actions=[fence.action for fence in fences],
        epochs=[fence.epoch for fence in fences],
        holders=[fence.holder for fence in fences],
        intent_ids=[fence.intent_id for fence in fences],
    )
    return {(row.key, row.action): row for row in rows}


_RENEW = statement("""
    UPDATE leases AS l SET renewed_at = clock_timestamp(),
        claimable_at = clock_timestamp() + l.lease_ms * interval '1 millisecond'
    FROM unnest(%(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[])
        AS r (key, action, epoch)
    WHERE l.tenant = %(tenant)s AND l.key = r.key AND l.action = r.action AND l.epoch = r.epoch
        AND l.state = 'running'
""")


async def renew(tx: Transaction, *, tenant: str, held: Sequence[Held]) -> int:
    """Moves `claimable_at` of locked leases; returns how many."""
    return await tx.execute(
        _RENEW,
        tenant=tenant,
        keys=[lease.key for lease in held],
        actions=[lease.action for lease in held],
        epochs=[lease.epoch for lease in held],
    )


@dataclass(frozen=True)
class StoredOutcome:
    """How a dispatch ended, as recorded."""

    key: str
    action: str
    epoch: int
    intent_id: int
    outcome: str
    outcome_sha256: bytes


_STORED = statement("""
    SELECT d.key, d.action, d.epoch, d.intent_id, d.outcome, d.outcome_sha256
    FROM dispatches AS d
    JOIN unnest(
        %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(holders)s::text[],
        %(intent_ids)s::bigint[]
    ) AS claimed (key, action, epoch, holder, intent_id)
        USING (key, action, epoch, holder, intent_id)
    WHERE d.tenant = %(tenant)s AND d.outcome <> 'displaced'
""")


async def stored_outcomes(
    tx: Transaction, *, tenant: str, fences: Sequence[Fence]
) -> dict[tuple[str, str, int], StoredOutcome]:
    """Outcomes that holders gave these very dispatches (Q8).

    One that still runs is missing, and one that was displaced: nobody said how it ended.
    """
    rows = await tx.all(
        _STORED,
        StoredOutcome,
        tenant=tenant,
        keys=[fence.key for fence in fences],
        actions=[fence.action for fence in fences],
        epochs=[fence.epoch for fence in fences],
        holders=[fence.holder for fence in fences],
        intent_ids=[fence.intent_id for fence in fences],
    )
    return {(row.key, row.action, row.epoch): row for row in rows}


@dataclass(frozen=True)
class RunStanding:
    """Whether a run's latest flush was final."""

    key: str
    action: str
    version: int
    final: bool


_RUNS = statement("""
    SELECT r.key, r.action, r.version, r.final
    FROM runs AS r
    JOIN unnest(%(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[])
        AS held (key, action, generation) USING (key, action, generation)
    WHERE r.tenant = %(tenant)s
""")


async def runs(
    tx: Transaction, *, tenant: str, held: Sequence[Held]
) -> dict[tuple[str, str], RunStanding]:
    """Latest checkpoint of each held lease's run; one that never flushed is missing."""
    rows = await tx.all(
        _RUNS,
        RunStanding,
        tenant=tenant,
        keys=[lease.key for lease in held],
        actions=[lease.action for lease in held],
        generations=[lease.generation for lease in held],
    )
    return {(row.key, row.action): row for row in rows}


_FAILED_DETERMINISTICALLY = statement("""
    SELECT DISTINCT intent_id FROM dispatches
    WHERE intent_id = ANY (%(intent_ids)s::bigint[]) AND tenant = %(tenant)s
        AND disposition = 'deterministic'
""")


async def failed_deterministically(
    tx: Transaction, *, tenant: str, intent_ids: Sequence[int]
) -> set[int]:
    """Which of these intents have failed deterministically before (Q5)."""
    return set(
        await tx.all(_FAILED_DETERMINISTICALLY, int, tenant=tenant, intent_ids=list(intent_ids))
    )


@dataclass(frozen=True)
class Doubt:
    """A publication of a lease's generation that is running or uncertain."""

    key: str
    action: str
    publication_id: int


_IN_DOUBT = statement("""
    SELECT p.key, p.action, min(p.publication_id) AS publication_id
    FROM publications AS p
    JOIN unnest(%(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[])
        AS held (key, action, generation) USING (key, action, generation)
    JOIN publication_attempts AS a ON a.publication_id = p.publication_id
        AND a.status IN ('running', 'uncertain')
    WHERE p.tenant = %(tenant)s
    GROUP BY p.key, p.action
""")


async def publications_in_doubt(
    tx: Transaction, *, tenant: str, held: Sequence[Held]
) -> dict[tuple[str, str], int]:
    """The publication each lease's work waits for, where there is one (P2)."""
    rows = await tx.all(
        _IN_DOUBT,
        Doubt,
        tenant=tenant,
        keys=[lease.key for lease in held],
        actions=[lease.action for lease in held],
        generations=[lease.generation for lease in held],
    )
    return {(row.key, row.action): row.publication_id for row in rows}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a running lease ends."""

    key: str
    action: str
    epoch: int
    state: LeaseState
    outcome: DispatchOutcome
    disposition: Disposition | None
    outcome_sha256: bytes
    reason: str


_RECORD = statement("""
    INSERT INTO dispatches (
        tenant, key, action, epoch, intent_id, generation, holder, attempt, granted_at, outcome,
        outcome_sha256, disposition, reason
    )
    SELECT l.tenant, l.key, l.action, l.epoch, l.intent_id, l.generation, l.holder, l.attempts,
        l.granted_at, e.outcome, e.outcome_sha256, e.disposition, e.reason
    FROM leases AS l
    JOIN unnest(
        %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(outcomes)s::text[],
        %(digests)s::bytea[], %(dispositions)s::text[], %(reasons)s::text[]
    ) AS e (key, action, epoch, outcome, outcome_sha256, disposition, reason)
        USING (key, action, epoch)
    WHERE l.tenant = %(tenant)s AND l.state = 'running'
""")


async def record_dispatches(tx: Transaction, *, tenant: str, ended: Sequence[Ended]) -> None:
    """Writes the history of dispatches from their locked leases, before the leases change."""
    await tx.execute(
        _RECORD,
        tenant=tenant,
        keys=[end.key for end in ended],
        actions=[end.action for end in ended],
        epochs=[end.epoch for end in ended],
        outcomes=[end.outcome.value for end in ended],
        digests=[end.outcome_sha256 for end in ended],
        dispositions=[end.disposition for end in ended],
        reasons=[end.reason for end in ended],
    )


_END_LEASES = statement("""
    UPDATE leases AS l SET state = e.state, settled_at = clock_timestamp()
    FROM unnest(
        %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(states)s::text[]
    ) AS e (key, action, epoch, state)
    WHERE l.tenant = %(tenant)s AND l.key = e.key AND l.action = e.action AND l.epoch = e.epoch
        AND l.state = 'running'
""")


async def end_leases(tx: Transaction, *, tenant: str, ended: Sequence[Ended]) -> int:
    """Ends running leases at exactly these epochs; returns how many."""
    return await tx.execute(
        _END_LEASES,
        tenant=tenant,
        keys=[end.key for end in ended],
        actions=[end.action for end in ended],
        epochs=[end.epoch for end in ended],
        states=[end.state.value for end in ended],
    )


@dataclass(frozen=True, kw_only=True)
class IntentEnd:
    """How an intent ends."""

    intent_id: int
    status: IntentStatus
    attempts: int | None
    settled_by: int | None
    reason: str
    result: bytes | None = None


_SETTLE_INTENTS = statement("""
    UPDATE intents AS i SET status = e.status, settled_at = clock_timestamp(),
        attempts = coalesce(e.attempts, i.attempts), settled_by = e.settled_by,
        reason = e.reason, result = e.result
    FROM unnest(
        %(intent_ids)s::bigint[], %(statuses)s::text[], %(attempts)s::int[],
        %(settled_by)s::bigint[], %(reasons)s::text[], %(results)s::bytea[]
    ) AS e (intent_id, status, attempts, settled_by, reason, result)
    WHERE i.intent_id = e.intent_id AND i.tenant = %(tenant)s AND i.status = 'open'
""")

_LOCK_INTENTS = statement("""
    SELECT intent_id FROM intents
    WHERE intent_id = ANY (%(intent_ids)s::bigint[]) AND tenant = %(tenant)s
    ORDER BY intent_id FOR UPDATE
""")


async def settle_intents(tx: Transaction, *, tenant: str, ends: Sequence[IntentEnd]) -> int:
    """Settles open intents, locked in order first; one that is settled already stays as it is."""
    intent_ids = [end.intent_id for end in ends]
    await tx.all(_LOCK_INTENTS, int, tenant=tenant, intent_ids=intent_ids)
    return await tx.execute(
        _SETTLE_INTENTS,
        tenant=tenant,
        intent_ids=intent_ids,
        statuses=[end.status.value for end in ends],
        attempts=[end.attempts for end in ends],
        settled_by=[end.settled_by for end in ends],
        reasons=[end.reason for end in ends],
        results=[end.result for end in ends],
    )


_RELEASE_WAITERS = statement("""
    WITH released AS (
        DELETE FROM waiting AS w
        USING unnest(%(keys)s::text[], %(actions)s::text[]) AS ended (key, action)
        WHERE w.tenant = %(tenant)s AND w.key = ended.key AND w.action = ended.action
            AND w.waits_on = 'lease'
        RETURNING w.queue, w.priority, w.tenant, w.intent_id, w.key, w.action, w.attempts
    )
    INSERT INTO ready (queue, priority, tenant, intent_id, key, action, attempts)
    SELECT queue, priority, tenant, intent_id, key, action, attempts FROM released
    ORDER BY intent_id
    RETURNING queue
""")


async def release_waiters(
    tx: Transaction, *, tenant: str, keys: Sequence[tuple[str, str]]
) -> list[str]:
    """Makes ready, newly numbered, what waited for these leases to end; returns their queues."""
    return await tx.all(
        _RELEASE_WAITERS,
        str,
        tenant=tenant,
        keys=[key for key, _ in keys],
        actions=[action for _, action in keys],
    )


_PAYLOAD = statement("""
    SELECT coalesce(i.payload, d.body)
    FROM intents AS i
    LEFT JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq AND d.tenant = i.tenant
    WHERE i.intent_id = %(intent_id)s AND i.tenant = %(tenant)s
""")


async def payload(tx: Transaction, *, tenant: str, intent_id: int) -> bytes | None:
    """The payload of an intent, whatever its size."""
    return await tx.one(_PAYLOAD, bytes, tenant=tenant, intent_id=intent_id)
