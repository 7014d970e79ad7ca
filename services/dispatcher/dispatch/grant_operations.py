"""The grant, step by step, inside one transaction.

Ready rows are picked and deleted; the session is locked, so that whoever takes it up waits for
what is granted here; change requests, then merge groups are locked and compared; the leases that
exist are locked; one guarded statement takes them; why a picked row got none, and what a granted
one carries, are read in later statements; what will not run is settled last. An intent that needs a
row that stays locked is put back, and its neighbours are granted. Keeps L1, L2, L5, X7.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.errors import ResourceNotFound

from services.dispatcher.dispatch import (
    leases_store,
    merge_groups_store,
    outcomes_store,
    ready_store,
    sessions_store,
)
from services.dispatcher.dispatch.apart_operations import Way, apart
from services.dispatcher.dispatch.leases_store import Holder, LeaseRow, Wanted
from services.dispatcher.dispatch.outcomes_store import IntentEnd
from services.dispatcher.dispatch.pick_operations import pick
from services.dispatcher.dispatch.ready_store import IntentRow, Load, ReadyRow, Waiter
from services.dispatcher.dispatch.rules import (
    MERGE_GROUP,
    ChangeRequestMarks,
    PutBack,
    Settled,
    refusal,
    unwanted,
)
from services.dispatcher.dispatch.sessions_store import Granted, Stream
from services.dispatcher.settings import DispatcherSettings
from shared.database import Transaction
from shared.schema.states import IntentStatus, LeaseState

UNKNOWN_REASON_RETRY_MS = 100
STUCK = PutBack("time", "a row that it needs stayed locked")

KeyAction = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A session's stream with room for `limit` dispatches from these queues of its tenant."""

    stream: Stream
    queues: Sequence[str]
    limit: int


@dataclass(frozen=True, kw_only=True)
class Grant:
    """One intent with its granted lease; `attempt` counts this one, `lease_ms` is what is left."""

    intent: IntentRow
    load: Load
    queue: str
    key: str
    action: str
    epoch: int
    attempt: int
    lease_ms: int


@dataclass(frozen=True)
class Round:
    """What one transaction granted, and whether it found anything to grant at all."""

    grants: list[Grant]
    found_any: bool


async def grant(
    tx: Transaction, ask: Ask, grant_id: str, settings: DispatcherSettings, *, way: Way
) -> Round:
    """Leases to at most `ask.limit` runnable intents, in order.

    In parts, one that is stuck is put back without an attempt. Raises ResourceNotFound when the
    session ended or went to another stream.
    """
    picked = await pick(
        tx, tenant=ask.stream.tenant, queues=ask.queues, limit=ask.limit, lease_ms=settings.lease_ms
    )
    if not picked.rows:
        return Round([], found_any=False)
    await must_hold(tx, ask.stream)

    async def lease(rows: Sequence[ReadyRow]) -> list[Grant]:
        return await _lease(tx, ask.stream, rows, grant_id, picked.leases_ms, settings)

    async def put_back(row: ReadyRow) -> list[Grant]:
        waiter = _put_back(row, STUCK, settings)
        await ready_store.wait(tx, tenant=ask.stream.tenant, waiters=[waiter])
        return []

    return Round(await apart(tx, picked.rows, lease, put_back, way=way), found_any=True)


async def _lease(
    tx: Transaction,
    stream: Stream,
    picked: Sequence[ReadyRow],
    grant_id: str,
    leases_ms: Mapping[str, int],
    settings: DispatcherSettings,
) -> list[Grant]:
    """Grants what may run of these; the rest is put back or settled as what it is."""
    tenant = stream.tenant
    intents = await _open_intents(tx, tenant, [row.intent_id for row in picked])
    wanted, ends = await _still_wanted(tx, tenant, picked, intents)
    before = await _lock_leases(tx, tenant, wanted)
    granted = await _take(tx, stream, grant_id, wanted, intents, before, leases_ms)
    waiters, refused = await _judge(tx, tenant, wanted, intents, granted, settings)
    joined = await _record_takeovers(tx, tenant, wanted, before, granted)
    if waiters:
        await ready_store.wait(tx, tenant=tenant, waiters=waiters)
    if settled := [*ends, *refused, *joined]:
        await outcomes_store.settle_intents(tx, tenant=tenant, ends=settled)
    leased = [_leased(row, granted, leases_ms) for row in wanted if _key_action(row) in granted]
    return await _with_loads(tx, tenant, leased, intents, settings)


