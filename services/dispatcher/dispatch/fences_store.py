"""Statements of holders: lock what a fence holds, renew it, read its payload.

What is the same for all stands in the list of what is joined, and OFFSET 0 keeps it there: a plan
can only go from each listed row to its place in an index, whatever is known of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.errors import LeaseLost

from shared.database import Transaction, statement


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
    JOIN (
        SELECT %(tenant)s::text AS tenant, 'running' AS state, listed.*
        FROM unnest(
            %(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[], %(holders)s::text[],
            %(intent_ids)s::bigint[]
        ) AS listed (key, action, epoch, holder, intent_id)
        OFFSET 0
    ) AS claimed USING (tenant, key, action, epoch, holder, intent_id, state)
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
    FROM (
        SELECT %(tenant)s::text AS tenant, 'running' AS state, listed.*
        FROM unnest(%(keys)s::text[], %(actions)s::text[], %(epochs)s::bigint[])
            AS listed (key, action, epoch)
        OFFSET 0
    ) AS r
    WHERE l.tenant = r.tenant AND l.key = r.key AND l.action = r.action AND l.epoch = r.epoch
        AND l.state = r.state
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


_PAYLOAD = statement("""
    SELECT coalesce(i.payload, d.body)
    FROM intents AS i
    LEFT JOIN deliveries AS d ON d.delivery_seq = i.delivery_seq AND d.tenant = i.tenant
    WHERE i.intent_id = %(intent_id)s AND i.tenant = %(tenant)s
""")


async def payload(tx: Transaction, *, tenant: str, intent_id: int) -> bytes | None:
    """The payload of an intent, whatever its size."""
    return await tx.one(_PAYLOAD, bytes, tenant=tenant, intent_id=intent_id)
