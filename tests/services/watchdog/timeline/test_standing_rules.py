"""Where the work stands, in words, by tables; and commands that exist."""

import pytest

from services.publisher.forges.evidence import marker
from services.publisher.model import Slot
from services.watchdog.timeline.standing_rules import (
    NEW_WORK,
    NOT_RECORDED,
    WEIGHT,
    marked,
    next_commands,
    standing,
)
from services.watchdog.timeline.story_rules import Story
from shared.schema.states import (
    AttemptStatus,
    ChangeRequestState,
    DeliveryOutcome,
    IntentStatus,
    SessionState,
    WaitsOn,
)
from tests.services.watchdog.timeline.facts import (
    NOON,
    URL,
    at,
    attempt,
    change_request,
    delivery,
    endpoint,
    hold,
    intent,
    lease,
    nothing,
    ready,
    settled,
    story,
    waiting,
)

NOTHING = "Nothing was received for delivery d-9.\n"
OPEN = {"deliveries": (delivery(),), "intents": (intent(),)}
DONE = {"deliveries": (delivery(),), "intents": (settled(IntentStatus.SUCCEEDED),)}
IN_DOUBT = attempt(status=AttemptStatus.UNCERTAIN, detail="the answer was lost", remote_url=None)
SENDING = attempt(status=AttemptStatus.RUNNING, settled_at=None, remote_url=None)

DOUBT = (
    "nothing is sent again, and nothing in this release settles that by itself. Whether it is on "
    "the forge, its marker tells: look for `publication=3 attempt=1` in the source of what stands "
    f"at {URL}"
)

