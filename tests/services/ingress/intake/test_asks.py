"""Commands, re-runs and checks: whose work they are, and that each is made once."""

import hashlib
from dataclasses import replace

import pytest

from services.ingress.endpoints import DraftPolicy, Route
from services.ingress.rules import AskKind, Sender, WorkAsked
from services.ingress.submissions import Match
from shared.schema.states import DeliveryOutcome
from tests.services.ingress.desk import Desk
from tests.services.ingress.intake.asking import FIX, REVIEW, Asking, asks, command, rerun
from tests.services.ingress.pulls import A, B, C, pull

ACCEPTED, DUPLICATE, IGNORED = (
    DeliveryOutcome.ACCEPTED,
    DeliveryOutcome.DUPLICATE,
    DeliveryOutcome.IGNORED,
)
PERSON, BOT, OUR_APP = 11, 666, 777


def digits(delivery_id: str) -> str:
    return hashlib.sha256(delivery_id.encode()).hexdigest()[:16]


@pytest.fixture
def asking(desk: Desk) -> Asking:
    return Asking.at(desk)


@pytest.mark.guarantee("I13")
async def test_a_delivery_makes_one_intent_for_each_action_of_its_routes(desk: Desk) -> None:
    elsewhere = replace(FIX, action="elsewhere", repo_ids=frozenset({1}))
    again = Route(action=REVIEW.action, queue="never")
    asking = Asking.at(desk, routes=(REVIEW, FIX, again, elsewhere))
    taken = await asking.tell("d-1", pull())
    made = await desk.rows.all("intents")
    assert {(row["action"], row["queue"]) for row in made} == {
        ("review-bot", "reviews"),
        ("fix-bot", "fixes"),
    }
    assert taken.intent_ids == tuple(sorted(row["intent_id"] for row in made))
    assert sorted(desk.woken) == ["fixes", "reviews"]
    assert len(await desk.rows.all("ready")) == 2


@pytest.mark.guarantee("I13")
async def test_what_one_bot_has_already_is_told_with_what_another_gets(desk: Desk) -> None:
    one, both = Asking.at(desk, routes=(REVIEW,)), Asking.at(desk)
    first = await one.tell("d-1", pull())
    second = await both.tell("d-2", pull())
    assert second.outcome is ACCEPTED
    assert set(first.intent_ids) < set(second.intent_ids)
    third = await both.tell("d-3", pull())
    assert (third.outcome, third.matched) == (DUPLICATE, Match.KEY)
    assert third.intent_ids == second.intent_ids
    assert third.first_delivery_id == "d-1"
    again = await both.tell("d-2", pull())
    assert (again.matched, again.intent_ids) == (Match.DELIVERY_ID, second.intent_ids)


@pytest.mark.guarantee("I6", "I7")
async def test_a_command_waits_for_its_head_and_is_made_once(asking: Asking) -> None:
    await asking.desk.take("d-0", pull())
    first = await asking.take("d-1", command())
    assert (await asking.made())[1:] == [
        ("2@pending:manual-9", "review-bot", 0),
        ("2@pending:manual-9.review", "fix-bot", 0),
    ]
    rows = asking.desk.rows
    intents = [await rows.one("intents", intent_id=each) for each in first.intent_ids]
    assert [(row["head_sha"], row["number"]) for row in intents] == [(None, 2), (None, 2)]
    waiting = await rows.all("waiting")
    assert {(row["waits_on"], row["intent_id"]) for row in waiting} == {
        ("head", each) for each in first.intent_ids
    }
    assert not {row["intent_id"] for row in await rows.all("ready")} & set(first.intent_ids)
    again = await asking.take("d-2", command())
    assert (again.outcome, again.matched) == (DUPLICATE, Match.KEY)
    assert (again.first_delivery_id, again.intent_ids) == ("d-1", first.intent_ids)


