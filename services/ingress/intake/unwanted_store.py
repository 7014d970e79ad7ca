"""Statements on work that is no longer wanted: leases end first, intents are settled last (X7).

What a person asked for, a manual command or a re-run, is not superseded by a newer head, nor is
work for a merge group, which has a commit of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.ingress.intake.places import Marks, columns
from shared.database import Transaction, statement
from shared.schema.states import IntentStatus, LeaseState

SUPERSEDED = "a newer head is current"
CLOSED = "the change request is closed"

# OFFSET 0: a plan can only go from each listed change request to its intents, and on from each.
_LOCK_RUNNING = statement("""
    SELECT l.tenant, l.key, l.action, l.epoch, l.intent_id, l.attempts, found.is_superseded
    FROM (
        SELECT i.tenant, held.key, held.action, i.intent_id, 'running' AS state,
            i.generation <= n.superseded_through
                AND i.suffix NOT LIKE 'manual-%%' AND i.suffix NOT LIKE 'rerun-%%'
                AND i.suffix <> 'merge-group' AS is_superseded
        FROM (
            SELECT *
            FROM unnest(
                %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
                %(numbers)s::bigint[], %(superseded_through)s::bigint[],
                %(abandoned_through)s::bigint[]
            ) AS listed (tenant, forge_instance, repo_id, number, superseded_through,
                abandoned_through)
            OFFSET 0
        ) AS n
        JOIN intents AS i USING (tenant, forge_instance, repo_id, number),
        LATERAL (
            SELECT key, action FROM leases
            WHERE leases.intent_id = i.intent_id AND leases.tenant = i.tenant
                AND leases.state = 'running'
            OFFSET 0
        ) AS held
        WHERE i.status = 'open' AND (
            i.generation <= n.abandoned_through OR (
                i.generation <= n.superseded_through
                AND i.suffix NOT LIKE 'manual-%%' AND i.suffix NOT LIKE 'rerun-%%'
                AND i.suffix <> 'merge-group'
            )
        )
        OFFSET 0
    ) AS found
    JOIN leases AS l USING (tenant, key, action, intent_id, state)
    ORDER BY l.tenant, l.key, l.action
    FOR UPDATE OF l
""")


@dataclass(frozen=True)
class Running:
    """Work of an unwanted generation whose lease is running, and locked."""

    tenant: str
    key: str
    action: str
    epoch: int
    intent_id: int
    attempts: int
    is_superseded: bool


async def lock_running(tx: Transaction, marks: Sequence[Marks]) -> list[Running]:
    """Locks the leases that must not go on, in the order of their keys."""
    return await tx.all(_LOCK_RUNNING, Running, **_marks(marks))


_END_LEASES = statement("""
    WITH ended AS (
        UPDATE leases AS l SET state = n.state, settled_at = clock_timestamp()
        FROM (
            SELECT 'running' AS state_before, listed.*
            FROM unnest(
                %(tenants)s::text[], %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[],
                %(states)s::text[], %(reasons)s::text[]
            ) AS listed (tenant, key, action, epoch, state, reason)
            OFFSET 0
        ) AS n
        WHERE l.tenant = n.tenant AND l.key = n.key AND l.action = n.action
            AND l.epoch = n.epoch AND l.state = n.state_before
        RETURNING l.tenant, l.key, l.action, l.epoch, l.intent_id, l.generation, l.holder,
            l.attempts, l.granted_at, n.reason
    )
    INSERT INTO dispatches (tenant, key, action, epoch, intent_id, generation, holder, attempt,
        granted_at, outcome, outcome_sha256, reason)
    SELECT tenant, key, action, epoch, intent_id, generation, holder, attempts, granted_at,
        'displaced', ''::bytea, reason
    FROM ended
