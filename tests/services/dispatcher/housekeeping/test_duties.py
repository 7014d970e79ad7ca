"""The mover and the expiry: what they make ready, what they bury, what they leave alone."""

import asyncio
import dataclasses

import pytest

from tests.rows import Rows, from_now
from tests.services.dispatcher.desk import Desk


async def ready_ids(desk: Desk) -> list[int]:
    """Intents in line, in their order."""
    rows = sorted(await desk.rows.all("ready"), key=lambda row: row["number"])
    return [row["intent_id"] for row in rows]


async def test_what_is_due_becomes_ready_in_the_order_of_its_time(desk: Desk) -> None:
    works = [await desk.rows.intent(queue="q", priority=3) for _ in range(4)]
    for work, due_in_ms in zip(works, (-100, -300, 60_000, -200), strict=True):
        await desk.rows.waiting(work, due_in_ms=due_in_ms, attempts=2)
    await desk.move()
    order = [works[n].intent_id for n in (1, 3, 0)]
    assert await ready_ids(desk) == order
    assert [row["intent_id"] for row in await desk.rows.all("waiting")] == [works[2].intent_id]
    row = await desk.rows.one("ready", intent_id=works[0].intent_id)
    assert (row["queue"], row["priority"], row["attempts"]) == ("q", 3, 2)
    assert (row["key"], row["action"]) == (works[0].key, works[0].action)


@pytest.mark.guarantee("L5")
async def test_who_waits_for_a_holder_waits_no_longer_than_the_cap(desk: Desk) -> None:
    work = await desk.rows.intent()
    await desk.rows.waiting(work, waits_on="lease", due_in_ms=-1)
    await desk.move()
    assert await ready_ids(desk) == [work.intent_id]


@pytest.mark.guarantee("I7")
async def test_what_waits_for_its_head_is_never_ready(desk: Desk) -> None:
    work = await desk.rows.intent(suffix="manual-9", head_sha=None)
    await desk.rows.waiting(work, waits_on="head", due_in_ms=-1)
    await desk.move()
    assert await ready_ids(desk) == []
    assert await desk.place(work) == "open waiting"


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize(
    ("attempt", "moves"),
    [("running", False), ("uncertain", False), ("succeeded", True), ("refused", True)],
)
async def test_who_waits_for_a_publication_waits_for_its_settlement(
    desk: Desk, attempt: str, moves: bool
) -> None:
    work = await desk.rows.intent()
    publication = await desk.rows.publication(work)
    await desk.rows.attempt(publication, status="refused", attempt=1)
    await desk.rows.attempt(publication, status=attempt, attempt=2)
    await desk.rows.waiting(
        work, waits_on="publication", publication_id=publication["publication_id"]
    )
    await desk.move()
    assert await ready_ids(desk) == ([work.intent_id] if moves else [])


async def test_sessions_of_the_queues_hear_of_it(desk: Desk) -> None:
    await desk.rows.waiting(await desk.rows.intent(queue="mine"), due_in_ms=-1)
    mine, other = asyncio.Event(), asyncio.Event()
    with (
        desk.wakeups.listening("acme", ["mine"], mine),
        desk.wakeups.listening("acme", ["other"], other),
    ):
        await desk.move()
    assert (mine.is_set(), other.is_set()) == (True, False)


async def test_a_tick_takes_a_page_and_says_that_there_is_more(
    desk: Desk,
) -> None:
    few = desk.settings.model_copy(update={"duty_batch_max": 2})
    desk = dataclasses.replace(desk, settings=few)
    for _ in range(3):
        await desk.rows.waiting(await desk.rows.intent(), due_in_ms=-1)
    assert await desk.move()
    assert not await desk.move()
    works = [await desk.running(claimable_in_ms=-1) for _ in range(3)]
    assert await desk.expire()
    assert not await desk.expire()
    assert {(await desk.lease(work))["state"] for work in works} == {"free"}


@pytest.mark.guarantee("L2")
async def test_the_intent_of_a_lease_past_its_time_is_put_back_with_its_attempt(
    desk: Desk,
) -> None:
    late = await desk.running(claimable_in_ms=-1, epoch=3, attempts=2)
    in_time = await desk.running()
    await desk.expire()
    lease = await desk.lease(late)
    assert (lease["state"], lease["epoch"], lease["settled_at"] is None) == ("free", 3, False)
    assert await ready_ids(desk) == [late.intent_id]
    assert (await desk.rows.one("ready"))["attempts"] == 2
    assert (await desk.intent(late))["status"] == "open"
    history = await desk.rows.one("dispatches")
    assert (history["outcome"], history["epoch"], history["attempt"]) == ("displaced", 3, 2)
    assert (await desk.lease(in_time))["state"] == "running"
    [grant] = await desk.grant()
    assert (grant.epoch, grant.attempt) == (4, 3)


@pytest.mark.guarantee("L2")
async def test_one_that_is_out_of_attempts_is_dead(desk: Desk) -> None:
    spent = await desk.running(claimable_in_ms=-1, attempts=desk.settings.attempts_max)
    await desk.expire()
    intent = await desk.intent(spent)
    assert ((await desk.lease(spent))["state"], intent["status"]) == ("dead", "dead")
    assert intent["attempts"] == desk.settings.attempts_max
    assert "ran out" in intent["reason"]
    assert await ready_ids(desk) == []


@pytest.mark.guarantee("L5")
async def test_who_waited_for_that_holder_is_ready(desk: Desk) -> None:
    late = await desk.running(claimable_in_ms=-1)
    waiter = await desk.rows.intent(late.change_request, queue="slow")
    await desk.rows.waiting(waiter, waits_on="lease")
    slow = asyncio.Event()
    with desk.wakeups.listening("acme", ["slow"], slow):
        await desk.expire()
    assert slow.is_set()
    assert set(await ready_ids(desk)) == {late.intent_id, waiter.intent_id}


@pytest.mark.guarantee("X8")
async def test_leases_of_several_tenants_run_out_together(desk: Desk) -> None:
    mine = await desk.running(claimable_in_ms=-1)
    theirs = Rows(desk.rows.connection, tenant="theirs")
    same_key = await theirs.lease(
        await theirs.bare_intent(key=mine.key, action=mine.action), claimable_in_ms=-1
    )
    spent = await theirs.lease(
        await theirs.intent(), claimable_in_ms=-1, attempts=desk.settings.attempts_max
    )
    await desk.expire()
    ready = {(row["tenant"], row["intent_id"]) for row in await desk.rows.all("ready")}
    assert ready == {("acme", mine.intent_id), ("theirs", same_key.intent_id)}
    assert (await desk.intent(spent))["status"] == "dead"
    assert {row["state"] for row in await desk.rows.all("leases")} == {"free", "dead"}


async def test_a_renewed_lease_does_not_run_out(desk: Desk) -> None:
    work = await desk.running(claimable_in_ms=-1)
    await desk.rows.change("leases", {"key": work.key}, claimable_at=from_now(1000))
    await desk.expire()
    assert (await desk.lease(work))["state"] == "running"
