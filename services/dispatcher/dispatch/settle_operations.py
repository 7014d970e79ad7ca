"""Outcomes, step by step, inside one transaction.

The fence locks what is still held; outcomes stored for these very dispatches are read in a later
statement and win over the fence (Q8); what follows is decided by rules; leases end, history is
written, retries wait, waiters are released, intents are settled last. Keeps L3, C4, X7.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fencepost.errors import (
    CheckpointRequired,
    FencepostError,
    OutcomeConflict,
)

from services.dispatcher.checkpoints.spans_store import WorkerSpan, store_spans
from services.dispatcher.dispatch import fences_store, outcomes_store, ready_store
from services.dispatcher.dispatch.apart_operations import Way, apart
from services.dispatcher.dispatch.fences_store import Fence, Held
from services.dispatcher.dispatch.outcomes_store import (
    Ended,
    IntentEnd,
    RunStanding,
    StoredOutcome,
)
from services.dispatcher.dispatch.ready_store import ReadyRow, Waiter
from services.dispatcher.dispatch.rules import (
    Bury,
    Failure,
    Park,
    Retry,
    after_failure,
    success_is_durable,
)
from services.dispatcher.queues.policy_operations import QueueRules, rules_of
from services.dispatcher.settings import DispatcherSettings
from shared.database import RowLocked, Transaction
from shared.schema.states import (
    DispatchOutcome,
    Disposition,
    IntentStatus,
    LeaseState,
    WaitsOn,
)


@dataclass(frozen=True, kw_only=True)
class Completed:
    """The work is done; `checkpoint_version` names the final flush, 0 when there was none."""

    checkpoint_version: int
    result: bytes


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The work failed; `retry_after_ms` None leaves the delay to the queue."""

    disposition: Disposition
    reason: str
    retry_after_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Released:
    """The work is given back."""

    delay_ms: int
    reason: str


Outcome = Completed | Failed | Released


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """One dispatch's outcome, with the digest that tells a repeat from another outcome."""

    fence: Fence
    outcome: Outcome
    outcome_sha256: bytes
    spans: Sequence[WorkerSpan] = ()


@dataclass(frozen=True)
class SettleAnswer:
    """An outcome stands, newly or from before; or why it was refused."""

    refusal: FencepostError | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Settled:
    """The answers in the order given, and the queues that got work."""

    answers: list[SettleAnswer]
    filled_queues: frozenset[str]


