"""Rows become events: kind, words, ids and order, by tables."""

from datetime import timedelta

import pytest

from services.ingress.rules import IGNORED_REASONS
from services.watchdog.timeline.events_rules import (
    IGNORED_BECAUSE,
    SETTLED_AS,
    WAITS_FOR,
    Event,
    events,
)
from services.watchdog.timeline.story_rules import Story
from shared.schema.states import (
    AttemptStatus,
    DeliveryOutcome,
    DispatchOutcome,
    Disposition,
    IntentStatus,
    WaitsOn,
)
from tests.services.watchdog.timeline.facts import (
    HEAD,
    KEY,
    NOON,
    TRACE,
    URL,
    at,
    attempt,
    delivery,
    dispatch,
    flush,
    head,
    hold,
    intent,
    lease,
    settled,
    story,
    waiting,
)


def only(told: Story, kind: str) -> Event:
    """The one event of this kind."""
    [found] = [event for event in events(told) if event.kind == kind]
    return found


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        (
            {},
            "delivery.accepted",
            (
                "Delivery d-1 (pull_request opened) came in at endpoint github: accepted, "
                "it made work."
            ),
        ),
        (
            {"outcome": DeliveryOutcome.DUPLICATE, "matched_delivery_id": "d-0"},
            "delivery.duplicate",
            (
                "Delivery d-1 (pull_request opened) came in at endpoint github: a duplicate, d-0 "
                "had made the work."
            ),
        ),
        (
            {"outcome": DeliveryOutcome.IGNORED, "reason": "ping", "event": "ping", "key": None}
            | {"event_action": ""},
            "delivery.ignored",
            (
                "Delivery d-1 (ping) came in at endpoint github: ignored, the forge only asked "
                "whether somebody listens."
            ),
        ),
        (
            {"outcome": DeliveryOutcome.REFUSED, "reason": "FIELD_INVALID"},
            "delivery.refused",
            (
                "Delivery d-1 (pull_request opened) came in at endpoint github: refused, "
                "FIELD_INVALID."
            ),
        ),
        (
            {"outcome": DeliveryOutcome.IGNORED, "reason": "of-a-later-version"},
            "delivery.ignored",
            (
                "Delivery d-1 (pull_request opened) came in at endpoint github: ignored, "
                "of-a-later-version."
            ),
        ),
    ],
)
def test_a_delivery_tells_what_became_of_it(
    values: dict[str, object], kind: str, text: str
) -> None:
    event = only(story(deliveries=(delivery(**values),)), kind)
    assert (event.text, event.at, event.service) == (text, NOON, "ingress")
    assert event.ids["delivery_id"] == "d-1"
    assert event.trace_id == TRACE


def test_every_reason_of_ingress_has_words() -> None:
    assert set(IGNORED_BECAUSE) == {reason.value for reason in IGNORED_REASONS}


def test_every_state_has_words() -> None:
    assert set(SETTLED_AS) == set(IntentStatus) - {IntentStatus.OPEN}
    assert set(WAITS_FOR) == set(WaitsOn)


def test_what_one_intake_wrote_has_the_time_of_its_delivery_and_a_natural_order() -> None:
    told = story(deliveries=(delivery(),), heads=(head(),), intents=(intent(),))
    assert [(event.kind, event.at) for event in events(told)] == [
        ("delivery.accepted", NOON),
        ("head.current", NOON),
        ("intent.created", NOON),
    ]
    assert {event.trace_id for event in events(told)} == {TRACE}


def test_a_head_that_no_kept_delivery_brought_keeps_its_own_time() -> None:
    early = head(became_current_at=at(-3600))
    other = delivery(key="github.com/1#1@x")
    for deliveries in ((delivery(),), (other,), ()):
        assert only(story(deliveries=deliveries, heads=(early,)), "head.current").at == at(-3600)


def test_a_head_is_named_as_people_do_and_its_ids_are_whole() -> None:
    event = only(story(heads=(head(generation=3),)), "head.current")
    assert event.text == "Head 6dcb09b became current."
    assert event.ids == {"head_sha": HEAD, "generation": "3"}


def test_an_intent_is_told_with_its_maker() -> None:
    made = only(story(intents=(intent(),)), "intent.created")
    assert made.text == "Intent 12 was made for container-dispatch on queue reviews."
    assert made.ids == {"intent_id": "12", "key": KEY, "generation": "1"}
    assert made.service == "ingress"
    enqueued = intent(delivery_seq=None)
    assert only(story(intents=(enqueued,)), "intent.created").service == "dispatcher"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"status": IntentStatus.SUCCEEDED}, "Intent 12 succeeded."),
        (
            {
                "status": IntentStatus.DUPLICATE,
                "settled_by": 11,
                "reason": "its generation had succeeded already",
            },
            (
                "Intent 12 was acknowledged as a duplicate of intent 11: its generation had "
                "succeeded already."
            ),
        ),
        (
            {"status": IntentStatus.DEAD, "reason": "out of memory (it failed 9 times)"},
            (
                "Intent 12 died and will not be tried again by itself: out of memory (it failed 9 "
                "times)."
            ),
        ),
        (
            {"status": IntentStatus.SUPERSEDED, "reason": "a newer head is current"},
            "Intent 12 was superseded: a newer head is current.",
        ),
    ],
)
def test_the_end_of_an_intent_is_told(values: dict[str, object], text: str) -> None:
    event = only(story(intents=(settled(**values),)), f"intent.{values['status']}")  # type: ignore[arg-type]  # a status
    assert (event.text, event.at, event.service) == (text, at(60), "dispatcher")


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        ({}, "dispatch.completed", "The worker completed attempt 1 of intent 12."),
        (
            {
                "outcome": DispatchOutcome.FAILED,
                "disposition": Disposition.TRANSIENT,
                "reason": "the model is overloaded",
            },
            "dispatch.failed",
            "The worker failed attempt 1 of intent 12 (transient): the model is overloaded.",
        ),
        (
            {"outcome": DispatchOutcome.RELEASED, "reason": "draining"},
            "dispatch.released",
            "The worker gave attempt 1 of intent 12 back: draining.",
        ),
        (
            {"outcome": DispatchOutcome.DISPLACED, "reason": "its lease ran out"},
            "dispatch.displaced",
            "The worker lost attempt 1 of intent 12: its lease ran out.",
        ),
    ],
)
def test_a_dispatch_is_told_from_grant_to_end(
    values: dict[str, object], kind: str, text: str
) -> None:
    told = story(intents=(intent(),), dispatches=(dispatch(**values),))
    granted, ended = only(told, "lease.granted"), only(told, kind)
    assert granted.at == at(1)
    assert granted.ids == {"intent_id": "12", "epoch": "1", "holder": "s-1"}
    assert (ended.text, ended.at, ended.trace_id) == (text, at(50), TRACE)