STANDINGS = {
    "nothing was ever received": (
        nothing(),
        "Nothing was received for delivery d-9.\nNo endpoint has ever received anything.",
    ),
    "nothing was received, but the endpoint lives": (
        nothing(endpoints=(endpoint(heard_at=at(60 - 3 * 3600)),)),
        f"{NOTHING}Endpoint github was last heard at 09:01:00 UTC (3 h ago).\n{NOT_RECORDED}",
    ),
    "nothing was received by any tenant": (
        nothing(endpoints=(endpoint(heard_at=at(50), tenant="acme"),)),
        (
            f"{NOTHING}Endpoint acme/github was last heard at 12:00:50 UTC (10 s ago)."
            f"\n{NOT_RECORDED}"
        ),
    ),
    "nothing was received for an address, several endpoints": (
        nothing(
            by_delivery=False,
            asked_for=URL,
            endpoints=(endpoint("a", heard_at=at(50)), endpoint("b", heard_at=None)),
        ),
        (
            f"Nothing was received for {URL}.\nEndpoint a was last heard at 12:00:50 UTC (10 s "
            f"ago); endpoint b has long been silent.\n{NOT_RECORDED}"
        ),
    ),
    "nothing was received, many endpoints": (
        nothing(endpoints=tuple(endpoint(f"e{n}", heard_at=NOON) for n in range(7))),
        f"{NOTHING}Endpoint e0 was last heard at 12:00:00 UTC (1 min ago); "
        + "; ".join(
            f"endpoint e{n} was last heard at 12:00:00 UTC (1 min ago)" for n in range(1, 5)
        )
        + f"; and 2 more endpoints.\n{NOT_RECORDED}",
    ),
    "ready, nobody there": (
        story(**OPEN, ready=(ready(),)),
        (
            "Intent 12 (container-dispatch) has been ready since 12:00:00 UTC (1 min ago): no "
            "worker serves queue reviews now; start one."
        ),
    ),
    "ready, workers there": (
        story(**OPEN, ready=(ready(workers=2),)),
        (
            "Intent 12 (container-dispatch) has been ready since 12:00:00 UTC (1 min ago): 2 "
            "workers could take it from queue reviews."
        ),
    ),
    "waits for its retry": (
        story(**OPEN, waiting=(waiting(),)),
        (
            "Intent 12 (container-dispatch) has waited since 12:00:50 UTC (10 s ago) and is due at "
            "12:02:00 UTC (in 1 min): the model is overloaded."
        ),
    ),
    "waits for a holder": (
        story(**OPEN, waiting=(waiting(waits_on=WaitsOn.LEASE, reason="another is running"),)),
        (
            "Intent 12 (container-dispatch) has waited since 12:00:50 UTC (10 s ago) for the "
            "holder of its key: another is running."
        ),
    ),
    "waits for a publication in doubt": (
        story(
            **OPEN,
            waiting=(waiting(waits_on=WaitsOn.PUBLICATION, publication_id=3, reason=""),),
            attempts=(IN_DOUBT,),
        ),
        (
            f"Publication 3 (review) has been in doubt since 12:00:41 UTC (19 s ago): {DOUBT}\n"
            "Intent 12 (container-dispatch) has waited since 12:00:50 UTC (10 s ago) for "
            "publication 3 to be settled."
        ),
    ),
    "with a worker": (
        story(**OPEN, leases=(lease(),), attempts=(SENDING,)),
        (
            "Intent 12 (container-dispatch) has been with worker s-1 (version 2.1) since 12:00:01 "
            "UTC (59 s ago); last heard of 12:00:58 UTC (2 s ago). Unless renewed, its lease ends "
            "at 12:30:30 UTC (in 29 min)."
        ),
    ),
    "with a worker whose stream is lost": (
        story(**OPEN, leases=(lease(session_state=SessionState.DETACHED),)),
        (
            "Intent 12 (container-dispatch) has been with worker s-1 (version 2.1) since 12:00:01 "
            "UTC (59 s ago); last heard of 12:00:58 UTC (2 s ago), whose stream is lost. Unless "
            "renewed, its lease ends at 12:30:30 UTC (in 29 min); if that worker is dead, the work "
            "waits until then (DISPATCHER_LEASE_MS)."
        ),
    ),
    "with a holder without a session": (
        story(**OPEN, leases=(lease(session_state=None, session_heard_at=None),)),
        (
            "Intent 12 (container-dispatch) has been with worker s-1 (version 2.1) since 12:00:01 "
            "UTC (59 s ago). Unless renewed, its lease ends at 12:30:30 UTC (in 29 min)."
        ),
    ),
    "with a worker that is overdue": (
        story(**OPEN, leases=(lease(claimable_at=at(20)),)),
        (
            "Intent 12 (container-dispatch) has been with worker s-1 (version 2.1) since 12:00:01 "
            "UTC (59 s ago); its lease ran out at 12:00:20 UTC (40 s ago) and it will be handed on."
        ),
    ),
    "an attempt whose sender is gone": (
        story(**DONE, attempts=(SENDING,)),
        (
            f"Publication 3 (review) has been in doubt since 12:00:40 UTC (20 s ago): {DOUBT}\n"
            "Done at 12:01:00 UTC (now); nothing was published."
        ),
    ),
    "held": (
        story(**OPEN, ready=(ready(workers=1),), holds=(hold(), hold(released_at=at(50)))),
        (
            "Intent 12 (container-dispatch) has been ready since 12:00:00 UTC (1 min ago): 1 "
            "worker could take it from queue reviews.\nHold 4 has stopped its publications since "
            "12:00:05 UTC (55 s ago): incident."
        ),
    ),
    "lost": (
        story(**OPEN),
        (
            "Intent 12 (container-dispatch) is open and stands nowhere: a fault of ours; keep this "
            "page and report it."
        ),
    ),
    "done and published": (
        story(**DONE, attempts=(attempt(),)),
        (
            f"Done at 12:01:00 UTC (now): publication 3 (review) is on the forge: "
            f"{URL}#pullrequestreview-80"
        ),
    ),
    "done, then closed": (
        story(**DONE, change_request=change_request(state=ChangeRequestState.CLOSED)),
        "Done at 12:01:00 UTC (now); nothing was published.\nThe change request is closed.",
    ),
    "done, and a duplicate after it": (
        story(
            deliveries=(delivery(),),
            intents=(
                settled(IntentStatus.DUPLICATE, intent_id=13, settled_at=at(62)),
                settled(IntentStatus.SUCCEEDED),
            ),
        ),
        "Done at 12:01:00 UTC (now); nothing was published.",
    ),
    "dead": (
        story(intents=(settled(IntentStatus.DEAD, reason="out of memory"),)),
        (
            "Intent 12 died at 12:01:00 UTC (now), it is not tried again by itself: out of memory."
            f"\n{NEW_WORK}"
        ),
    ),
    "an older head is dead, the newest is done": (
        story(
            intents=(
                settled(IntentStatus.SUCCEEDED, intent_id=13, generation=2),
                settled(IntentStatus.DEAD),
            )
        ),
        "Done at 12:01:00 UTC (now); nothing was published.",
    ),
    "dead, then done by newer work": (
        story(
            intents=(
                settled(IntentStatus.SUCCEEDED, intent_id=13, settled_at=at(55)),
                settled(IntentStatus.DEAD, settled_at=at(50)),
            )
        ),
        "Done at 12:00:55 UTC (5 s ago); nothing was published.",
    ),
    "done, then newer work died": (
        story(
            intents=(
                settled(IntentStatus.DEAD, intent_id=13),
                settled(IntentStatus.SUCCEEDED, settled_at=at(50)),
            )
        ),
        f"Intent 13 died at 12:01:00 UTC (now), it is not tried again by itself.\n{NEW_WORK}",
    ),
    "two actions, each with its end": (
        story(
            intents=(
                settled(IntentStatus.SUCCEEDED, intent_id=13, action="review"),
                settled(IntentStatus.DEAD, action="scan"),
            )
        ),
        (
            "scan: Intent 12 died at 12:01:00 UTC (now), it is not tried again by itself.\n"
            f"{NEW_WORK}\nreview: Done at 12:01:00 UTC (now); nothing was published."
        ),
    ),
    "superseded": (
        story(intents=(settled(IntentStatus.SUPERSEDED, reason="a newer head is current"),)),
        "Intent 12 was superseded at 12:01:00 UTC (now): a newer head is current.",
    ),
    "ignored": (
        story(
            deliveries=(
                delivery(outcome=DeliveryOutcome.IGNORED, reason="draft", received_at=at(30)),
                delivery(outcome=DeliveryOutcome.IGNORED, reason="closed"),
            )
        ),
        (
            "Nothing to do: the last delivery, at 12:00:30 UTC (30 s ago), was ignored: drafts get "
            "their work when they are ready for review."
        ),
    ),
    "refused": (
        story(deliveries=(delivery(outcome=DeliveryOutcome.REFUSED, reason="BODY_TOO_LARGE"),)),
        (
            "Nothing to do: the last delivery, at 12:00:00 UTC (1 min ago), was refused: "
            "BODY_TOO_LARGE."
        ),
    ),
    "its work is gone": (
        story(deliveries=(delivery(),)),
        "The last delivery came at 12:00:00 UTC (1 min ago), and its work is no longer kept.",
    ),
    "known, but without any work": (story(), "No work was made for it."),
}


