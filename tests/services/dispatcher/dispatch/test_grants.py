"""Grants on a real database, as the dispatcher's role: who gets what, and what of the rest."""

from typing import Any

import pytest
from fencepost.errors import ResourceNotFound
from psycopg import sql

from services.dispatcher.dispatch.sessions_store import Stream
from services.dispatcher.intents.operations import Enqueue
from services.dispatcher.intents.store import NewIntent
from shared.keys import Key
from tests.rows import Row, Rows, Work, from_now
from tests.services.dispatcher.desk import LEASE_MS, Desk, completed, new_session, settlement
from tests.services.dispatcher.desk import fence_of as fence

PAST = -1000
LONG_AGO = "2026-01-01T00:00:00Z"


async def place(rows: Rows, work: Work) -> str:
    """Where an intent stands, by the tables that hold it."""
    tables = [
        table
        for table in ("ready", "waiting", "leases")
        if await rows.all(table, intent_id=work.intent_id)
    ]
    status: str = (await rows.one("intents", intent_id=work.intent_id))["status"]
    return " ".join([status, *tables])


def settled(intent: Row) -> tuple[str, int | None]:
    return intent["status"], intent["settled_by"]


async def test_a_grant_leases_the_intent_and_says_all_that_a_worker_needs(desk: Desk) -> None:
    work = await desk.ready(payload=b'{"a": 1}', schema_name="a.v1", traceparent="00-1-1-01")
    stream = await desk.stream()
    [grant] = await desk.grant(stream, grant_id="grant-1")
    assert (grant.key, grant.action, grant.queue) == (work.key, work.action, "reviews")
    assert (grant.epoch, grant.attempt, grant.lease_ms) == (1, 1, LEASE_MS)
    assert (grant.load.payload, grant.load.checkpoint_version) == (b'{"a": 1}', 0)
    intent = grant.intent
    assert (intent.intent_id, intent.key_label) == (work.intent_id, work.key_label)
    assert (intent.schema_name, intent.traceparent) == ("a.v1", "00-1-1-01")
    pull = work.change_request
    assert pull is not None
    assert (intent.repo_id, intent.number, intent.head_sha) == (
        *(pull.repo_id, pull.number, pull.head_sha),
    )
    lease = await desk.lease(work)
    assert lease == {
        **lease,
        "state": "running",
        "generation": 1,
        "epoch": 1,
        "holder": stream.session_id,
        "session_id": stream.session_id,
        "intent_id": work.intent_id,
        "attempts": 1,
        "grant_id": "grant-1",
        "lease_ms": LEASE_MS,
        "settled_at": None,
    }
    assert (lease["claimable_at"] - lease["granted_at"]).total_seconds() == pytest.approx(
        LEASE_MS / 1000, abs=1
    )
    assert await place(desk.rows, work) == "open leases"


async def test_what_waits_is_granted_by_priority_then_by_the_order_of_queues_then_of_arrival(
    desk: Desk,
) -> None:
    low = await desk.ready(priority=-1)
    first, second = await desk.ready(), await desk.ready()
    other = await desk.ready(queue="other")
    urgent = await desk.ready(priority=5)
    stream = await desk.stream()
    granted = [
        (await desk.grant(stream, queues=["other", "reviews"], limit=1))[0].key for _ in range(5)
    ]
    assert granted == [each.key for each in (urgent, other, first, second, low)]
    assert await desk.grant(stream, queues=["other", "reviews"]) == []


async def test_one_grant_lists_them_in_the_same_order(desk: Desk) -> None:
    last = await desk.ready(priority=-1)
    works = [await desk.ready() for _ in range(3)]
    granted = await desk.grant(limit=10)
    assert [grant.key for grant in granted] == [each.key for each in (*works, last)]


async def test_no_more_is_granted_than_there_is_room_for(desk: Desk) -> None:
    works = [await desk.ready() for _ in range(3)]
    assert len(await desk.grant(limit=2)) == 2
    assert await place(desk.rows, works[2]) == "open ready"


async def test_other_queues_are_left_alone(desk: Desk) -> None:
    work = await desk.ready(queue="other")
    assert await desk.grant(queues=["reviews", "more"]) == []
    assert await place(desk.rows, work) == "open ready"


@pytest.mark.guarantee("X8")
async def test_another_tenants_work_is_never_granted(desk: Desk) -> None:
    theirs = Rows(desk.rows.connection, tenant="theirs")
    work = await theirs.intent()
    await theirs.ready(work)
    assert await desk.grant() == []
    assert await place(desk.rows, work) == "open ready"
    [grant] = await desk.grant(await desk.stream(tenant="theirs"))
    assert grant.key == work.key


