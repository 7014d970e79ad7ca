"""The grant, step by step, inside one transaction.

Ready rows are picked and deleted; change requests are locked and compared; the leases that exist
are locked; one guarded statement takes them; why a picked row got none is read in a later
statement; what will not run is settled last. Keeps L1, L2, L5, X7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.dispatcher.dispatch import claims_store, outcomes_store
from services.dispatcher.dispatch.claims_store import (
    Granted,
    Holder,
    IntentRow,
    LeaseRow,
    Picked,
    Waiter,
    Wanted,
)
from services.dispatcher.dispatch.outcomes_store import IntentEnd
from services.dispatcher.dispatch.rules import (
    ChangeRequestMarks,
    PutBack,
    Settled,
    refusal,
    unwanted,
)
from services.dispatcher.settings import DispatcherSettings
from shared.database import Transaction
from shared.schema.states import IntentStatus, LeaseState

UNKNOWN_REASON_RETRY_MS = 100

KeyAction = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A holder with room for `limit` dispatches from these queues of its tenant."""

    tenant: str
    holder: str
    session_id: str | None
    queues: Sequence[str]
    limit: int


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One intent with its granted lease; `attempt` counts this one."""

    intent: IntentRow
    queue: str
    key: str
    action: str
    epoch: int
    attempt: int


async def grant(
    tx: Transaction, ask: Ask, grant_id: str, settings: DispatcherSettings
) -> list[Grant]:
    """Leases to at most `ask.limit` runnable intents, in order."""
    picked = await claims_store.pick(tx, tenant=ask.tenant, queues=ask.queues, limit=ask.limit)
    if not picked:
        return []
    intents = await open_intents(tx, [row.intent_id for row in picked], settings)
    wanted, ends = await _still_wanted(tx, ask.tenant, picked, intents)
    before = await _lock_leases(tx, ask.tenant, wanted)
    granted = await _take(tx, ask, grant_id, wanted, intents, before, settings)
    waiters, refused = await _judge(tx, ask.tenant, wanted, intents, granted, settings)
    joined = await _record_takeovers(tx, ask.tenant, wanted, before, granted)
    if waiters:
        await claims_store.wait(tx, tenant=ask.tenant, waiters=waiters)
    if settled := [*ends, *refused, *joined]:
        await outcomes_store.settle_intents(tx, tenant=ask.tenant, ends=settled)
    return [
        Grant(
            intent=intents[row.intent_id],
            queue=row.queue,
            key=row.key,
            action=row.action,
            epoch=granted[row.key, row.action],
            attempt=row.attempts + 1,
        )
        for row in wanted
        if (row.key, row.action) in granted
    ]


async def found_again(
    tx: Transaction, ask: Ask, grant_id: str, settings: DispatcherSettings
) -> list[Grant]:
    """What a grant whose commit answer was lost did: its leases, or nothing (X6)."""
    leases = await claims_store.by_grant(
        tx, tenant=ask.tenant, grant_id=grant_id, holder=ask.holder
    )
    return await _grants(tx, leases, settings)


async def held_by_session(
    tx: Transaction, *, tenant: str, session_id: str, settings: DispatcherSettings
) -> list[Grant]:
    """What a session that is taken up again holds still."""
    leases = await claims_store.by_session(tx, tenant=tenant, session_id=session_id)
    return await _grants(tx, leases, settings)


async def _grants(
    tx: Transaction, leases: Sequence[Granted], settings: DispatcherSettings
) -> list[Grant]:
    intents = await open_intents(tx, [lease.intent_id for lease in leases], settings)
    return [
        Grant(
            intent=intents[lease.intent_id],
            queue=lease.queue,
            key=lease.key,
            action=lease.action,
            epoch=lease.epoch,
            attempt=lease.attempts,
        )
        for lease in leases
        if lease.intent_id in intents
    ]


async def open_intents(
    tx: Transaction, intent_ids: Sequence[int], settings: DispatcherSettings
) -> dict[int, IntentRow]:
    """The open ones of these intents, by id."""
    rows = await claims_store.open_intents(
        tx, intent_ids=intent_ids, inline_limit_bytes=settings.payload_inline_limit_bytes
    )
    return {row.intent_id: row for row in rows}


async def _still_wanted(
    tx: Transaction, tenant: str, picked: Sequence[Picked], intents: dict[int, IntentRow]
) -> tuple[list[Picked], list[IntentEnd]]:
    """Splits what was picked; an intent that was settled while it waited is in neither part."""
    marks = await _lock_marks(tx, tenant, intents.values())
    wanted: list[Picked] = []
    ends: list[IntentEnd] = []
    for row in picked:
        intent = intents.get(row.intent_id)
        if intent is None:
            continue
        settled = unwanted(intent.generation, marks.get(_change_request(intent)))
        if settled is None:
            wanted.append(row)
        else:
            ends.append(_end(row, settled, None))
    return wanted, ends


async def _lock_marks(
    tx: Transaction, tenant: str, intents: Iterable[IntentRow]
) -> dict[tuple[str, int, int] | None, ChangeRequestMarks]:
    named = {found for intent in intents if (found := _change_request(intent)) is not None}
    if not named:
        return {}
    rows = await claims_store.lock_change_requests(tx, tenant=tenant, change_requests=sorted(named))
    return {
        (row.forge_instance, row.repo_id, row.number): ChangeRequestMarks(
            superseded_through=row.superseded_through, abandoned_through=row.abandoned_through
        )
        for row in rows
    }


def _change_request(intent: IntentRow) -> tuple[str, int, int] | None:
    if intent.forge_instance is None or intent.repo_id is None or intent.number is None:
        return None
    return intent.forge_instance, intent.repo_id, intent.number


async def _lock_leases(
    tx: Transaction, tenant: str, rows: Sequence[Picked]
) -> dict[KeyAction, LeaseRow]:
    if not rows:
        return {}
    return await claims_store.lock_leases(
        tx, tenant=tenant, keys=[(row.key, row.action) for row in rows]
    )


async def _take(
    tx: Transaction,
    ask: Ask,
    grant_id: str,
    rows: Sequence[Picked],
    intents: dict[int, IntentRow],
    before: dict[KeyAction, LeaseRow],
    settings: DispatcherSettings,
) -> dict[KeyAction, int]:
    if not rows:
        return {}
    holder = Holder(
        tenant=ask.tenant,
        holder=ask.holder,
        session_id=ask.session_id,
        grant_id=grant_id,
        lease_ms=settings.lease_ms,
    )
    taken = await claims_store.take_leases(
        tx, holder, [_wanted(row, intents[row.intent_id], before) for row in rows]
    )
    return {(lease.key, lease.action): lease.epoch for lease in taken}


def _wanted(row: Picked, intent: IntentRow, before: dict[KeyAction, LeaseRow]) -> Wanted:
    seen = before.get((row.key, row.action))
    return Wanted(
        key=row.key,
        action=row.action,
        generation=intent.generation,
        epoch_seen=seen.epoch if seen else 0,
        intent_id=row.intent_id,
        queue=row.queue,
        priority=row.priority,
        attempts=row.attempts + 1,
    )


async def _judge(
    tx: Transaction,
    tenant: str,
    rows: Sequence[Picked],
    intents: dict[int, IntentRow],
    granted: dict[KeyAction, int],
    settings: DispatcherSettings,
) -> tuple[list[Waiter], list[IntentEnd]]:
    """Reads why the rest got no lease, in a later statement than the one that refused (L5)."""
    refused = [row for row in rows if (row.key, row.action) not in granted]
    leases = await _lock_leases(tx, tenant, refused)
    waiters: list[Waiter] = []
    ends: list[IntentEnd] = []
    for row in refused:
        lease = leases.get((row.key, row.action))
        state, generation = (lease.state, lease.generation) if lease else (None, 0)
        match refusal(intents[row.intent_id].generation, state, generation):
            case PutBack() as back:
                waiters.append(_put_back(row, back, settings))
            case Settled() as settled:
                ends.append(_end(row, settled, lease.intent_id if lease else None))
    return waiters, ends


def _put_back(row: Picked, back: PutBack, settings: DispatcherSettings) -> Waiter:
    waits_for_holder = back.waits_on == "lease"
    return Waiter(
        intent_id=row.intent_id,
        queue=row.queue,
        priority=row.priority,
        key=row.key,
        action=row.action,
        attempts=row.attempts,
        waits_on=back.waits_on,
        delay_ms=settings.holder_wait_max_ms if waits_for_holder else UNKNOWN_REASON_RETRY_MS,
        reason=back.reason,
    )


def _end(row: Picked, settled: Settled, settled_by: int | None) -> IntentEnd:
    return IntentEnd(
        intent_id=row.intent_id,
        status=settled.status,
        attempts=row.attempts,
        settled_by=settled_by,
        reason=settled.reason,
    )


async def _record_takeovers(
    tx: Transaction,
    tenant: str,
    rows: Sequence[Picked],
    before: dict[KeyAction, LeaseRow],
    granted: dict[KeyAction, int],
) -> list[IntentEnd]:
    """History of the displaced holders; their intents are settled as joined (L2)."""
    takers = {(row.key, row.action): row.intent_id for row in rows}
    displaced = [
        lease
        for key, lease in before.items()
        if key in granted and lease.state is LeaseState.RUNNING
    ]
    if displaced:
        await claims_store.record_displaced(
            tx, tenant=tenant, leases=displaced, reason="taken over by another intent of the key"
        )
    return [
        IntentEnd(
            intent_id=lease.intent_id,
            status=IntentStatus.JOINED,
            attempts=lease.attempts,
            settled_by=takers[lease.key, lease.action],
            reason="another intent of its key took its lease over",
        )
        for lease in displaced
    ]