""")


async def end_leases(
    tx: Transaction, running: Sequence[Running], *, abandoned_because: str = CLOSED
) -> int:
    """Ends locked leases and writes their history; returns how many. Their holders are fenced."""
    states = [
        LeaseState.SUPERSEDED if lease.is_superseded else LeaseState.ABANDONED for lease in running
    ]
    return await tx.execute(
        _END_LEASES,
        tenants=[lease.tenant for lease in running],
        keys=[lease.key for lease in running],
        actions=[lease.action for lease in running],
        epochs=[lease.epoch for lease in running],
        states=[state.value for state in states],
        reasons=[SUPERSEDED if lease.is_superseded else abandoned_because for lease in running],
    )


@dataclass(frozen=True)
class Open:
    """An unwanted intent that is not finished, and locked."""

    tenant: str
    intent_id: int
    is_superseded: bool


# What has no head yet is of no generation: it is unwanted while the change request is closed.
_LOCK_OPEN = statement("""
    SELECT i.tenant, i.intent_id,
        i.head_sha IS NOT NULL AND i.generation <= n.superseded_through
            AND i.suffix NOT LIKE 'manual-%%' AND i.suffix NOT LIKE 'rerun-%%'
            AND i.suffix <> 'merge-group' AS is_superseded
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(forge_instances)s::text[], %(repo_ids)s::bigint[],
            %(numbers)s::bigint[], %(superseded_through)s::bigint[], %(abandoned_through)s::bigint[]
        ) AS listed (tenant, forge_instance, repo_id, number, superseded_through,
            abandoned_through)
        OFFSET 0
    ) AS n
    JOIN intents AS i USING (tenant, forge_instance, repo_id, number)
    WHERE i.status = 'open' AND CASE
        WHEN i.head_sha IS NULL THEN n.abandoned_through > n.superseded_through
        WHEN i.generation <= n.abandoned_through THEN true
        ELSE i.generation <= n.superseded_through
            AND i.suffix NOT LIKE 'manual-%%' AND i.suffix NOT LIKE 'rerun-%%'
            AND i.suffix <> 'merge-group'
    END
    ORDER BY i.intent_id
    FOR UPDATE OF i
""")

_SETTLE = statement("""
    UPDATE intents AS i SET status = n.status, settled_at = clock_timestamp(), reason = n.reason,
        attempts = coalesce(
            n.attempts,
            (SELECT w.attempts FROM waiting AS w
             WHERE w.intent_id = i.intent_id AND w.tenant = i.tenant),
            (SELECT r.attempts FROM ready AS r
             WHERE r.intent_id = i.intent_id AND r.tenant = i.tenant),
            i.attempts
        )
    FROM (
        SELECT *
        FROM unnest(
            %(tenants)s::text[], %(intent_ids)s::bigint[], %(statuses)s::text[],
            %(attempts)s::int[], %(reasons)s::text[]
        ) AS listed (tenant, intent_id, status, attempts, reason)
        OFFSET 0
    ) AS n
    WHERE i.intent_id = n.intent_id AND i.tenant = n.tenant AND i.status = 'open'
""")


async def settle_open(tx: Transaction, marks: Sequence[Marks], attempts: dict[int, int]) -> None:
    """Settles open intents of unwanted generations, locked in order first.

    `attempts` are those that ended leases had charged. What still stands in ready or waiting is
    left there: the claim discards it (X7).
    """
    await settle(tx, await tx.all(_LOCK_OPEN, Open, **_marks(marks)), attempts)


async def settle(
    tx: Transaction,
    found: Sequence[Open],
    attempts: Mapping[int, int],
    *,
    abandoned_because: str = CLOSED,
) -> None:
    """Settles locked intents, with the attempts that ended leases had charged."""
    if not found:
        return
    statuses = [
        IntentStatus.SUPERSEDED if each.is_superseded else IntentStatus.ABANDONED for each in found
    ]
    await tx.execute(
        _SETTLE,
        tenants=[each.tenant for each in found],
        intent_ids=[each.intent_id for each in found],
        statuses=[status.value for status in statuses],
        attempts=[attempts.get(each.intent_id) for each in found],
        reasons=[SUPERSEDED if each.is_superseded else abandoned_because for each in found],
    )


def _marks(marks: Sequence[Marks]) -> dict[str, list[object]]:
    return {
        **columns(each.change_request for each in marks),
        "superseded_through": [each.superseded_through for each in marks],
        "abandoned_through": [each.abandoned_through for each in marks],
    }
