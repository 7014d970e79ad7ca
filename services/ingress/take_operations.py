"""One transaction that takes deliveries in: markers, change requests, intents, deliveries.

Each step is for all items at once, in the order of its keys, so that two transactions never wait
for each other crosswise: markers, change requests, merge groups, leases, intents (X7). All of it
commits or none (I2). What lost a race to another transaction is answered by reading its winner in a
later statement (I1, I13). Items of one list that meet each other get what they would get one after
the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.errors import DeliveryConflict

from services.ingress import deliveries_store
from services.ingress.deliveries_store import DeliveryWrite, FirstResult
from services.ingress.intake import (
    bodies_operations,
    change_requests_operations,
    intents_operations,
    markers_operations,
    redrive_operations,
    unwanted_operations,
)
from services.ingress.intake.intents_operations import Work
from services.ingress.intake.items import Fresh, Item, Target, Verdict
from services.ingress.intake.redrive_operations import Redriven
from services.ingress.merge_groups import operations as merge_groups_operations
from services.ingress.rules import IgnoredReason
from services.ingress.submissions import Match, Submission, SubmissionOutcome, Taken
from shared.database import Transaction
from shared.keys import Key
from shared.schema.states import DeliveryOutcome


@dataclass(frozen=True)
class TakenIn:
    """Outcomes in the items' order, and the queues that have new work."""

    outcomes: list[SubmissionOutcome]
    filled_queues: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class _Fate:
    """What became of a fresh delivery."""

    outcome: DeliveryOutcome
    matched: Match = Match.NONE
    reason: str = ""
    intent_ids: tuple[int, ...] = ()
    matched_delivery_id: str | None = None


async def take_in(tx: Transaction, items: Sequence[Item], ttl_seconds: int) -> TakenIn:
    """Takes deliveries in, each at most once. Keeps I1, I2, I4, I9, I12 to I14, X7."""
    parts = [await _take_part(tx, part, ttl_seconds) for part in bodies_operations.parts(items)]
    return TakenIn(
        [outcome for part in parts for outcome in part.outcomes],
        frozenset(queue for part in parts for queue in part.filled_queues),
    )


async def _take_part(tx: Transaction, items: Sequence[Item], ttl_seconds: int) -> TakenIn:
    marked = await markers_operations.mark(tx, items, ttl_seconds)
    same_body = await bodies_operations.first_deliveries(tx, marked.fresh, ttl_seconds)
    fresh = {n: each for n, each in marked.fresh.items() if n not in same_body}
    grouped = await merge_groups_operations.judge(
        tx, fresh, await change_requests_operations.judge(tx, fresh), ttl_seconds
    )
    judged = grouped.judged
    attempts = await unwanted_operations.end_leases(tx, judged.unwanted)
    attempts |= await merge_groups_operations.end_leases(tx, grouped.gone)
    works = await intents_operations.make(tx, fresh, judged.verdicts)
    await unwanted_operations.settle(tx, judged.unwanted, attempts)
    await merge_groups_operations.settle(tx, grouped.gone, attempts)
    bodies = await _first_results(
        tx,
        [_of(marked.fresh[n].item.submission, delivery_id) for n, delivery_id in same_body.items()],
    )
    fates = _fates(fresh, judged.verdicts, works)
    fates |= {n: _same_body(first) for n, first in zip(same_body, bodies.results, strict=True)}
    _store(tx, marked.fresh, judged.verdicts, fates)
    await bodies_operations.let_go(
        tx, [each.item for n, each in fresh.items() if n not in works or not works[n].made]
    )
    repeated = [n for n in range(len(items)) if n in marked.repeated]
    ids = await _first_results(tx, [items[n].submission for n in repeated])
    answers: dict[int, SubmissionOutcome] = {
        **{n: _told(each.item, fates[n]) for n, each in marked.fresh.items()},
        **dict(zip(repeated, ids.results, strict=True)),
        **{n: _conflict(items[n].submission) for n in marked.conflicting},
    }
    filled = {queue for work in works.values() for queue in work.filled_queues}
    return TakenIn(
        [answers[n] for n in range(len(items))],
        frozenset(filled) | bodies.filled_queues | ids.filled_queues,
    )


def _store(
    tx: Transaction,
    fresh: Mapping[int, Fresh],
    verdicts: Mapping[int, Verdict],
    fates: Mapping[int, _Fate],
) -> None:
    if fresh:
        nothing = Verdict()
        deliveries_store.insert_deliveries(
            tx,
            [_delivery(each, verdicts.get(n, nothing), fates[n]) for n, each in fresh.items()],
        )