def test_a_lease_that_runs_is_told_once_with_its_worker() -> None:
    event = only(story(intents=(intent(),), leases=(lease(attempt=2, epoch=4),)), "lease.granted")
    assert event.text == "Attempt 2 of intent 12 was leased to worker s-1 (version 2.1)."
    assert event.ids["epoch"] == "4"
    assert event.trace_id == TRACE


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "Checkpoint 1 was stored: phase analysis, 1,204 bytes, 3 spans."),
        (
            {"version": 2, "final": True, "phase": "", "span_count": 1, "state_bytes": 40_960},
            "Final checkpoint 2 was stored: 40 KiB, 1 span.",
        ),
    ],
)
def test_a_checkpoint_is_told_in_the_trace_of_its_work(
    values: dict[str, object], text: str
) -> None:
    event = only(story(intents=(intent(),), flushes=(flush(**values),)), "checkpoint.flushed")
    assert (event.text, event.trace_id) == (text, TRACE)
    assert event.ids["run_id"] == "5"
    other = intent(generation=2)
    assert only(story(intents=(other,), flushes=(flush(),)), "checkpoint.flushed").trace_id == ""


@pytest.mark.parametrize(
    ("status", "values", "text"),
    [
        (
            AttemptStatus.SUCCEEDED,
            {},
            f"Publication 3 (review) is on the forge: {URL}#pullrequestreview-80",
        ),
        (
            AttemptStatus.UNCERTAIN,
            {"detail": "the answer was lost", "remote_url": None},
            "Publication 3 (review) may or may not have reached the forge: the answer was lost.",
        ),
        (
            AttemptStatus.REFUSED,
            {"detail": "422: Validation Failed", "attempt": 2},
            "Publication 3 (review), attempt 2, was refused by the forge: 422: Validation Failed.",
        ),
        (
            AttemptStatus.REFUSED,
            {"detail": "never connected: ConnectError"},
            "Publication 3 (review) was not sent: never connected: ConnectError.",
        ),
        (
            AttemptStatus.REFUSED,
            {"detail": "never sent: there is no connection and no forge token"},
            "Publication 3 (review) was not sent: there is no connection and no forge token.",
        ),
        (
            AttemptStatus.ABSENT,
            {},
            "Publication 3 (review) is proven not to be on the forge.",
        ),
    ],
)
def test_a_publication_is_told_from_claim_to_proof(
    status: AttemptStatus, values: dict[str, object], text: str
) -> None:
    told = story(attempts=(attempt(status=status, **values),))
    claimed = only(told, "publication.claimed")
    assert claimed.at == at(40)
    assert claimed.text.endswith("was claimed, to be sent once.")
    assert claimed.ids["target"] == "github.com/1296269#7"
    ended = only(told, f"publication.{status.value}")
    assert (ended.text, ended.at, ended.service) == (text, at(41), "publisher")


def test_an_attempt_that_runs_has_only_its_claim() -> None:
    running = attempt(status=AttemptStatus.RUNNING, settled_at=None, remote_url=None)
    assert [event.kind for event in events(story(attempts=(running,)))] == ["publication.claimed"]


def test_waits_and_holds_are_told() -> None:
    told = story(intents=(intent(),), waiting=(waiting(),), holds=(hold(released_at=at(55)),))
    assert only(told, "intent.waiting").text == (
        "Intent 12 began to wait for its time: the model is overloaded."
    )
    assert only(told, "hold.placed").text == "Hold 4 was placed on publications: incident."
    assert only(told, "hold.placed").ids == {"hold_id": "4", "key_id": "ops"}
    assert only(told, "hold.released").at == at(55)
    assert "key_id" not in only(story(holds=(hold(placed_by=None),)), "hold.placed").ids


def test_events_are_in_the_order_of_their_times() -> None:
    told = story(
        deliveries=(delivery(delivery_seq=2, received_at=at(55)), delivery()),
        intents=(settled(IntentStatus.SUCCEEDED),),
        dispatches=(dispatch(epoch=2, granted_at=at(30)), dispatch(ended_at=at(20))),
        flushes=(flush(flushed_at=at(35)), flush()),
        attempts=(attempt(),),
    )
    times = [event.at for event in events(told)]
    assert times == sorted(times)
    assert times[-1] - times[0] == timedelta(seconds=60)
