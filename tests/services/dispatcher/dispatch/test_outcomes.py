"""What each outcome does, on a real database as the dispatcher's role."""

import asyncio
import dataclasses

import pytest

from services.dispatcher.dispatch.settle_operations import Outcome
from shared.schema.states import Disposition
from tests.rows import Rows, from_now
from tests.services.dispatcher.desk import (
    OUTCOMES,
    Desk,
    completed,
    failed,
    fence_of,
    released,
    settlement,
    span,
)


async def test_success_ends_lease_and_intent_with_the_result(desk: Desk) -> None:
    work = await desk.running(attempts=2)
    assert (await desk.settle(work, completed(result=b"fine"))).refusal is None
    lease, intent = await desk.lease(work), await desk.intent(work)
    assert (lease["state"], lease["epoch"], lease["settled_at"] is None) == ("succeeded", 1, False)
    assert (intent["status"], intent["result"], intent["attempts"]) == ("succeeded", b"fine", 2)
    history = await desk.rows.one("dispatches")
    assert history == {
        **history,
        "outcome": "completed",
        "disposition": None,
        "epoch": 1,
        "attempt": 2,
        "holder": "holder-1",
        "intent_id": work.intent_id,
        "granted_at": lease["granted_at"],
    }


async def test_a_transient_failure_waits_for_its_retry_with_its_attempt_charged(
    desk: Desk,
) -> None:
    work = await desk.running(attempts=2)
    await desk.settle(work, failed(reason="no network"))
    assert (await desk.lease(work))["state"] == "free"
    assert (await desk.intent(work))["status"] == "open"
    waiting = await desk.rows.one("waiting")
    assert (waiting["waits_on"], waiting["attempts"], waiting["reason"]) == (
        *("time", 2, "no network"),
    )
    delay_s = (waiting["due_at"] - waiting["since"]).total_seconds()
    assert delay_s == pytest.approx(desk.settings.retry_delay_ms / 1000, abs=1)


@pytest.mark.parametrize("disposition", [Disposition.TRANSIENT, Disposition.BLOCKED])
async def test_a_failure_may_say_when_to_try_again(desk: Desk, disposition: Disposition) -> None:
    work = await desk.running()
    await desk.settle(work, failed(disposition, retry_after_ms=5000))
    waiting = await desk.rows.one("waiting")
    assert (waiting["due_at"] - waiting["since"]).total_seconds() == pytest.approx(5, abs=1)


async def test_a_permanent_failure_is_dead_with_its_reason(desk: Desk) -> None:
    work = await desk.running()
    await desk.settle(work, failed(Disposition.PERMANENT, reason="no such repository."))
    intent = await desk.intent(work)
    assert ((await desk.lease(work))["state"], intent["status"]) == ("dead", "dead")
    assert intent["reason"].startswith("no such repository (")
    assert await desk.rows.all("waiting") == []


@pytest.mark.guarantee("I14")
async def test_what_dies_leaves_its_dead_letter_in_the_same_transaction(desk: Desk) -> None:
    dead, alive = await desk.running(attempts=2), await desk.running()
    await desk.settle(dead, failed(Disposition.PERMANENT, reason="no such repository"))
    await desk.settle(alive, failed())
    letter = await desk.rows.one("dead_letters")
    intent = await desk.intent(dead)
    told = ("intent_id", "tenant", "queue", "key", "key_label", "action", "generation")
    assert {name: letter[name] for name in told} == {name: intent[name] for name in told}
    assert (letter["attempts"], letter["redriven_as"]) == (2, None)
    assert letter["reason"] == intent["reason"] != ""
    stamped = "SELECT xmin::text FROM fencepost.{} WHERE intent_id = {}"
    assert (
        len(
            {
                await (
                    await desk.rows.connection.execute(stamped.format(table, dead.intent_id))
                ).fetchone()
                for table in ("intents", "dead_letters")
            }
        )
        == 1
    )


async def test_out_of_attempts_is_dead(desk: Desk) -> None:
    work = await desk.running(attempts=desk.settings.attempts_max)
    await desk.settle(work, failed())
    intent = await desk.intent(work)
    assert (intent["status"], intent["attempts"]) == ("dead", desk.settings.attempts_max)