@dataclass
class _Effects:
    """What the accepted outcomes do, gathered so that each table is touched by one statement."""

    ended: list[Ended] = field(default_factory=list)
    waiters: list[Waiter] = field(default_factory=list)
    ready: list[ReadyRow] = field(default_factory=list)
    intents: list[IntentEnd] = field(default_factory=list)
    spans: dict[str, list[WorkerSpan]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What the database said of the dispatches at hand."""

    held: dict[tuple[str, str], Held]
    stored: dict[tuple[str, str, int], StoredOutcome]
    runs: dict[tuple[str, str], RunStanding]
    failed_before: set[int]
    in_doubt: dict[tuple[str, str], int]
    queues: QueueRules


async def settle(
    tx: Transaction,
    tenant: str,
    settlements: Sequence[Settlement],
    settings: DispatcherSettings,
    *,
    way: Way,
) -> Settled:
    """Records outcomes and what follows from them; a refused one changes nothing.

    In parts, one that is stuck is refused alone, to be sent again.
    """
    filled: set[str] = set()

    async def record(items: Sequence[Settlement]) -> list[SettleAnswer]:
        settled = await _record(tx, tenant, items, settings)
        filled.update(settled.filled_queues)
        return settled.answers

    async def refuse(_: Settlement) -> list[SettleAnswer]:
        return [SettleAnswer(RowLocked())]

    answers = await apart(tx, settlements, record, refuse, way=way)
    return Settled(answers, frozenset(filled))


async def _record(
    tx: Transaction, tenant: str, settlements: Sequence[Settlement], settings: DispatcherSettings
) -> Settled:
    known = await _learn(tx, tenant, settlements, settings)
    effects = _Effects()
    answered: dict[tuple[str, str, int], bytes] = {}
    answers = [_judge(item, known, answered, effects, settings) for item in settlements]
    return Settled(answers, frozenset(await _apply(tx, tenant, effects)))


async def _learn(
    tx: Transaction, tenant: str, settlements: Sequence[Settlement], settings: DispatcherSettings
) -> _Known:
    fences = [item.fence for item in settlements]
    held = await fences_store.lock_held(tx, tenant=tenant, fences=fences)
    stored = await outcomes_store.stored_outcomes(tx, tenant=tenant, fences=fences)
    completed = [item for item in settlements if isinstance(item.outcome, Completed)]
    failed = [item for item in settlements if isinstance(item.outcome, Failed)]
    return _Known(
        held=held,
        stored=stored,
        runs=await outcomes_store.runs(tx, tenant=tenant, held=_held_of(completed, held))
        if completed
        else {},
        failed_before=await outcomes_store.failed_deterministically(
            tx, tenant=tenant, intent_ids=[item.fence.intent_id for item in failed]
        )
        if failed
        else set(),
        in_doubt=await outcomes_store.publications_in_doubt(
            tx, tenant=tenant, held=_held_of(failed, held)
        )
        if failed
        else {},
        queues=await rules_of(
            tx,
            tenant=tenant,
            queues=[lease.queue for lease in _held_of(failed, held)],
            settings=settings,
        )
        if failed
        else QueueRules({}, settings),
    )


def _held_of(settlements: Sequence[Settlement], held: dict[tuple[str, str], Held]) -> list[Held]:
    return [
        held[item.fence.key, item.fence.action]
        for item in settlements
        if (item.fence.key, item.fence.action) in held
    ]


def _judge(
    item: Settlement,
    known: _Known,
    answered: dict[tuple[str, str, int], bytes],
    effects: _Effects,
    settings: DispatcherSettings,
) -> SettleAnswer:
    fence = item.fence
    dispatch = (fence.key, fence.action, fence.epoch)
    if (stored := known.stored.get(dispatch)) is not None:
        return _against_stored(item, stored.outcome_sha256, stored.outcome)
    if dispatch in answered:
        return _against_stored(item, answered[dispatch], "another outcome of the same frame")
    held = known.held.get((fence.key, fence.action))
    if held is None or not held.admits(fence):
        return SettleAnswer(fence.lost())
    refusal = _refused_success(item.outcome, known.runs.get((fence.key, fence.action)))
    if refusal is not None:
        return SettleAnswer(refusal)
    answered[dispatch] = item.outcome_sha256
    effects.spans.setdefault(fence.holder, []).extend(item.spans)
    _follow(item, held, known, effects, settings)
    return SettleAnswer()


def _against_stored(item: Settlement, digest: bytes, outcome: str) -> SettleAnswer:
    if digest == item.outcome_sha256:
        return SettleAnswer(repeated=True)
    return SettleAnswer(OutcomeConflict(intent_id=item.fence.intent_id, stored=outcome))


def _refused_success(outcome: Outcome, run: RunStanding | None) -> FencepostError | None:
    if not isinstance(outcome, Completed):
        return None
    if success_is_durable(
        claimed_version=outcome.checkpoint_version,
        latest_version=run.version if run else None,
        latest_is_final=run.final if run else False,
    ):
        return None
    return CheckpointRequired(
        wanted_version=outcome.checkpoint_version, latest_version=run.version if run else 0
    )


def _follow(
    item: Settlement, held: Held, known: _Known, effects: _Effects, settings: DispatcherSettings
) -> None:
    match item.outcome:
        case Completed(result=result):
            effects.ended.append(_ended(item, held, LeaseState.SUCCEEDED))
            effects.intents.append(_settled(held, IntentStatus.SUCCEEDED, "", result))
        case Released(delay_ms=delay_ms, reason=reason):
            effects.ended.append(_ended(item, held, LeaseState.FREE))
            _try_again(effects, held, held.attempts - 1, delay_ms, reason)
        case Failed() as failed:
            _follow_failure(item, failed, held, known, effects, settings)


def _follow_failure(
    item: Settlement,
    failed: Failed,
    held: Held,
    known: _Known,
    effects: _Effects,
    settings: DispatcherSettings,
) -> None:
    failure = Failure(
        disposition=failed.disposition,
        attempts=held.attempts,
        deterministic_before=held.intent_id in known.failed_before,
        retry_after_ms=failed.retry_after_ms,
    )
    match after_failure(
        failure,
        allowed=known.queues.allowed(held.queue),
        delay_ms=known.queues.delay_ms(held.queue, attempts=held.attempts),
        recheck_ms=settings.blocked_recheck_ms,
    ):
        case Bury(reason=why):
            effects.ended.append(_ended(item, held, LeaseState.DEAD))
            reason = f"{failed.reason.rstrip('. ')} ({why})"
            effects.intents.append(_settled(held, IntentStatus.DEAD, reason, None))
        case Retry(delay_ms=delay_ms, attempts=attempts):
            effects.ended.append(_ended(item, held, LeaseState.FREE))
            _try_again(effects, held, attempts, delay_ms, failed.reason)
        case Park(delay_ms=delay_ms, attempts=attempts):
            effects.ended.append(_ended(item, held, LeaseState.FREE))
            publication_id = known.in_doubt.get((held.key, held.action))
            effects.waiters.append(_waiter(held, attempts, delay_ms, failed.reason, publication_id))


def _try_again(effects: _Effects, held: Held, attempts: int, delay_ms: int, reason: str) -> None:
    """Sets the intent aside for so long; it is ready again where there is nothing to wait for."""
    if delay_ms > 0:
        effects.waiters.append(_waiter(held, attempts, delay_ms, reason))
        return
    effects.ready.append(
        ReadyRow(
            intent_id=held.intent_id,
            queue=held.queue,
            priority=held.priority,
            key=held.key,
            action=held.action,
            attempts=attempts,
        )
    )


def _ended(item: Settlement, held: Held, state: LeaseState) -> Ended:
    outcome, disposition, reason = _recorded(item.outcome)
    return Ended(
        key=held.key,
        action=held.action,
        epoch=held.epoch,
        state=state,
        outcome=outcome,
        disposition=disposition,
        outcome_sha256=item.outcome_sha256,
        reason=reason,
    )


def _recorded(outcome: Outcome) -> tuple[DispatchOutcome, Disposition | None, str]:
    match outcome:
        case Completed():
            return DispatchOutcome.COMPLETED, None, ""
        case Failed(disposition=disposition, reason=reason):
            return DispatchOutcome.FAILED, disposition, reason
        case Released(reason=reason):
            return DispatchOutcome.RELEASED, None, reason


def _waiter(
    held: Held, attempts: int, delay_ms: int, reason: str, publication_id: int | None = None
) -> Waiter:
    waits_on = WaitsOn.TIME if publication_id is None else WaitsOn.PUBLICATION
    return Waiter(
        intent_id=held.intent_id,
        queue=held.queue,
        priority=held.priority,
        key=held.key,
        action=held.action,
        attempts=attempts,
        waits_on=waits_on,
        delay_ms=delay_ms,
        reason=reason,
        publication_id=publication_id,
    )


def _settled(held: Held, status: IntentStatus, reason: str, result: bytes | None) -> IntentEnd:
    return IntentEnd(
        intent_id=held.intent_id,
        status=status,
        attempts=held.attempts,
        settled_by=None,
        reason=reason,
        result=result,
    )


async def _apply(tx: Transaction, tenant: str, effects: _Effects) -> list[str]:
    """Writes it all; returns the queues of intents that became ready."""
    if not effects.ended:
        return []
    await outcomes_store.record_dispatches(tx, tenant=tenant, ended=effects.ended)
    await outcomes_store.end_leases(tx, tenant=tenant, ended=effects.ended)
    filled = await outcomes_store.release_waiters(
        tx, tenant=tenant, keys=[(end.key, end.action) for end in effects.ended]
    )
    if effects.waiters:
        await ready_store.wait(tx, tenant=tenant, waiters=effects.waiters)
    if effects.ready:
        await ready_store.line_up(tx, tenant=tenant, rows=effects.ready)
    for holder, spans in effects.spans.items():
        await store_spans(tx, tenant=tenant, holder=holder, spans=spans)
    if effects.intents:
        await outcomes_store.settle_intents(tx, tenant=tenant, ends=effects.intents)
    return [*filled, *(row.queue for row in effects.ready)]
