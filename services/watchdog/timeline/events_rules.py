"""Turns the rows of a story into what happened, in order and in plain words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from services.watchdog.timeline.story_rules import (
    Attempt,
    Delivery,
    Dispatch,
    Flush,
    Head,
    Hold,
    Intent,
    Lease,
    Story,
    Waiting,
)
from services.watchdog.timeline.words_rules import (
    Ids,
    because,
    count,
    ids,
    short,
    size,
    trace_id,
)
from shared.schema.states import (
    AttemptStatus,
    DeliveryOutcome,
    DispatchOutcome,
    IntentStatus,
    WaitsOn,
)

Service = Literal["ingress", "dispatcher", "publisher"]

IGNORED_BECAUSE = {
    "ping": "the forge only asked whether somebody listens",
    "event-unwanted": "no work follows from events of this name",
    "action-unwanted": "no work follows from this action of the event",
    "draft": "drafts get their work when they are ready for review",
    "closed": "the change request is closed",
    "head-outdated": "a newer head is recorded",
    "ref-deleted": "a branch or a tag is gone and nothing is left to look at",
    "no-commits": "the change request has no commit yet",
    "own-bot": "a bot of ours caused it",
    "no-route": "no route of the endpoint takes work of this kind",
    "head-unknown": "no open change request is known at this commit",
    "no-change-request": "the comment is on something else than a change request",
    "no-command": "no line of the comment is a command",
    "edited-by-another": "only who wrote a comment gives commands with it",
    "sender-is-bot": "people ask for work by hand, and this was a bot",
    "sender-untrusted": "nothing in it shows that the sender may command",
    "review-of-another": "the review is asked of somebody else",
    "group-gone": "the merge group is gone and nothing is said of it any more",
}
SETTLED_AS = {
    IntentStatus.SUCCEEDED: "succeeded",
    IntentStatus.DUPLICATE: "was acknowledged as a duplicate",
    IntentStatus.JOINED: "was joined to another",
    IntentStatus.SUPERSEDED: "was superseded",
    IntentStatus.ABANDONED: "was abandoned",
    IntentStatus.CANCELLED: "was cancelled",
    IntentStatus.DEAD: "died and will not be tried again by itself",
    IntentStatus.REDRIVEN: "was redriven as a new intent",
}
WAITS_FOR = {
    WaitsOn.TIME: "its time",
    WaitsOn.LEASE: "the holder of its key to end",
    WaitsOn.PUBLICATION: "a publication to be settled",
    WaitsOn.HEAD: "the forge to say its head",
}

# How the publisher begins what it records of a request that never left.
NOT_SENT = ("never sent: ", "never connected: ")

INTAKE_MAX = timedelta(seconds=10)
"""No intake takes longer: a head that became current so shortly before a delivery came of it."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened."""

    at: datetime
    service: Service
    kind: str
    text: str
    ids: Ids
    trace_id: str = ""


def events(story: Story) -> list[Event]:
    """Everything that happened, oldest first; what happened at once stands in its natural order.

    What one intake wrote in one transaction has one time: that of its delivery.
    """
    intents = {intent.intent_id: intent for intent in story.intents}
    received = {each.delivery_seq: each.received_at for each in story.deliveries}
    found: list[Event] = [_delivery(each) for each in story.deliveries]
    found += [_head(each, story.deliveries) for each in story.heads]
    found += [event for each in story.intents for event in _intent(each, received)]
    found += [event for each in story.dispatches for event in _dispatch(each, intents)]
    found += [_grant(each, intents) for each in story.leases]
    found += [_flush(each, story.intents) for each in story.flushes]
    found += [event for each in story.attempts for event in _attempt(each)]
    found += [_waiting(each, intents) for each in story.waiting]
    found += [event for each in story.holds for event in _hold(each)]
    return sorted(found, key=lambda event: event.at)


def _delivery(delivery: Delivery) -> Event:
    event = " ".join(part for part in (delivery.event, delivery.event_action) if part)
    return Event(
        at=delivery.received_at,
        service="ingress",
        kind=f"delivery.{delivery.outcome.value}",
        text=f"Delivery {delivery.delivery_id} ({event}) came in at endpoint {delivery.endpoint}: "
        f"{_fate(delivery)}.",
        ids=ids(
            endpoint=delivery.endpoint,
            delivery_id=delivery.delivery_id,
            matched_delivery_id=delivery.matched_delivery_id,
            reason=delivery.reason,
        ),
        trace_id=trace_id(delivery.traceparent),
    )


