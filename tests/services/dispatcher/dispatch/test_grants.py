"""Grants on a real database, as the dispatcher's role: who gets what, and what of the rest."""

import pytest
from fencepost.errors import ResourceNotFound
from psycopg import sql

from services.dispatcher.dispatch.sessions_store import Stream
from tests.rows import Rows
from tests.services.dispatcher.desk import LEASE_MS, Desk, new_session
from tests.services.dispatcher.desk import fence_of as fence

LONG_AGO = "2026-01-01T00:00:00Z"


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
    assert await desk.place(work) == "open leases"


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
    assert await desk.place(works[2]) == "open ready"


async def test_other_queues_are_left_alone(desk: Desk) -> None:
    work = await desk.ready(queue="other")
    assert await desk.grant(queues=["reviews", "more"]) == []
    assert await desk.place(work) == "open ready"


@pytest.mark.guarantee("X8")
async def test_another_tenants_work_is_never_granted(desk: Desk) -> None:
    theirs = Rows(desk.rows.connection, tenant="theirs")
    work = await theirs.intent()
    await theirs.ready(work)
    assert await desk.grant() == []
    assert await desk.place(work) == "open ready"
    [grant] = await desk.grant(await desk.stream(tenant="theirs"))
    assert grant.key == work.key


@pytest.mark.guarantee("X8")
async def test_another_tenants_work_beside_ours_is_never_granted(desk: Desk) -> None:
    theirs = Rows(desk.rows.connection, tenant="theirs")
    their_work = await theirs.intent()
    await theirs.ready(their_work)
    work = await desk.ready()
    assert [grant.key for grant in await desk.grant()] == [work.key]
    assert await desk.place(their_work) == "open ready"


@pytest.mark.guarantee("Q1")
async def test_intents_of_one_key_at_several_priorities_are_granted_one_at_a_time(
    desk: Desk,
) -> None:
    first = await desk.ready()
    await desk.rival(first, priority=5)
    await desk.rival(first, queue="other", priority=5)
    [grant] = await desk.grant(queues=["reviews", "other"])
    assert (grant.key, grant.queue) == (first.key, "reviews")
    assert (await desk.lease(first))["priority"] == 5


@pytest.mark.guarantee("X8")
async def test_the_same_key_of_two_tenants_is_two_keys(desk: Desk) -> None:
    mine = await desk.running()
    theirs = Rows(desk.rows.connection, tenant="theirs")
    same = {"key": mine.key, "action": mine.action}
    await theirs.ready(await theirs.bare_intent(**same))
    [grant] = await desk.grant(await desk.stream(tenant="theirs"))
    assert (grant.key, grant.epoch) == (mine.key, 1)
    assert (await desk.lease(mine))["epoch"] == 1


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
    assert await desk.place(old) == status
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
    assert await desk.place(work) == "cancelled"


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
    assert await desk.place(work) == "open ready"


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
