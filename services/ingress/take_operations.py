"""One transaction that takes deliveries in: markers, change requests, intents, deliveries.

It goes in steps over all items, each step in the order of its keys, so that two transactions never
wait for each other crosswise: markers first, then change requests, then intents (X7). All of it
commits or none (I2). What lost a race to another transaction is answered by reading its winner in
a later statement (I1, I13).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fencepost.errors import DeliveryConflict, Overloaded

from services.ingress import deliveries_store, store
from services.ingress.deliveries_store import DeliveryWrite
from services.ingress.rules import (
    ChangeRequestEvent,
    IgnoredReason,
    Known,
    Reading,
    decide,
    first_record,
)
from services.ingress.store import ChangeRequestRow, ChangeRequestWrite, IntentWrite, KeyParts
from services.ingress.submissions import Match, Submission, SubmissionOutcome, Taken
from shared.database import Transaction
from shared.keys import Key
from shared.schema.states import DeliveryOutcome

RIVAL_GONE_MAX = 3
"""How often a rival that was met may be gone when looked for, before the caller must come again."""


@dataclass(frozen=True)
class Item:
    """A submission with what its forge's module read from it, and what tells its body apart."""

    submission: Submission
    reading: Reading
    body_sha256: bytes


class _Mark(Enum):
    FRESH = auto()
    REPEATED = auto()
    CONFLICT = auto()


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    """What a fresh delivery asks for: work under a generation, or nothing, for a reason."""

    generation: int
    ignored: IgnoredReason | None


@dataclass(frozen=True, kw_only=True)
class _Fate:
    """What became of a fresh delivery."""

    outcome: DeliveryOutcome
    reason: str = ""
    delivery_seq: int | None = None
    intent_ids: tuple[int, ...] = ()
    matched_delivery_id: str | None = None


async def take_in(
    tx: Transaction, items: Sequence[Item], ttl_seconds: int
) -> list[SubmissionOutcome]:
    """Outcomes in the items' order. Keeps I1, I2, I4, I13, X7."""
    answers: dict[int, SubmissionOutcome] = {}
    verdicts: dict[int, _Verdict] = {}
    marks = {n: await _mark(tx, items[n], ttl_seconds) for n in _by(items, _marker_key)}
    fresh = [n for n, mark in sorted(marks.items()) if mark is _Mark.FRESH]
    for n in _by(items, _change_request_key, fresh):
        verdicts[n] = await _judge(tx, items[n])
    for n in _by(items, _intent_key, fresh):
        answers[n] = await _settle(tx, items[n], verdicts[n])
    for n, mark in marks.items():
        if mark is not _Mark.FRESH:
            answers[n] = await _answer_again(tx, items[n].submission, mark)
    return [answers[n] for n in range(len(items))]


def _by(
    items: Sequence[Item],
    key: Callable[[Item], tuple[object, ...]],
    among: Sequence[int] | None = None,
) -> list[int]:
    """Numbers of the items in the order of a key, those of one key as they came."""
    numbers = range(len(items)) if among is None else among
    return sorted(numbers, key=lambda n: [str(part) for part in key(items[n])])


def _marker_key(item: Item) -> tuple[object, ...]:
    endpoint = item.submission.endpoint
    return endpoint.tenant, endpoint.name, item.submission.delivery_id


def _change_request_key(item: Item) -> tuple[object, ...]:
    event = item.reading.event
    return () if event is None else _key_parts(item.submission, event)


def _intent_key(item: Item) -> tuple[object, ...]:
    event = item.reading.event
    endpoint = item.submission.endpoint
    if event is None:
        return ()
    return endpoint.tenant, _key(item.submission, event).canonical(), endpoint.routes[0].action


def _key_parts(submission: Submission, event: ChangeRequestEvent) -> KeyParts:
    endpoint = submission.endpoint
    return endpoint.tenant, endpoint.forge_instance, event.repo_id, event.number


def _key(submission: Submission, event: ChangeRequestEvent) -> Key:
    return Key(
        forge_instance=submission.endpoint.forge_instance,
        repo_id=event.repo_id,
        number=event.number,
        head_sha=event.head_sha,
    )


async def _mark(tx: Transaction, item: Item, ttl_seconds: int) -> _Mark:
    """Takes the delivery id, or says what the one who has it sent."""
    source = item.submission.endpoint
    tenant, endpoint = source.tenant, source.name
    delivery_id, digest = item.submission.delivery_id, item.body_sha256
    for _ in range(RIVAL_GONE_MAX):
        if await store.insert_marker(
            tx,
            tenant=tenant,
            endpoint=endpoint,
            delivery_id=delivery_id,
            body_sha256=digest,
            ttl_seconds=ttl_seconds,
        ):
            return _Mark.FRESH
        marker = await store.find_marker(
            tx, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
        )
        if marker is not None and not marker.expired:
            return _Mark.REPEATED if marker.body_sha256 == digest else _Mark.CONFLICT
        await store.delete_expired_marker(
            tx, tenant=tenant, endpoint=endpoint, delivery_id=delivery_id
        )
    raise Overloaded