def _fate(delivery: Delivery) -> str:
    match delivery.outcome:
        case DeliveryOutcome.ACCEPTED:
            return "accepted, it made work"
        case DeliveryOutcome.DUPLICATE:
            first = delivery.matched_delivery_id
            return f"a duplicate, {first} had made the work" if first else "a duplicate"
        case DeliveryOutcome.IGNORED:
            why = IGNORED_BECAUSE.get(delivery.reason, delivery.reason)
            return f"ignored, {why}" if why else "ignored"
        case DeliveryOutcome.REFUSED:
            return f"refused, {delivery.reason}"


def _head(head: Head, deliveries: Iterable[Delivery]) -> Event:
    intake = min(
        (
            each
            for each in deliveries
            if each.key == head.key
            and timedelta(0) <= each.received_at - head.became_current_at <= INTAKE_MAX
        ),
        key=lambda each: each.received_at,
        default=None,
    )
    return Event(
        at=intake.received_at if intake else head.became_current_at,
        service="ingress",
        kind="head.current",
        text=f"Head {short(head.head_sha)} became current.",
        ids=ids(head_sha=head.head_sha, generation=head.generation),
        trace_id=trace_id(intake.traceparent) if intake else "",
    )


def _intent(intent: Intent, received: dict[int, datetime]) -> Iterator[Event]:
    by_delivery = intent.delivery_seq is not None
    taken_in_at = received.get(intent.delivery_seq) if intent.delivery_seq is not None else None
    trace = trace_id(intent.traceparent)
    yield Event(
        at=max(intent.created_at, taken_in_at or intent.created_at),
        service="ingress" if by_delivery else "dispatcher",
        kind="intent.created",
        text=f"Intent {intent.intent_id} was made for {intent.action} on queue {intent.queue}.",
        ids=ids(intent_id=intent.intent_id, key=intent.key, generation=intent.generation),
        trace_id=trace,
    )
    if intent.settled_at is not None:
        of = f" of intent {intent.settled_by}" if intent.settled_by else ""
        text = f"Intent {intent.intent_id} {SETTLED_AS[intent.status]}{of}{because(intent.reason)}"
        yield Event(
            at=intent.settled_at,
            service="dispatcher",
            kind=f"intent.{intent.status.value}",
            text=text,
            ids=ids(intent_id=intent.intent_id, settled_by=intent.settled_by),
            trace_id=trace,
        )


def _grant(lease: Lease | Dispatch, intents: dict[int, Intent]) -> Event:
    return Event(
        at=lease.granted_at,
        service="dispatcher",
        kind="lease.granted",
        text=f"Attempt {lease.attempt} of intent {lease.intent_id} was leased to {worker(lease)}.",
        ids=ids(intent_id=lease.intent_id, epoch=lease.epoch, holder=lease.holder),
        trace_id=_trace_of(lease.intent_id, intents),
    )


def worker(lease: Lease | Dispatch) -> str:
    """Who holds or held it."""
    version = f" (version {lease.worker_version})" if lease.worker_version else ""
    return f"worker {lease.holder}{version}"


def _dispatch(dispatch: Dispatch, intents: dict[int, Intent]) -> Iterator[Event]:
    yield _grant(dispatch, intents)
    yield Event(
        at=dispatch.ended_at,
        service="dispatcher",
        kind=f"dispatch.{dispatch.outcome.value}",
        text=_ended(dispatch),
        ids=ids(intent_id=dispatch.intent_id, epoch=dispatch.epoch),
        trace_id=_trace_of(dispatch.intent_id, intents),
    )


def _ended(dispatch: Dispatch) -> str:
    attempt = f"attempt {dispatch.attempt} of intent {dispatch.intent_id}"
    why = because(dispatch.reason)
    match dispatch.outcome:
        case DispatchOutcome.COMPLETED:
            return f"The worker completed {attempt}."
        case DispatchOutcome.FAILED:
            kind = f" ({dispatch.disposition.value})" if dispatch.disposition else ""
            return f"The worker failed {attempt}{kind}{why}"
        case DispatchOutcome.RELEASED:
            return f"The worker gave {attempt} back{why}"
        case DispatchOutcome.DISPLACED:
            return f"The worker lost {attempt}{why}"