@pytest.mark.parametrize(("told", "sentence"), STANDINGS.values(), ids=STANDINGS)
def test_the_standing_says_what_it_waits_for(told: Story, sentence: str) -> None:
    assert standing(told) == sentence


def test_a_doubt_names_what_the_publishers_marker_says() -> None:
    slot = Slot(key="k", publication_id=3, attempt=1)
    assert f" {marked(IN_DOUBT)} " in marker(slot)


def test_of_many_open_intents_some_are_told_and_the_rest_counted() -> None:
    many = tuple(intent(intent_id=number) for number in range(8))
    told = standing(story(intents=many, ready=tuple(ready(intent_id=n) for n in range(8))))
    assert told.count("has been ready") == 5
    assert told.endswith("3 more intents of it are open.")


def test_every_end_has_its_weight() -> None:
    assert sorted(WEIGHT) == sorted(set(IntentStatus) - {IntentStatus.OPEN})
    for status in WEIGHT:
        assert standing(story(intents=(settled(status),)))


COMMANDS = {
    "a delivery of a change request": (
        story(**DONE, by_delivery=True),
        [f"fencepost timeline {URL}"],
    ),
    "a change request that is done": (story(**DONE), []),
    "one that is open": (story(**OPEN, ready=(ready(),)), ["fencepost status"]),
    "one that is dead": (story(intents=(settled(IntentStatus.DEAD),)), ["fencepost status"]),
    "one whose older work is dead": (
        story(
            intents=(
                settled(IntentStatus.DEAD, intent_id=11),
                settled(IntentStatus.SUCCEEDED, intent_id=12, generation=2),
            )
        ),
        [],
    ),
    "one whose newer work is dead": (
        story(
            intents=(
                settled(IntentStatus.SUCCEEDED, intent_id=11),
                settled(IntentStatus.DEAD, intent_id=12, generation=2),
            )
        ),
        ["fencepost status"],
    ),
    "nothing, one endpoint": (
        nothing(endpoints=(endpoint(heard_at=NOON),)),
        [
            (
                "fencepost submit PAYLOAD.json --endpoint github --event pull_request "
                "--delivery-id d-9"
            ),
            "fencepost status",
        ],
    ),
    "nothing, one endpoint of another tenant": (
        nothing(endpoints=(endpoint(heard_at=NOON, tenant="acme"),)),
        [
            (
                "fencepost submit PAYLOAD.json --endpoint github --event pull_request "
                "--delivery-id d-9 --tenant acme"
            ),
            "fencepost status",
        ],
    ),
    "nothing, several endpoints": (
        nothing(endpoints=(endpoint("a", heard_at=NOON), endpoint("b", heard_at=NOON))),
        ["fencepost status"],
    ),
    "nothing at an address": (
        nothing(by_delivery=False, endpoints=(endpoint(heard_at=NOON),)),
        ["fencepost status"],
    ),
    "what a shell would read otherwise": (
        nothing(asked_for="$(reboot); '", endpoints=(endpoint(heard_at=NOON),)),
        [
            (
                "fencepost submit PAYLOAD.json --endpoint github --event pull_request "
                "--delivery-id '$(reboot); '\"'\"''"
            ),
            "fencepost status",
        ],
    ),
}


@pytest.mark.parametrize(("told", "commands"), COMMANDS.values(), ids=COMMANDS)
def test_the_next_commands_are_safe_to_paste(told: Story, commands: list[str]) -> None:
    assert next_commands(told) == commands


def test_the_title_is_what_people_call_it() -> None:
    assert story().title == "octo-org/widgets#7"
    assert nothing().title == "delivery d-9"
    assert nothing(by_delivery=False, asked_for=URL).title == URL
