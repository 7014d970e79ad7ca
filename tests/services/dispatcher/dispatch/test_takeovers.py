"""Grants against leases that exist: taken, taken over, waited for, or settled as what they are."""

from datetime import timedelta

import pytest

from services.dispatcher.dispatch.grant_operations import Grant
from services.dispatcher.dispatch.sessions_store import Stream
from services.dispatcher.dispatch.settle_operations import Settlement
from services.dispatcher.intents.operations import Enqueue
from services.dispatcher.intents.store import NewIntent
from shared.keys import Key
from tests.rows import from_now
from tests.services.dispatcher.desk import Desk, completed, failed, settlement
from tests.services.dispatcher.desk import fence_of as fence

PAST_MS = -1000
LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.mark.guarantee("Q1")
async def test_of_two_intents_of_one_key_one_grant_leases_one(desk: Desk) -> None:
    work = await desk.ready()
    other = await desk.rival(work)
    [grant] = await desk.grant(limit=10)
    assert grant.intent.intent_id == work.intent_id
    assert await desk.place(other) in ("open ready", "open waiting")
    assert await desk.grant() == []
    assert await desk.place(other) == "open waiting"


@pytest.mark.guarantee("Q1")
async def test_two_actions_on_one_key_are_granted_side_by_side(desk: Desk) -> None:
    work = await desk.ready()
    await desk.rival(work, action="another-bot")
    assert {grant.action for grant in await desk.grant()} == {work.action, "another-bot"}


async def test_what_is_behind_many_of_one_key_does_not_wait_for_them(desk: Desk) -> None:
    held = await desk.running()
    for _ in range(5):
        await desk.rival(held)
    behind = await desk.ready()
    [grant] = await desk.grant(limit=1)
    assert grant.key == behind.key


@pytest.mark.guarantee("L1", "L2")
@pytest.mark.parametrize("state", ["free", "dead"])
async def test_a_free_or_dead_lease_is_taken_at_the_next_epoch(desk: Desk, state: str) -> None:
    work = await desk.ready()
    await desk.rows.lease(
        work, state=state, epoch=7, intent_id=4711, settled_at=LONG_AGO, attempts=4
    )
    [grant] = await desk.grant()
    assert (grant.epoch, grant.attempt) == (8, 1)
    lease = await desk.lease(work)
    assert (lease["state"], lease["epoch"], lease["settled_at"]) == ("running", 8, None)
    assert lease["intent_id"] == work.intent_id


@pytest.mark.guarantee("L1", "L2")
@pytest.mark.parametrize("state", ["free", "succeeded", "superseded", "abandoned", "dead"])
async def test_a_newer_generation_takes_any_lease_that_does_not_run(desk: Desk, state: str) -> None:
    work = await desk.ready(generation=3)
    await desk.rows.lease(
        work, state=state, epoch=4, generation=2, intent_id=4711, settled_at=LONG_AGO
    )
    [grant] = await desk.grant()
    assert (grant.epoch, grant.intent.generation) == (5, 3)


@pytest.mark.guarantee("L1", "L5")
@pytest.mark.parametrize(
    ("state", "lease_generation", "status"),
    [
        ("succeeded", 2, "duplicate"),
        ("succeeded", 3, "superseded"),
        ("superseded", 2, "superseded"),
        ("superseded", 3, "superseded"),
        ("abandoned", 2, "abandoned"),
        ("abandoned", 3, "abandoned"),
        ("free", 3, "superseded"),
        ("dead", 3, "superseded"),
    ],
)
async def test_a_generation_that_was_dealt_with_is_refused_and_settled_as_that(
    desk: Desk, state: str, lease_generation: int, status: str
) -> None:
    work = await desk.ready(generation=2)
    await desk.rows.lease(
        work,
        state=state,
        epoch=4,
        generation=lease_generation,
        intent_id=77,
        settled_at=LONG_AGO,
    )
    before = await desk.lease(work)
    assert await desk.grant() == []
    intent = await desk.intent(work)
    assert (intent["status"], intent["settled_by"]) == (status, 77)
    assert await desk.place(work) == status
    assert await desk.lease(work) == before


@pytest.mark.guarantee("L1")
async def test_a_generation_that_succeeded_is_not_granted_again_after_a_newer_one_failed(
    desk: Desk,
) -> None:
    first = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    await desk.dispatching.settle("acme", [_done(grant, stream)])
    newer = await desk.rival(first, generation=2)
    [grant] = await desk.grant(stream)
    held = fence(grant, holder=stream.session_id)
    await desk.dispatching.settle("acme", [settlement(held, failed())])
    assert (await desk.lease(first))["state"] == "free"
    again = await desk.rival(first)
    assert await desk.grant(stream) == []
    intent = await desk.intent(again)
    assert (intent["status"], intent["settled_by"]) == ("superseded", newer.intent_id)