def _flush(flush: Flush, intents: Iterable[Intent]) -> Event:
    work = (flush.key, flush.action, flush.generation)
    ours = [each for each in intents if (each.key, each.action, each.generation) == work]
    first = min(ours, key=lambda each: each.created_at, default=None)
    facts = [
        f"phase {flush.phase}" if flush.phase else "",
        size(flush.state_bytes),
        count(flush.span_count, "span"),
    ]
    name = "Final checkpoint" if flush.final else "Checkpoint"
    return Event(
        at=flush.flushed_at,
        service="dispatcher",
        kind="checkpoint.flushed",
        text=f"{name} {flush.version} was stored: {', '.join(fact for fact in facts if fact)}.",
        ids=ids(run_id=flush.run_id, version=flush.version, epoch=flush.epoch),
        trace_id=trace_id(first.traceparent) if first else "",
    )


def _attempt(attempt: Attempt) -> Iterator[Event]:
    name = f"Publication {attempt.publication_id} ({attempt.name})"
    known = ids(
        publication_id=attempt.publication_id,
        target=attempt.target,
        attempt=attempt.attempt,
        intent_id=attempt.intent_id,
        epoch=attempt.epoch,
    )
    trace = trace_id(attempt.traceparent)
    again = f", attempt {attempt.attempt}," if attempt.attempt > 1 else ""
    yield Event(
        at=attempt.claimed_at,
        service="publisher",
        kind="publication.claimed",
        text=f"{name}{again} was claimed, to be sent once.",
        ids=known,
        trace_id=trace,
    )
    if attempt.settled_at is not None:
        yield Event(
            at=attempt.settled_at,
            service="publisher",
            kind=f"publication.{attempt.status.value}",
            text=f"{name}{again} {published(attempt)}",
            ids=known | ids(remote_url=attempt.remote_url),
            trace_id=trace,
        )


def published(attempt: Attempt) -> str:
    """What came of an attempt, as the rest of a sentence that begins with its name."""
    match attempt.status:
        case AttemptStatus.SUCCEEDED:
            return f"is on the forge: {attempt.remote_url}" if attempt.remote_url else "succeeded."
        case AttemptStatus.UNCERTAIN:
            return f"may or may not have reached the forge{because(attempt.detail)}"
        case AttemptStatus.REFUSED:
            by_forge = not attempt.detail.startswith(NOT_SENT)
            how = "was refused by the forge" if by_forge else "was not sent"
            return f"{how}{because(attempt.detail.removeprefix('never sent: '))}"
        case AttemptStatus.ABSENT:
            return f"is proven not to be on the forge{because(attempt.detail)}"
        case AttemptStatus.RUNNING:
            return "is being sent."


def _waiting(waiting: Waiting, intents: dict[int, Intent]) -> Event:
    return Event(
        at=waiting.since,
        service="dispatcher",
        kind="intent.waiting",
        text=f"Intent {waiting.intent_id} began to wait for {WAITS_FOR[waiting.waits_on]}"
        f"{because(waiting.reason)}",
        ids=ids(intent_id=waiting.intent_id, publication_id=waiting.publication_id),
        trace_id=_trace_of(waiting.intent_id, intents),
    )


def _hold(hold: Hold) -> Iterator[Event]:
    yield Event(
        at=hold.placed_at,
        service="publisher",
        kind="hold.placed",
        text=f"Hold {hold.hold_id} was placed on publications{because(hold.reason)}",
        ids=ids(hold_id=hold.hold_id, key_id=hold.placed_by),
    )
    if hold.released_at is not None:
        yield Event(
            at=hold.released_at,
            service="publisher",
            kind="hold.released",
            text=f"Hold {hold.hold_id} was lifted.",
            ids=ids(hold_id=hold.hold_id),
        )


def _trace_of(intent_id: int, intents: dict[int, Intent]) -> str:
    intent = intents.get(intent_id)
    return trace_id(intent.traceparent) if intent else ""