@pytest.mark.guarantee("I6")
async def test_a_command_is_the_same_after_its_head_was_resolved_and_a_push(
    asking: Asking,
) -> None:
    first = await asking.take("d-1", command())
    for intent_id in first.intent_ids:
        resolved = {"key": f"resolved-{intent_id}", "head_sha": A, "generation": 1}
        await asking.desk.rows.change("intents", {"intent_id": intent_id}, **resolved)
    await asking.desk.take("d-2", pull("synchronize", before=A, head_sha=B, at=1))
    again = await asking.take("d-3", command())
    assert (again.outcome, again.intent_ids) == (DUPLICATE, first.intent_ids)


@pytest.mark.guarantee("I6")
async def test_two_commands_are_two_identities(asking: Asking) -> None:
    both = await asking.submit(
        asking.item("d-1", command("review")),
        asking.item("d-2", command("fix")),
        asking.item("d-3", command("review", comment_id=10)),
        asking.item("d-4", command("review")),
    )
    assert [each.outcome for each in both] == [ACCEPTED, ACCEPTED, ACCEPTED, DUPLICATE]
    suffixes = [row["suffix"] for row in await asking.desk.rows.all("intents")]
    assert sorted(suffixes) == [
        "manual-10",
        "manual-10.review",
        "manual-9",
        "manual-9.fix",
        "manual-9.review",
    ]


@pytest.mark.guarantee("I6")
async def test_a_comment_gets_work_for_each_of_its_commands_that_a_route_takes(
    asking: Asking,
) -> None:
    first = await asking.take("d-1", command("dance", "fix", "review"))
    assert await asking.made() == [
        ("2@pending:manual-9", "review-bot", 0),
        ("2@pending:manual-9.fix", "fix-bot", 0),
        ("2@pending:manual-9.review", "fix-bot", 0),
    ]
    again = await asking.take("d-2", command("review"))
    assert (again.outcome, set(again.intent_ids) < set(first.intent_ids)) == (DUPLICATE, True)


async def test_a_command_that_no_route_takes_is_ignored(asking: Asking) -> None:
    ignored = await asking.take("d-1", command("dance"))
    assert (ignored.outcome, ignored.reason) == (IGNORED, "no-route")
    assert await asking.made() == []


@pytest.mark.guarantee("I13")
async def test_a_rerun_is_deduped_by_its_delivery_alone(asking: Asking) -> None:
    await asking.desk.take("d-0", pull(head_sha=A))
    wish = rerun(number=2)
    outcomes = [await asking.take(each, wish) for each in ("d-1", "d-2", "d-1")]
    assert [each.outcome for each in outcomes] == [ACCEPTED, ACCEPTED, DUPLICATE]
    assert (await asking.made())[1:] == [
        (f"2@{A}:rerun-{digits(each)}", action, 1)
        for each in ("d-1", "d-2")
        for action in ("fix-bot", "review-bot")
    ]


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize("in_one_list", [True, False])
async def test_a_check_without_pull_requests_is_found_by_its_commit(
    asking: Asking, in_one_list: bool
) -> None:
    for delivery_id, body in (
        ("d-1", pull(number=2, head_sha=A)),
        ("d-2", pull(number=9, head_sha=A)),
        ("d-3", pull(number=4, head_sha=B)),
        ("d-4", pull(number=5, head_sha=A)),
        ("d-5", pull("closed", number=5, head_sha=A, at=1)),
    ):
        await asking.desk.take(delivery_id, body)
    before = len(await asking.made())
    items = [asking.item("d-6", rerun()), asking.item("d-7", rerun(head_sha=C))]
    if in_one_list:
        found, unknown = await asking.submit(*items)
    else:
        [found], [unknown] = [await asking.submit(each) for each in items]
    suffix = f"rerun-{digits('d-6')}"
    assert (await asking.made())[before:] == [
        (f"2@{A}:{suffix}", "fix-bot", 1),
        (f"9@{A}:{suffix}", "fix-bot", 1),
    ]
    assert len(found.intent_ids) == 2
    assert (unknown.outcome, unknown.reason) == (IGNORED, "head-unknown")


async def test_a_check_names_its_pull_requests(asking: Asking) -> None:
    await asking.desk.take("d-0", pull("closed", number=5))
    await asking.take("d-1", rerun(pull_numbers=(7, 5, 2, 7)))
    numbers = [key.partition("@")[0] for key, _, _ in await asking.made()]
    assert numbers == ["2", "7"]
    closed = await asking.take("d-2", rerun(pull_numbers=(5,)))
    assert (closed.outcome, closed.reason) == (IGNORED, "closed")