async def _judge(tx: Transaction, item: Item) -> _Verdict:
    """Records what the event says of its change request, under the lock of its row (I9)."""
    event = item.reading.event
    if event is None:
        return _Verdict(generation=0, ignored=item.reading.ignored)
    key = _key_parts(item.submission, event)
    row = await _lock_or_insert(tx, _change_request(item.submission, event, first_record(event)))
    decision = decide(None if row is None else _known(row), event)
    if row is not None and decision.record is not None:
        moved = await store.update_change_request(
            tx, _change_request(item.submission, event, decision.record)
        )
        assert moved, "a locked change request went on without us"
    generation = decision.generation
    if decision.becomes_current:
        await store.insert_head(tx, key, generation=generation, head_sha=event.head_sha)
    elif decision.by_head:
        had = await store.find_head_generation(tx, key, head_sha=event.head_sha)
        generation = generation if had is None else had
    return _Verdict(generation=generation, ignored=decision.ignored)


async def _lock_or_insert(tx: Transaction, first: ChangeRequestWrite) -> ChangeRequestRow | None:
    """The locked row as it was; None when this transaction has just made it."""
    row = await store.lock_change_request(tx, first.key)
    if row is not None or await store.insert_change_request(tx, first):
        return row
    row = await store.lock_change_request(tx, first.key)
    assert row is not None, "change requests are never deleted"
    return row


def _known(row: ChangeRequestRow) -> Known:
    return Known(
        head_sha=row.head_sha,
        generation=row.generation,
        state=row.state,
        updated_at=row.forge_updated_at,
    )


def _change_request(
    submission: Submission, event: ChangeRequestEvent, record: Known
) -> ChangeRequestWrite:
    return ChangeRequestWrite(
        key=_key_parts(submission, event),
        forge=submission.endpoint.forge,
        repo_name=event.repo_name,
        url=event.url,
        base_ref=event.base_ref,
        head_sha=record.head_sha,
        generation=record.generation,
        state=record.state,
        forge_updated_at=record.updated_at,
    )


async def _settle(tx: Transaction, item: Item, verdict: _Verdict) -> Taken:
    """Makes the work that is asked for and stores the delivery with what became of it."""
    event = item.reading.event
    if event is None or verdict.ignored is not None:
        fate = _Fate(outcome=DeliveryOutcome.IGNORED, reason=verdict.ignored or "")
    else:
        fate = await _make_work(tx, _intent(item.submission, event, verdict.generation))
    await deliveries_store.insert_delivery(tx, _delivery(item, fate))
    return Taken(
        outcome=fate.outcome,
        matched=Match.NONE if fate.matched_delivery_id is None else Match.KEY,
        first_delivery_id=fate.matched_delivery_id or item.submission.delivery_id,
        intent_ids=fate.intent_ids,
        reason=fate.reason,
    )


async def _make_work(tx: Transaction, intent: IntentWrite) -> _Fate:
    """One intent for (key, action, generation), or whose it is already (I13)."""
    tenant = intent.change_request[0]
    for _ in range(RIVAL_GONE_MAX):
        made = await store.insert_intent(tx, intent)
        if made is not None:
            await store.insert_ready(tx, tenant=tenant, intent_id=made.intent_id)
            return _Fate(
                outcome=DeliveryOutcome.ACCEPTED,
                delivery_seq=made.delivery_seq,
                intent_ids=(made.intent_id,),
            )
        occupant = await store.find_occupant(
            tx,
            tenant=tenant,
            key=intent.key,
            action=intent.action,
            generation=intent.generation,
        )
        if occupant is not None:
            return _Fate(
                outcome=DeliveryOutcome.DUPLICATE,
                intent_ids=(occupant.intent_id,),
                matched_delivery_id=occupant.delivery_id,
            )
    raise Overloaded


def _intent(submission: Submission, event: ChangeRequestEvent, generation: int) -> IntentWrite:
    key = _key(submission, event)
    return IntentWrite(
        change_request=_key_parts(submission, event),
        queue=submission.endpoint.routes[0].queue,
        key=key.canonical(),
        key_label=key.label(event.repo_name),
        action=submission.endpoint.routes[0].action,
        generation=generation,
        head_sha=event.head_sha,
        content_type=submission.content_type,
        traceparent=submission.traceparent,
    )


def _delivery(item: Item, fate: _Fate) -> DeliveryWrite:
    submission, event = item.submission, item.reading.event
    key = None if event is None else _key(submission, event)
    return DeliveryWrite(
        delivery_seq=fate.delivery_seq,
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
        key=None if key is None else key.canonical(),
        key_label=None if key is None or event is None else key.label(event.repo_name),
        repo_id=None if event is None else event.repo_id,
        number=None if event is None else event.number,
        projection=item.reading.projection,
        traceparent=submission.traceparent,
    )


async def _answer_again(tx: Transaction, submission: Submission, mark: _Mark) -> SubmissionOutcome:
    """The first result again, and nothing is written (I1); another body is refused (I4)."""
    endpoint, delivery_id = submission.endpoint, submission.delivery_id
    if mark is _Mark.CONFLICT:
        return DeliveryConflict(endpoint=endpoint.name, delivery_id=delivery_id)
    first = await deliveries_store.find_first_result(
        tx, tenant=endpoint.tenant, endpoint=endpoint.name, delivery_id=delivery_id
    )
    return Taken(
        outcome=DeliveryOutcome.DUPLICATE,
        matched=Match.DELIVERY_ID,
        first_delivery_id=delivery_id if first is None else first.first_delivery_id,
        intent_ids=() if first is None else first.intent_ids,
        reason="" if first is None else first.reason,
    )