@pytest.mark.guarantee("X8")
async def test_the_same_key_of_two_tenants_is_two_keys(desk: Desk) -> None:
    mine = await desk.running()
    theirs = Rows(desk.rows.connection, tenant="theirs")
    same = {"key": mine.key, "action": mine.action}
    await theirs.ready(await theirs.bare_intent(**same))
    [grant] = await desk.grant(await desk.stream(tenant="theirs"))
    assert (grant.key, grant.epoch) == (mine.key, 1)
    assert (await desk.lease(mine))["epoch"] == 1


async def second_intent(desk: Desk, work: Work, **values: Any) -> Work:
    """Another intent for the same key and action, as EnqueueIntents may add."""
    values = {"suffix": work.suffix, "action": work.action, **values}
    return await desk.rows.intent(work.change_request, **values)


async def rival(desk: Desk, work: Work, **values: Any) -> Work:
    """The same, ready to be granted."""
    other = await second_intent(desk, work, **values)
    await desk.rows.ready(other)
    return other


@pytest.mark.guarantee("Q1")
async def test_of_two_intents_of_one_key_one_grant_leases_one(desk: Desk) -> None:
    work = await desk.ready()
    other = await rival(desk, work)
    [grant] = await desk.grant(limit=10)
    assert grant.intent.intent_id == work.intent_id
    assert await place(desk.rows, other) in ("open ready", "open waiting")
    assert await desk.grant() == []
    assert await place(desk.rows, other) == "open waiting"


@pytest.mark.guarantee("Q1")
async def test_two_actions_on_one_key_are_granted_side_by_side(desk: Desk) -> None:
    work = await desk.ready()
    await rival(desk, work, action="another-bot")
    assert {grant.action for grant in await desk.grant()} == {work.action, "another-bot"}


async def test_what_is_behind_many_of_one_key_does_not_wait_for_them(desk: Desk) -> None:
    held = await desk.running()
    for _ in range(5):
        await rival(desk, held)
    behind = await desk.ready()
    [grant] = await desk.grant(limit=1)
    assert grant.key == behind.key


@pytest.mark.guarantee("L1", "L2")
@pytest.mark.parametrize("state", ["free", "dead"])
async def test_a_free_or_dead_lease_is_taken_at_the_next_epoch(desk: Desk, state: str) -> None:
    work = await desk.ready()
    await desk.rows.lease(work, state=state, epoch=7, intent_id=1, settled_at=LONG_AGO, attempts=4)
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
        work, state=state, epoch=4, generation=2, intent_id=1, settled_at=LONG_AGO
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
    assert settled(await desk.intent(work)) == (status, 77)
    assert await place(desk.rows, work) == status
    assert await desk.lease(work) == before


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


def _done(grant: Any, stream: Stream) -> Any:
    return settlement(fence(grant, holder=stream.session_id), completed())


@pytest.mark.guarantee("L1", "L5")
@pytest.mark.parametrize("lease_generation", [1, 2, 3])
async def test_a_running_lease_in_its_time_is_not_taken_by_any_generation(
    desk: Desk, lease_generation: int
) -> None:
    work = await desk.running(generation=lease_generation)
    other = await rival(desk, work, generation=2)
    before = await desk.lease(work)
    assert await desk.grant() == []
    assert await desk.lease(work) == before
    waiting = await desk.rows.one("waiting", intent_id=other.intent_id)
    assert (waiting["waits_on"], waiting["attempts"]) == ("lease", 0)


@pytest.mark.guarantee("L1", "L2")
async def test_a_lease_past_its_time_is_taken_over_and_the_displaced_intent_is_joined(
    desk: Desk,
) -> None:
    work = await desk.running(claimable_in_ms=PAST, epoch=3, attempts=2)
    other = await rival(desk, work)
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
    work = await desk.running(generation=3, claimable_in_ms=PAST)
    other = await rival(desk, work, generation=2)
    assert await desk.grant() == []
    assert await place(desk.rows, other) == "open waiting"
    assert (await desk.intent(work))["status"] == "open"