async def test_what_fails_deterministically_twice_is_dead(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    for expected in ("open", "dead"):
        [grant] = await desk.grant(stream)
        fence = fence_of(grant, holder=stream.session_id)
        [answer] = await desk.dispatching.settle(
            "acme", [settlement(fence, failed(Disposition.DETERMINISTIC, retry_after_ms=0))]
        )
        assert answer.refusal is None
        assert (await desk.intent(work))["status"] == expected
    assert [row["disposition"] for row in await desk.rows.all("dispatches")] == [
        "deterministic",
        "deterministic",
    ]


@pytest.mark.parametrize("outcome", [released(), failed(Disposition.BLOCKED)], ids=repr)
async def test_release_and_blocking_cost_no_attempt(desk: Desk, outcome: Outcome) -> None:
    work = await desk.running(attempts=3)
    await desk.settle(work, outcome)
    assert (await desk.rows.one("waiting"))["attempts"] == 2
    assert (await desk.lease(work))["state"] == "free"


@pytest.mark.parametrize("outcome", [released(delay_ms=0), failed(retry_after_ms=0)], ids=repr)
async def test_what_need_not_wait_is_ready_at_once_and_sessions_hear_of_it(
    desk: Desk, outcome: Outcome
) -> None:
    work = await desk.running(attempts=2)
    heard = asyncio.Event()
    with desk.wakeups.listening("acme", ["reviews"], heard):
        await desk.settle(work, outcome)
    assert heard.is_set()
    assert await desk.place(work) == "open ready leases"
    charged = 1 if outcome == released(delay_ms=0) else 2
    assert (await desk.rows.one("ready"))["attempts"] == charged


async def test_released_work_comes_back_after_its_delay_at_the_next_epoch(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    fence = fence_of(grant, holder=stream.session_id)
    await desk.dispatching.settle("acme", [settlement(fence, released(delay_ms=60_000))])
    await desk.move()
    assert await desk.grant(stream) == []
    await desk.rows.change("waiting", {"intent_id": work.intent_id}, due_at=from_now(-1))
    await desk.move()
    [again] = await desk.grant(stream)
    assert (again.epoch, again.attempt) == (2, 1)


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize("status", ["running", "uncertain"])
async def test_blocked_work_parks_on_the_publication_in_doubt_until_it_is_settled(
    desk: Desk, status: str
) -> None:
    work = await desk.running(attempts=1)
    publication = await desk.rows.publication(work)
    await desk.rows.attempt(publication, status=status)
    settled = await desk.rows.publication(work, ordinal=1)
    await desk.rows.attempt(settled)
    await desk.settle(work, failed(Disposition.BLOCKED))
    waiting = await desk.rows.one("waiting")
    assert (waiting["waits_on"], waiting["publication_id"], waiting["attempts"]) == (
        *("publication", publication["publication_id"], 0),
    )
    await desk.move()
    assert await desk.grant() == []
    await desk.rows.change(
        "publication_attempts",
        {"publication_id": publication["publication_id"]},
        status="succeeded",
        settled_at=from_now(0),
        remote_id="1",
    )
    await desk.move()
    [grant] = await desk.grant()
    assert (grant.intent.intent_id, grant.attempt) == (work.intent_id, 1)


@pytest.mark.guarantee("P2")
async def test_a_publication_of_other_work_parks_nothing(desk: Desk) -> None:
    work = await desk.running()
    other = await desk.running()
    theirs = Rows(desk.rows.connection, tenant="theirs")
    same_key = await theirs.bare_intent(key=work.key, action=work.action)
    for elsewhere in (other, same_key, dataclasses.replace(work, generation=2)):
        publication = await desk.rows.publication(elsewhere)
        await desk.rows.attempt(publication, status="uncertain")
    await desk.settle(work, failed(Disposition.BLOCKED))
    assert (await desk.rows.one("waiting"))["waits_on"] == "time"


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_whoever_waits_for_the_holder_is_ready_when_it_ends(
    desk: Desk, outcome: Outcome
) -> None:
    work = await desk.running()
    mine = await desk.rows.intent(work.change_request)
    await desk.rows.waiting(mine, waits_on="lease", attempts=3)
    on_time = await desk.rows.intent(work.change_request)
    await desk.rows.waiting(on_time)
    other_action = await desk.rows.intent(work.change_request, action="another-bot")
    await desk.rows.waiting(other_action, waits_on="lease")
    theirs = Rows(desk.rows.connection, tenant="theirs")
    their_intent = await theirs.bare_intent(key=work.key, action=work.action)
    await theirs.waiting(their_intent, waits_on="lease")
    await desk.settle(work, outcome)
    ready = await desk.rows.one("ready")
    assert (ready["intent_id"], ready["attempts"]) == (mine.intent_id, 3)


async def test_many_outcomes_of_all_kinds_are_recorded_together(desk: Desk) -> None:
    works = [await desk.running() for _ in OUTCOMES]
    items = [settlement(fence_of(w), o) for w, o in zip(works, OUTCOMES, strict=True)]
    answers = await desk.dispatching.settle("acme", items)
    assert [answer.refusal for answer in answers] == [None] * len(OUTCOMES)
    states = [(await desk.lease(work))["state"] for work in works]
    assert states == ["succeeded", "free", "dead", "free", "free"]


async def test_the_last_spans_are_stored_with_the_outcome_under_the_workers_service(
    desk: Desk,
) -> None:
    work = await desk.ready()
    stream = await desk.stream(labels={"service.name": "my-bot"})
    [grant] = await desk.grant(stream)
    fence = fence_of(grant, holder=stream.session_id)
    spans = [span(work, 1), span(work, 2), span(work, 1)]
    await desk.dispatching.settle("acme", [settlement(fence, completed(), spans=spans)])
    stored = await desk.rows.all("run_spans")
    assert [(row["span_id"], row["service_name"]) for row in stored] == [
        (bytes([1]) * 8, "my-bot"),
        (bytes([2]) * 8, "my-bot"),
    ]


async def test_sessions_hear_of_work_that_had_waited_for_what_ended(desk: Desk) -> None:
    work = await desk.running()
    waiter = await desk.rows.intent(work.change_request, queue="slow-queue")
    await desk.rows.waiting(waiter, waits_on="lease")
    slow, other = asyncio.Event(), asyncio.Event()
    with (
        desk.wakeups.listening("acme", ["slow-queue"], slow),
        desk.wakeups.listening("acme", ["x"], other),
    ):
        await desk.settle(work, completed())
    assert (slow.is_set(), other.is_set()) == (True, False)
