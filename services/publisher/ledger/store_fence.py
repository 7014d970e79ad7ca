"""What a claim reads and locks of others before it writes; every statement stands on its own.

Locks are taken in this order: change request, lease (X7). None means that nothing fitted the guard.
"""

from dataclasses import dataclass

from shared.database import Transaction, statement


@dataclass(frozen=True, kw_only=True)
class IntentRow:
    """What never changes in an intent; the parts of a key are None for a message without one."""

    key: str
    key_label: str
    action: str
    forge_instance: str | None
    repo_id: int | None
    number: int | None
    head_sha: str | None


_INTENT = statement("""
    SELECT key, key_label, action, forge_instance, repo_id, number, head_sha
    FROM intents
    WHERE tenant = %(tenant)s AND intent_id = %(intent_id)s
""")


async def find_intent(tx: Transaction, *, tenant: str, intent_id: int) -> IntentRow | None:
    """The tenant's intent."""
    return await tx.one(_INTENT, IntentRow, tenant=tenant, intent_id=intent_id)


@dataclass(frozen=True, kw_only=True)
class ChangeRequestRow:
    """Where a change request is found at its forge."""

    forge: str
    repo_name: str


_LOCK_CHANGE_REQUEST = statement("""
    SELECT forge, repo_name
    FROM change_requests
    WHERE tenant = %(tenant)s AND forge_instance = %(forge_instance)s
        AND repo_id = %(repo_id)s AND number = %(number)s
    FOR SHARE
""")


async def lock_change_request(
    tx: Transaction, *, tenant: str, forge_instance: str, repo_id: int, number: int
) -> ChangeRequestRow | None:
    """Keeps the change request as it is until the end of the transaction."""
    return await tx.one(
        _LOCK_CHANGE_REQUEST,
        ChangeRequestRow,
        tenant=tenant,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
    )


@dataclass(frozen=True, kw_only=True)
class LeaseRow:
    """A live lease of the caller."""

    generation: int
    intent_id: int


_LOCK_LEASE = statement("""
    SELECT generation, intent_id
    FROM leases
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
        AND holder = %(holder)s AND epoch = %(epoch)s AND state = 'running'
    FOR UPDATE
""")


async def lock_lease(
    tx: Transaction, *, tenant: str, key: str, action: str, holder: str, epoch: int
) -> LeaseRow | None:
    """The fence: locks the running lease of this holder at this epoch. None: it lost it (L3)."""
    return await tx.one(
        _LOCK_LEASE,
        LeaseRow,
        tenant=tenant,
        key=key,
        action=action,
        holder=holder,
        epoch=epoch,
    )


_AWAIT_LEASE = statement("""
    SELECT epoch
    FROM leases
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
    FOR UPDATE
""")


async def await_lease(tx: Transaction, *, tenant: str, key: str, action: str) -> int | None:
    """Returns when no earlier transaction holds the lease any more: its fate is then known (X6)."""
    return await tx.one(_AWAIT_LEASE, int, tenant=tenant, key=key, action=action)


_CHECKPOINT_VERSION = statement("""
    SELECT version
    FROM runs
    WHERE tenant = %(tenant)s AND key = %(key)s AND action = %(action)s
        AND generation = %(generation)s
""")


async def checkpoint_version(
    tx: Transaction, *, tenant: str, key: str, action: str, generation: int
) -> int | None:
    """The latest durable version of the run. None: nothing was flushed yet."""
    return await tx.one(
        _CHECKPOINT_VERSION, int, tenant=tenant, key=key, action=action, generation=generation
    )


@dataclass(frozen=True, kw_only=True)
class HoldRow:
    """A hold that stands, and why."""

    hold_id: int
    reason: str


_STANDING_HOLD = statement("""
    SELECT hold_id, reason
    FROM holds
    WHERE released_at IS NULL
        AND (tenant IS NULL OR tenant = %(tenant)s)
        AND (action IS NULL OR action = %(action)s)
        AND (repo_id IS NULL OR (forge_instance, repo_id) = (%(forge_instance)s, %(repo_id)s))
        AND (number IS NULL OR number = %(number)s)
    ORDER BY hold_id
    LIMIT 1
""")


async def standing_hold(
    tx: Transaction, *, tenant: str, action: str, forge_instance: str, repo_id: int, number: int
) -> HoldRow | None:
    """The oldest hold that stops publications of this action on this change request (P11)."""
    return await tx.one(
        _STANDING_HOLD,
        HoldRow,
        tenant=tenant,
        action=action,
        forge_instance=forge_instance,
        repo_id=repo_id,
        number=number,
    )
