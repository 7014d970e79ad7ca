"""One transaction that takes deliveries in: markers, change requests, intents, deliveries.

Each step is for all items at once, in the order of its keys, so that two transactions never wait
for each other crosswise: markers, change requests, leases, intents (X7). All of it commits or none
(I2). What lost a race to another transaction is answered by reading its winner in a later
statement (I1, I13). Items of one list that meet each other get what they would get one after the
other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.errors import DeliveryConflict

from services.ingress import deliveries_store
from services.ingress.deliveries_store import DeliveryWrite, FirstResult
from services.ingress.intake import (
    change_requests_operations,
    intents_operations,
    markers_operations,
    unwanted_operations,
)
from services.ingress.intake.intents_operations import Work
from services.ingress.intake.items import Fresh, Item, Target, Verdict
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
    reason: str = ""
    intent_ids: tuple[int, ...] = ()
    matched_delivery_id: str | None = None


async def take_in(tx: Transaction, items: Sequence[Item], ttl_seconds: int) -> TakenIn:
    """Takes deliveries in, each at most once. Keeps I1, I2, I4, I9, I13, X7."""
    marks = await markers_operations.mark(tx, items, ttl_seconds)
    fresh = marks.fresh
    judged = await change_requests_operations.judge(tx, fresh)
    attempts = await unwanted_operations.end_leases(tx, judged.unwanted)
    works = await intents_operations.make(tx, fresh, judged.verdicts)
    await unwanted_operations.settle(tx, judged.unwanted, attempts)
    fates = _fates(fresh, judged.verdicts, works)
    if fresh:
        await deliveries_store.insert_deliveries(
            tx, [_delivery(each, judged.verdicts[n], fates[n]) for n, each in fresh.items()]
        )
    repeated = [n for n in range(len(items)) if n in marks.repeated]
    firsts = await _first_results(tx, [items[n].submission for n in repeated])
    answers: dict[int, SubmissionOutcome] = {
        **{n: _told(each.item, fates[n]) for n, each in fresh.items()},
        **dict(zip(repeated, firsts, strict=True)),
        **{n: _conflict(items[n].submission) for n in marks.conflicting},
    }
    filled = {queue for work in works.values() for queue in work.filled_queues}
    return TakenIn([answers[n] for n in range(len(items))], frozenset(filled))


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
        intent_ids=work.intent_ids,
        matched_delivery_id=work.first.delivery_id or ids[work.first.delivery_seq],
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
        matched=Match.NONE if fate.matched_delivery_id is None else Match.KEY,
        first_delivery_id=fate.matched_delivery_id or item.submission.delivery_id,
        intent_ids=fate.intent_ids,
        reason=fate.reason,
    )


def _conflict(submission: Submission) -> DeliveryConflict:
    return DeliveryConflict(endpoint=submission.endpoint.name, delivery_id=submission.delivery_id)


async def _first_results(tx: Transaction, repeated: Sequence[Submission]) -> list[Taken]:
    """The first results again, where the deliveries are kept still; nothing is written (I1)."""
    if not repeated:
        return []
    firsts = await deliveries_store.find_first_results(
        tx,
        [(each.endpoint.tenant, each.endpoint.name, each.delivery_id) for each in repeated],
    )
    return [_again(each, firsts.get(turn)) for turn, each in enumerate(repeated, start=1)]


def _again(submission: Submission, first: FirstResult | None) -> Taken:
    return Taken(
        outcome=DeliveryOutcome.DUPLICATE,
        matched=Match.DELIVERY_ID,
        first_delivery_id=submission.delivery_id if first is None else first.first_delivery_id,
        intent_ids=() if first is None else first.intent_ids,
        reason="" if first is None else first.reason,
    )