def _fates(
    fresh: Mapping[int, Fresh], verdicts: Mapping[int, Verdict], works: Mapping[int, Work]
) -> dict[int, _Fate]:
    ids = {each.delivery_seq: each.item.submission.delivery_id for each in fresh.values()}
    return {n: _fate(verdicts[n], works.get(n), ids) for n in fresh}


def _fate(verdict: Verdict, work: Work | None, ids: Mapping[int, str]) -> _Fate:
    if work is None:
        reason = verdict.ignored or IgnoredReason.NO_ROUTE
        return _Fate(outcome=DeliveryOutcome.IGNORED, reason=reason)
    if work.made:
        return _Fate(outcome=DeliveryOutcome.ACCEPTED, intent_ids=work.intent_ids)
    return _Fate(
        outcome=DeliveryOutcome.DUPLICATE,
        matched=Match.KEY,
        intent_ids=work.intent_ids,
        matched_delivery_id=work.first.delivery_id or ids[work.first.delivery_seq],
    )


def _of(submission: Submission, delivery_id: str) -> Submission:
    """What another delivery of the same body was."""
    return replace(submission, delivery_id=delivery_id)


def _same_body(first: Taken) -> _Fate:
    """The result of the delivery that made work of the same body."""
    return _Fate(
        outcome=DeliveryOutcome.DUPLICATE,
        matched=Match.BODY,
        reason=first.reason,
        intent_ids=first.intent_ids,
        matched_delivery_id=first.first_delivery_id,
    )


def _delivery(fresh: Fresh, verdict: Verdict, fate: _Fate) -> DeliveryWrite:
    item, submission = fresh.item, fresh.item.submission
    about = item.reading.event or item.reading.asks
    key = _key(item, verdict)
    return DeliveryWrite(
        delivery_seq=fresh.delivery_seq,
        tenant=submission.endpoint.tenant,
        endpoint=submission.endpoint.name,
        delivery_id=submission.delivery_id,
        forge=submission.endpoint.forge,
        forge_instance=submission.endpoint.forge_instance,
        event=submission.event,
        event_action=item.reading.event_action,
        content_type=submission.content_type,
        body=submission.body,
        body_sha256=item.body_sha256,
        outcome=fate.outcome,
        reason=fate.reason,
        matched_delivery_id=fate.matched_delivery_id,
        intent_ids=fate.intent_ids,
        key=None if key is None else key.canonical(),
        key_label=None if key is None else key.label(item.about.repo_name),
        repo_id=None if about is None else about.repo_id,
        number=None if about is None else about.number,
        projection=item.reading.projection,
        traceparent=submission.traceparent,
    )


def _key(item: Item, verdict: Verdict) -> Key | None:
    """The key of what it tells of, or of the first work it asks for at a known head."""
    if (event := item.reading.event) is not None:
        told = Target(number=event.number, head_sha=event.head_sha, generation=0)
        return told.key(item, "")
    heads = [target for target in verdict.targets if target.head_sha is not None]
    return heads[0].key(item, "") if heads else None


def _told(item: Item, fate: _Fate) -> Taken:
    return Taken(
        outcome=fate.outcome,
        matched=fate.matched,
        first_delivery_id=fate.matched_delivery_id or item.submission.delivery_id,
        intent_ids=fate.intent_ids,
        reason=fate.reason,
    )


def _conflict(submission: Submission) -> DeliveryConflict:
    return DeliveryConflict(endpoint=submission.endpoint.name, delivery_id=submission.delivery_id)


@dataclass(frozen=True)
class _Firsts:
    results: list[Taken]
    filled_queues: frozenset[str]


async def _first_results(tx: Transaction, repeated: Sequence[Submission]) -> _Firsts:
    """The first results again, where the deliveries are kept still (I1).

    Nothing is written, but that work which is dead is tried again (I14).
    """
    if not repeated:
        return _Firsts([], frozenset())
    firsts = await deliveries_store.find_first_results(
        tx,
        [(each.endpoint.tenant, each.endpoint.name, each.delivery_id) for each in repeated],
    )
    redriven = await redrive_operations.redrive(
        tx,
        [
            (repeated[turn - 1].endpoint.tenant, intent_id)
            for turn, first in firsts.items()
            for intent_id in first.intent_ids
        ],
    )
    results = [
        _again(each, firsts.get(turn), redriven) for turn, each in enumerate(repeated, start=1)
    ]
    return _Firsts(results, redriven.filled_queues)


def _again(submission: Submission, first: FirstResult | None, redriven: Redriven) -> Taken:
    return Taken(
        outcome=DeliveryOutcome.DUPLICATE,
        matched=Match.DELIVERY_ID,
        first_delivery_id=submission.delivery_id if first is None else first.first_delivery_id,
        intent_ids=() if first is None else redriven.of(first.intent_ids),
        reason="" if first is None else first.reason,
    )