@pytest.mark.guarantee("L2")
async def test_each_grant_of_a_key_raises_the_epoch_by_one(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    epochs = []
    for _ in range(4):
        [grant] = await desk.grant(stream)
        epochs.append(grant.epoch)
        await desk.rows.change("leases", {"key": work.key}, claimable_at=from_now(PAST))
        await desk.expire()
    assert epochs == [1, 2, 3, 4]


@pytest.mark.guarantee("L1")
@pytest.mark.parametrize(
    ("marks", "status"),
    [({"superseded_through": 2}, "superseded"), ({"abandoned_through": 3}, "abandoned")],
)
async def test_what_the_change_request_no_longer_wants_is_settled_and_not_granted(
    desk: Desk, marks: dict[str, int], status: str
) -> None:
    pull = await desk.rows.change_request(generation=3, **marks)
    old = await desk.rows.intent(pull, generation=2)
    await desk.rows.ready(old, attempts=2)
    assert await desk.grant() == []
    row = await desk.intent(old)
    assert (row["status"], row["attempts"], row["settled_by"]) == (status, 2, None)
    assert await place(desk.rows, old) == status
    assert await desk.rows.all("leases") == []


async def test_a_generation_beyond_the_mark_is_granted(desk: Desk) -> None:
    pull = await desk.rows.change_request(generation=3, superseded_through=2)
    await desk.rows.ready(await desk.rows.intent(pull))
    assert len(await desk.grant()) == 1


async def test_an_intent_that_was_settled_while_it_waited_is_dropped(desk: Desk) -> None:
    work = await desk.ready()
    await desk.rows.change(
        "intents", {"intent_id": work.intent_id}, status="cancelled", settled_at=LONG_AGO
    )
    assert await desk.grant() == []
    assert await place(desk.rows, work) == "cancelled"


async def test_the_latest_checkpoint_is_named(desk: Desk) -> None:
    work = await desk.ready()
    await desk.rows.run(work, version=6)
    [grant] = await desk.grant()
    assert grant.load.checkpoint_version == 6


async def test_the_payload_of_a_delivery_is_its_body(desk: Desk) -> None:
    delivery = await desk.rows.delivery(body=b'{"action": "opened"}')
    await desk.ready(delivery_seq=delivery["delivery_seq"])
    [grant] = await desk.grant()
    assert grant.load.payload == b'{"action": "opened"}'


async def test_large_payloads_stay_behind_and_all_together_keep_a_limit(desk: Desk) -> None:
    limit, total = desk.settings.payload_inline_limit_bytes, desk.settings.frame_bytes_max
    large = await desk.ready(payload=b"x" * (limit + 1))
    whole = [await desk.ready(payload=b"x" * limit) for _ in range(total // limit)]
    beyond = await desk.ready(payload=b"x" * limit)
    grants = {grant.key: grant for grant in await desk.grant()}
    assert grants[large.key].load.payload is None
    assert [len(grants[each.key].load.payload or b"") for each in whole] == [limit] * len(whole)
    assert grants[beyond.key].load.payload is None
    stream_id = (await desk.lease(large))["holder"]
    fetched = await desk.dispatching.fetch_payload(
        "acme", fence(grants[large.key], holder=stream_id)
    )
    assert fetched == b"x" * (limit + 1)


async def test_a_session_that_went_to_another_stream_gets_nothing_and_leaves_all_in_place(
    desk: Desk,
) -> None:
    work = await desk.ready()
    session = new_session()
    await desk.dispatching.open_session(session, resume=False)
    stream = Stream(tenant="acme", session_id=session.session_id, place=session.place)
    moved = new_session(session_id=session.session_id)
    await desk.dispatching.open_session(moved, resume=True)
    with pytest.raises(ResourceNotFound):
        await desk.grant(stream)
    assert await place(desk.rows, work) == "open ready"


@pytest.mark.guarantee("X6")
async def test_a_grant_is_found_again_by_its_id(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    [grant] = await desk.grant(stream, grant_id="g-1")
    [found] = await desk.dispatching.granted(stream, grant_id="g-1")
    assert (found.epoch, found.attempt, found.key) == (grant.epoch, grant.attempt, work.key)
    assert 0 < found.lease_ms <= LEASE_MS
    assert await desk.dispatching.granted(stream, grant_id="g-2") == []


@pytest.mark.guarantee("X6")
async def test_a_lease_that_is_no_longer_held_is_not_found_again(desk: Desk) -> None:
    work = await desk.ready()
    stream = await desk.stream()
    await desk.grant(stream, grant_id="g-1")
    settled_at = sql.SQL("clock_timestamp()")
    await desk.rows.change("leases", {"key": work.key}, state="free", settled_at=settled_at)
    assert await desk.dispatching.granted(stream, grant_id="g-1") == []