@pytest.mark.guarantee("L5")
async def test_a_second_intent_waits_for_the_holder_without_an_attempt_and_then_is_a_duplicate(
    desk: Desk,
) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    pull = work.change_request
    assert pull is not None
    key = Key(
        forge_instance=pull.forge_instance,
        repo_id=pull.repo_id,
        number=pull.number,
        head_sha=pull.head_sha,
    )
    [other_id] = await desk.intents.enqueue(
        Enqueue(
            tenant="acme",
            request_id="r-1",
            digest=b"",
            intents=[
                NewIntent(
                    queue="reviews",
                    key=key,
                    label="",
                    action=work.action,
                    priority=0,
                    not_before=None,
                    payload=b"",
                    content_type="text/plain",
                    schema_name="",
                    traceparent="",
                )
            ],
        )
    )
    assert await desk.grant(stream) == []
    waiting = await desk.rows.one("waiting", intent_id=other_id)
    assert (waiting["waits_on"], waiting["attempts"]) == ("lease", 0)
    assert waiting["due_at"] is not None
    view = await desk.intents.get("acme", other_id)
    assert (view.status, view.attempts, view.is_waiting) == ("open", 0, True)

    [answer] = await desk.dispatching.settle("acme", [_done(grant, stream)])
    assert answer.refusal is None
    assert [row["intent_id"] for row in await desk.rows.all("ready")] == [other_id]
    assert await desk.grant(stream) == []
    other = await desk.rows.one("intents", intent_id=other_id)
    assert (other["status"], other["attempts"], other["settled_by"]) == (
        *("duplicate", 0, work.intent_id),
    )
    assert other["reason"]
    assert [row["epoch"] for row in await desk.rows.all("dispatches")] == [1]


def _done(grant: Grant, stream: Stream) -> Settlement:
    return settlement(fence(grant, holder=stream.session_id), completed())


@pytest.mark.guarantee("L1", "L5")
@pytest.mark.parametrize("lease_generation", [1, 2, 3])
async def test_a_running_lease_in_its_time_is_not_taken_by_any_generation(
    desk: Desk, lease_generation: int
) -> None:
    work = await desk.running(generation=lease_generation)
    other = await desk.rival(work, generation=2)
    before = await desk.lease(work)
    assert await desk.grant() == []
    assert await desk.lease(work) == before
    waiting = await desk.rows.one("waiting", intent_id=other.intent_id)
    assert (waiting["waits_on"], waiting["attempts"]) == ("lease", 0)


@pytest.mark.guarantee("L5")
async def test_whoever_waits_for_a_holder_looks_again_after_the_cap(desk: Desk) -> None:
    await desk.rival(await desk.running())
    before = await desk.now()
    assert await desk.grant() == []
    after = await desk.now()
    due_at = (await desk.rows.one("waiting"))["due_at"]
    cap = timedelta(milliseconds=desk.settings.holder_wait_max_ms)
    assert before + cap <= due_at <= after + cap


@pytest.mark.guarantee("L1", "L2")
async def test_a_lease_past_its_time_is_taken_over_and_the_displaced_intent_is_joined(
    desk: Desk,
) -> None:
    work = await desk.running(claimable_in_ms=PAST_MS, epoch=3, attempts=2)
    other = await desk.rival(work)
    stream = await desk.stream()
    [grant] = await desk.grant(stream)
    assert (grant.intent.intent_id, grant.epoch, grant.attempt) == (other.intent_id, 4, 1)
    lease = await desk.lease(work)
    assert (lease["epoch"], lease["holder"]) == (4, stream.session_id)
    displaced = await desk.intent(work)
    assert (displaced["status"], displaced["settled_by"]) == ("joined", other.intent_id)
    assert displaced["attempts"] == 2
    history = await desk.rows.one("dispatches")
    assert history == {
        **history,
        "epoch": 3,
        "intent_id": work.intent_id,
        "holder": "holder-1",
        "attempt": 2,
        "outcome": "displaced",
        "disposition": None,
    }


@pytest.mark.guarantee("L1")
async def test_an_older_generation_takes_nothing_over(desk: Desk) -> None:
    work = await desk.running(generation=3, claimable_in_ms=PAST_MS)
    other = await desk.rival(work, generation=2)
    assert await desk.grant() == []
    assert await desk.place(other) == "open waiting"
    assert (await desk.intent(work))["status"] == "open"


@pytest.mark.guarantee("L2")
async def test_each_grant_of_a_key_raises_the_epoch_by_one(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    epochs = []
    for _ in range(4):
        [grant] = await desk.grant(stream)
        epochs.append(grant.epoch)
        await desk.rows.change("leases", {"key": work.key}, claimable_at=from_now(PAST_MS))
        await desk.expire()
    assert epochs == [1, 2, 3, 4]