async def must_hold(tx: Transaction, stream: Stream) -> None:
    """Locks the session; raises ResourceNotFound when it ended or went to another stream."""
    if not await sessions_store.lock_session(tx, stream):
        raise ResourceNotFound(kind="session on this stream", name=stream.session_id)


async def found_again(
    tx: Transaction, stream: Stream, grant_id: str, settings: DispatcherSettings
) -> list[Grant]:
    """What a grant whose commit answer was lost did: its leases, or nothing (X6).

    The session's lock waits for the end of that transaction. Raises ResourceNotFound.
    """
    await must_hold(tx, stream)
    leases = await sessions_store.by_grant(
        tx, tenant=stream.tenant, session_id=stream.session_id, grant_id=grant_id
    )
    return await _taken_up(tx, stream.tenant, leases, settings)


async def held_by_session(
    tx: Transaction, stream: Stream, settings: DispatcherSettings
) -> list[Grant]:
    """What a session that is taken up again holds still; its row is locked by then."""
    leases = await sessions_store.by_session(tx, tenant=stream.tenant, session_id=stream.session_id)
    return await _taken_up(tx, stream.tenant, leases, settings)


async def _taken_up(
    tx: Transaction, tenant: str, leases: Sequence[Granted], settings: DispatcherSettings
) -> list[Grant]:
    if not leases:
        return []
    intents = await _open_intents(tx, tenant, [lease.intent_id for lease in leases])
    still_open = [lease for lease in leases if lease.intent_id in intents]
    return await _with_loads(tx, tenant, still_open, intents, settings)


def _leased(
    row: ReadyRow, granted: Mapping[KeyAction, int], leases_ms: Mapping[str, int]
) -> Granted:
    return Granted(
        intent_id=row.intent_id,
        queue=row.queue,
        key=row.key,
        action=row.action,
        epoch=granted[_key_action(row)],
        attempts=row.attempts + 1,
        lease_ms=leases_ms[row.queue],
    )


async def _with_loads(
    tx: Transaction,
    tenant: str,
    leases: Sequence[Granted],
    intents: Mapping[int, IntentRow],
    settings: DispatcherSettings,
) -> list[Grant]:
    if not leases:
        return []
    loads = {
        load.intent_id: load
        for load in await ready_store.loads(
            tx,
            tenant=tenant,
            intent_ids=[lease.intent_id for lease in leases],
            payload_limit_bytes=settings.payload_inline_limit_bytes,
            total_limit_bytes=settings.frame_bytes_max,
        )
    }
    return [
        Grant(
            intent=intents[lease.intent_id],
            load=loads[lease.intent_id],
            queue=lease.queue,
            key=lease.key,
            action=lease.action,
            epoch=lease.epoch,
            attempt=lease.attempts,
            lease_ms=lease.lease_ms,
        )
        for lease in leases
    ]


async def _open_intents(
    tx: Transaction, tenant: str, intent_ids: Sequence[int]
) -> dict[int, IntentRow]:
    rows = await ready_store.open_intents(tx, tenant=tenant, intent_ids=intent_ids)
    return {row.intent_id: row for row in rows}


async def _still_wanted(
    tx: Transaction, tenant: str, picked: Sequence[ReadyRow], intents: Mapping[int, IntentRow]
) -> tuple[list[ReadyRow], list[IntentEnd]]:
    """Splits what was picked; an intent that was settled while it waited is in neither part."""
    marks = await _lock_marks(tx, tenant, intents.values())
    grouped = [intent for intent in intents.values() if intent.suffix == MERGE_GROUP]
    gone = await merge_groups_store.lock_groups(tx, tenant=tenant, intents=grouped)
    wanted: list[ReadyRow] = []
    ends: list[IntentEnd] = []
    for row in picked:
        intent = intents.get(row.intent_id)
        if intent is None:
            continue
        found = marks.get(_change_request(intent))
        group_gone = row.intent_id in gone
        settled = unwanted(intent.generation, intent.suffix, found, group_gone=group_gone)
        if settled is None:
            wanted.append(row)
        else:
            ends.append(_end(row, settled, None))
    return wanted, ends


