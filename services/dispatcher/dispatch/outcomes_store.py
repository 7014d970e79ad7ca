"""Statements on outcomes: what is stored, what they rest on, what they end and who hears of it.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from services.dispatcher.dispatch.fences_store import Fence, Held
from shared.database import Transaction, statement
from shared.schema.states import DispatchOutcome, Disposition, IntentStatus, LeaseState


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
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(
            %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(holders)s::text[],
            %(intent_ids)s::bigint[]
        ) AS listed (key, action, epoch, holder, intent_id)
        OFFSET 0
    ) AS claimed USING (tenant, key, action, epoch, holder, intent_id)
    WHERE d.outcome <> 'displaced'
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
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[])
            AS listed (key, action, generation)
        OFFSET 0
    ) AS held USING (tenant, key, action, generation)
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
    SELECT DISTINCT d.intent_id
    FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id), LATERAL (
        SELECT intent_id, tenant FROM dispatches
        WHERE intent_id = listed.intent_id AND disposition = 'deterministic'
        OFFSET 0
    ) AS d
    WHERE d.tenant = %(tenant)s
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
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(keys)s::text[], %(actions)s::text[], %(generations)s::bigint[])
            AS listed (key, action, generation)
        OFFSET 0
    ) AS held USING (tenant, key, action, generation)
    JOIN LATERAL (
        SELECT tenant FROM publication_attempts
        WHERE publication_id = p.publication_id AND status IN ('running', 'uncertain')
        OFFSET 0
    ) AS a ON a.tenant = p.tenant
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
    JOIN (
        SELECT %(tenant)s::text AS tenant, 'running' AS state, listed.*
        FROM unnest(
            %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(outcomes)s::text[],
            %(digests)s::bytea[], %(dispositions)s::text[], %(reasons)s::text[]
        ) AS listed (key, action, epoch, outcome, outcome_sha256, disposition, reason)
        OFFSET 0
    ) AS e USING (tenant, key, action, epoch, state)
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
    FROM (
        SELECT %(tenant)s::text AS tenant, 'running' AS state_before, listed.*
        FROM unnest(
            %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(states)s::text[]
        ) AS listed (key, action, epoch, state)
        OFFSET 0
    ) AS e
    WHERE l.tenant = e.tenant AND l.key = e.key AND l.action = e.action AND l.epoch = e.epoch
        AND l.state = e.state_before
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
    FROM (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(
            %(intent_ids)s::bigint[], %(statuses)s::text[], %(attempts)s::int[],
            %(settled_by)s::bigint[], %(reasons)s::text[], %(results)s::bytea[]
        ) AS listed (intent_id, status, attempts, settled_by, reason, result)
        OFFSET 0
    ) AS e
    WHERE i.intent_id = e.intent_id AND i.tenant = e.tenant AND i.status = 'open'
""")

_BURY = statement("""
    INSERT INTO dead_letters (
        intent_id, tenant, queue, key, key_label, action, generation, attempts, reason
    )
    SELECT i.intent_id, i.tenant, i.queue, i.key, i.key_label, i.action, i.generation, i.attempts,
        i.reason
    FROM intents AS i
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS ended USING (intent_id, tenant)
    WHERE i.status = 'dead'
    ON CONFLICT (intent_id) DO NOTHING
""")

_LOCK_INTENTS = statement("""
    SELECT i.intent_id
    FROM intents AS i
    JOIN (
        SELECT %(tenant)s::text AS tenant, listed.*
        FROM unnest(%(intent_ids)s::bigint[]) AS listed (intent_id)
        OFFSET 0
    ) AS ended USING (intent_id, tenant)
    ORDER BY i.intent_id
    FOR UPDATE OF i
""")


async def settle_intents(tx: Transaction, *, tenant: str, ends: Sequence[IntentEnd]) -> int:
    """Settles open intents, locked in order first; one that is settled already stays as it is.

    Each that dies leaves its dead letter (Q6).
    """
    intent_ids = [end.intent_id for end in ends]
    await tx.all(_LOCK_INTENTS, int, tenant=tenant, intent_ids=intent_ids)
    settled = await tx.execute(
        _SETTLE_INTENTS,
        tenant=tenant,
        intent_ids=intent_ids,
        statuses=[end.status.value for end in ends],
        attempts=[end.attempts for end in ends],
        settled_by=[end.settled_by for end in ends],
        reasons=[end.reason for end in ends],
        results=[end.result for end in ends],
    )
    if dead := [end.intent_id for end in ends if end.status is IntentStatus.DEAD]:
        await tx.execute(_BURY, tenant=tenant, intent_ids=dead)
    return settled


_RELEASE_WAITERS = statement("""
    WITH released AS (
        DELETE FROM waiting AS w
        USING (
            SELECT found.intent_id, found.waits_on
            FROM unnest(%(keys)s::text[], %(actions)s::text[]) AS listed (key, action), LATERAL (
                SELECT intent_id, waits_on FROM waiting
                WHERE tenant = %(tenant)s AND key = listed.key AND action = listed.action
                    AND waits_on = 'lease'
                OFFSET 0
            ) AS found
            OFFSET 0
        ) AS ended
        WHERE w.intent_id = ended.intent_id AND w.waits_on = ended.waits_on
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