async def test_checks_of_a_merge_group_have_a_lane_of_their_own(asking: Asking) -> None:
    await asking.desk.take("d-0", pull(head_sha=A))
    wish = asks(AskKind.CHECKS, number=2, head_sha=C)
    first = await asking.take("d-1", wish)
    assert (await asking.made())[1:] == [(f"2@{C}", "fix-bot", 1)]
    again = await asking.take("d-2", wish)
    assert (again.outcome, again.intent_ids) == (DUPLICATE, first.intent_ids)
    assert (await asking.desk.rows.one("change_requests"))["head_sha"] == A


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize(
    ("sender", "wish", "reason"),
    [
        (Sender(account_id=BOT, login="bot"), command(), "own-bot"),
        (Sender(account_id=PERSON, login="p"), command(), ""),
        (None, command(), ""),
        (Sender(account_id=BOT, login="bot"), rerun(number=2), "own-bot"),
        (Sender(account_id=PERSON, login="p", app_id=OUR_APP), command(), "own-bot"),
        (Sender(account_id=None, login="", app_id=OUR_APP), command(), "own-bot"),
        (Sender(account_id=PERSON, login="p"), rerun(number=2, reviewer_ids=(BOT,)), ""),
        (Sender(account_id=PERSON, login="p"), rerun(number=2, reviewer_ids=(1, OUR_APP)), ""),
        (
            Sender(account_id=PERSON, login="p"),
            rerun(number=2, reviewer_ids=(1, 2)),
            "review-of-another",
        ),
    ],
)
async def test_what_our_own_bots_caused_or_others_are_asked_makes_no_work(
    desk: Desk, sender: Sender | None, wish: WorkAsked, reason: str
) -> None:
    asking = Asking.at(desk, bot_ids=frozenset({BOT, OUR_APP}))
    taken = await asking.take("d-1", wish, sender)
    assert taken.reason == reason
    assert (await desk.rows.one("deliveries"))["reason"] == reason


@pytest.mark.guarantee("I8", "I9")
async def test_a_head_that_our_own_bot_pushed_is_recorded(desk: Desk) -> None:
    bot_id = 21031067
    asking = Asking.at(desk, bot_ids=frozenset({bot_id}))
    await desk.take("d-0", pull(head_sha=A))
    push = pull("synchronize", before=A, head_sha=B, at=1)
    pushed = await asking.tell("d-1", push)
    assert (pushed.outcome, pushed.reason) == (IGNORED, "own-bot")
    assert (await desk.rows.one("change_requests"))["head_sha"] == B
    assert [row["status"] for row in await desk.rows.all("intents")] == ["superseded"]


@pytest.mark.guarantee("I8")
async def test_events_that_an_endpoint_does_not_want_change_nothing(desk: Desk) -> None:
    asking = Asking.at(desk, wanted_events=frozenset({"issue_comment"}))
    ignored = await asking.tell("d-1", pull())
    assert (ignored.outcome, ignored.reason) == (IGNORED, "event-unwanted")
    assert await desk.rows.all("change_requests") == []


@pytest.mark.parametrize(("drafts", "outcome"), [("take", ACCEPTED), ("ignore", IGNORED)])
async def test_drafts_get_work_where_the_endpoint_takes_them(
    desk: Desk, drafts: str, outcome: DeliveryOutcome
) -> None:
    asking = Asking.at(desk, drafts=DraftPolicy(drafts))
    taken = await asking.tell("d-1", pull(draft=True))
    assert taken.outcome is outcome


async def test_two_forges_and_two_tenants_share_no_work(desk: Desk) -> None:
    for number, place in enumerate(
        ({}, {"forge_instance": "git.example.org"}, {"tenant": "other"})
    ):
        taken = await Asking.at(desk, routes=(REVIEW,), **place).tell(f"d-{number}", pull())
        assert (taken.outcome, len(taken.intent_ids)) == (ACCEPTED, 1)
    assert len(await desk.rows.all("change_requests")) == 3