async def _lock_marks(
    tx: Transaction, tenant: str, intents: Iterable[IntentRow]
) -> dict[tuple[str, int, int] | None, ChangeRequestMarks]:
    named = [found for intent in intents if (found := _change_request(intent)) is not None]
    if not named:
        return {}
    rows = await ready_store.lock_change_requests(tx, tenant=tenant, change_requests=named)
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


def _key_action(row: ReadyRow) -> KeyAction:
    return row.key, row.action


async def _lock_leases(
    tx: Transaction, tenant: str, rows: Sequence[ReadyRow]
) -> dict[KeyAction, LeaseRow]:
    if not rows:
        return {}
    return await leases_store.lock_leases(
        tx, tenant=tenant, keys=[_key_action(row) for row in rows]
    )


async def _take(
    tx: Transaction,
    stream: Stream,
    grant_id: str,
    rows: Sequence[ReadyRow],
    intents: Mapping[int, IntentRow],
    before: Mapping[KeyAction, LeaseRow],
    leases_ms: Mapping[str, int],
) -> dict[KeyAction, int]:
    if not rows:
        return {}
    holder = Holder(
        tenant=stream.tenant,
        holder=stream.session_id,
        session_id=stream.session_id,
        grant_id=grant_id,
    )
    taken = await leases_store.take_leases(
        tx, holder, [_wanted(row, intents[row.intent_id], before, leases_ms) for row in rows]
    )
    return {(lease.key, lease.action): lease.epoch for lease in taken}


def _wanted(
    row: ReadyRow,
    intent: IntentRow,
    before: Mapping[KeyAction, LeaseRow],
    leases_ms: Mapping[str, int],
) -> Wanted:
    seen = before.get(_key_action(row))
    return Wanted(
        key=row.key,
        action=row.action,
        generation=intent.generation,
        epoch_seen=seen.epoch if seen else 0,
        intent_id=row.intent_id,
        queue=row.queue,
        priority=row.priority,
        attempts=row.attempts + 1,
        lease_ms=leases_ms[row.queue],
    )


async def _judge(
    tx: Transaction,
    tenant: str,
    rows: Sequence[ReadyRow],
    intents: Mapping[int, IntentRow],
    granted: Mapping[KeyAction, int],
    settings: DispatcherSettings,
) -> tuple[list[Waiter], list[IntentEnd]]:
    """Reads why the rest got no lease, in a later statement than the one that refused (L5)."""
    refused = [row for row in rows if _key_action(row) not in granted]
    leases = await _lock_leases(tx, tenant, refused)
    waiters: list[Waiter] = []
    ends: list[IntentEnd] = []
    for row in refused:
        lease = leases.get(_key_action(row))
        state, generation = (lease.state, lease.generation) if lease else (None, 0)
        match refusal(intents[row.intent_id].generation, state, generation):
            case PutBack() as back:
                waiters.append(_put_back(row, back, settings))
            case Settled() as settled:
                ends.append(_end(row, settled, lease.intent_id if lease else None))
    return waiters, ends


def _put_back(row: ReadyRow, back: PutBack, settings: DispatcherSettings) -> Waiter:
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


def _end(row: ReadyRow, settled: Settled, settled_by: int | None) -> IntentEnd:
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
    rows: Sequence[ReadyRow],
    before: Mapping[KeyAction, LeaseRow],
    granted: Mapping[KeyAction, int],
) -> list[IntentEnd]:
    """History of the displaced holders; their intents are settled as joined (L2)."""
    takers = {_key_action(row): row.intent_id for row in rows}
    displaced = [
        lease
        for key, lease in before.items()
        if key in granted and lease.state is LeaseState.RUNNING
    ]
    if displaced:
        await leases_store.record_displaced(
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
