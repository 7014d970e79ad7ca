"""Grants against each other, a takeover, a new head, a session that moves: each race is forced."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from fencepost.errors import DatabaseUnavailable, ResourceNotFound

from services.dispatcher.dispatch.grant_operations import Grant
from services.dispatcher.dispatch.operations import stream_of
from services.dispatcher.intents.operations import Enqueue
from services.dispatcher.intents.store import NewIntent
from shared.metrics import DATABASE_CONFLICTS
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Work
from tests.services.dispatcher.desk import (
    Desk,
    completed,
    fence_of,
    new_session,
    opened,
    settlement,
)
from tests.waiting import until

LOCK_LEASE = "SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
LOCK_INTENT = "SELECT 1 FROM fencepost.intents WHERE intent_id = %(intent_id)s FOR UPDATE"
LONG_AGO = "2026-01-01T00:00:00Z"
NEW_LEASE = """
    INSERT INTO fencepost.leases (tenant, key, action, generation, state, epoch, holder, intent_id,
        queue, priority, attempts, grant_id, lease_ms, granted_at, renewed_at, claimable_at,
        settled_at)
    VALUES ('acme', %(key)s, %(action)s, 1, %(state)s, 1, 'quick', 4711, 'reviews', 0, 1, 'g',
        60000, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute',
        CASE WHEN %(state)s = 'running' THEN NULL ELSE clock_timestamp() END)
"""
NEW_HEAD = """
    UPDATE fencepost.change_requests SET generation = 2, superseded_through = 1
    WHERE repo_id = %(repo_id)s
"""


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


def granted(outcomes: Sequence[list[Grant] | BaseException]) -> list[Grant]:
    """What all rivals together were granted."""
    lists = [outcome for outcome in outcomes if isinstance(outcome, list)]
    assert len(lists) == len(outcomes), outcomes
    return [grant for grants in lists for grant in grants]


async def rivals(desk: Desk, work: Work, count: int = 2) -> list[Work]:
    """Intents for one key, each in line for a worker of its own."""
    return [work, *[await desk.rival(work) for _ in range(count - 1)]]


@pytest.mark.guarantee("L1", "Q1", "L5")
async def test_of_two_first_grants_of_one_key_one_is_made(desk: Desk, blocker: Blocker) -> None:
    works = await rivals(desk, await desk.ready())
    await blocker.hold(NEW_LEASE, key=works[0].key, action=works[0].action, state="running")
    outcomes = await forced(
        blocker, [desk.grant(limit=1) for _ in works], on="leases", release=blocker.roll_back
    )
    [grant] = granted(outcomes)
    assert grant.epoch == 1
    assert sorted([await desk.place(work) for work in works]) == ["open leases", "open waiting"]
    waiting = await desk.rows.one("waiting")
    assert (waiting["waits_on"], waiting["attempts"]) == ("lease", 0)


@pytest.mark.guarantee("L1", "Q1", "L2")
@pytest.mark.parametrize("state", ["free", "dead"])
async def test_of_two_grants_on_one_lease_one_takes_it(
    desk: Desk, blocker: Blocker, state: str
) -> None:
    works = await rivals(desk, await desk.ready(), 3)
    await desk.rows.lease(works[0], state=state, epoch=6, intent_id=4711, settled_at=LONG_AGO)
    await blocker.hold(LOCK_LEASE, key=works[0].key)
    outcomes = await forced(
        blocker, [desk.grant(limit=1) for _ in works], on="leases", release=blocker.roll_back
    )
    [grant] = granted(outcomes)
    assert grant.epoch == (await desk.lease(works[0]))["epoch"] == 7
    assert len(await desk.rows.all("waiting", waits_on="lease")) == 2


@pytest.mark.guarantee("L1", "L2")
async def test_of_two_takeovers_one_takes_it_and_the_displaced_is_joined_once(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    works = [await desk.rival(late) for _ in range(2)]
    await blocker.hold(LOCK_LEASE, key=late.key)
    outcomes = await forced(
        blocker, [desk.grant(limit=1) for _ in works], on="leases", release=blocker.roll_back
    )
    [grant] = granted(outcomes)
    assert grant.epoch == 2
    assert (await desk.intent(late))["settled_by"] == grant.intent.intent_id
    assert [row["epoch"] for row in await desk.rows.all("dispatches")] == [1]
    assert sorted([await desk.place(work) for work in works]) == ["open leases", "open waiting"]


@pytest.mark.guarantee("L1", "L2", "L5")
async def test_a_lease_that_appeared_meanwhile_is_not_taken_at_an_epoch_it_had(
    desk: Desk, blocker: Blocker
) -> None:
    work = await desk.ready()
    await blocker.hold(NEW_LEASE, key=work.key, action=work.action, state="free")
    outcomes = await forced(blocker, [desk.grant()], on="leases", release=blocker.commit)
    assert granted(outcomes) == []
    lease = await desk.lease(work)
    assert (lease["state"], lease["epoch"], lease["holder"]) == ("free", 1, "quick")
    waiting = await desk.rows.one("waiting")
    assert (waiting["waits_on"], waiting["attempts"]) == ("time", 0)
    await desk.rows.change("waiting", {"key": work.key}, due_at=LONG_AGO)
    await desk.move()
    assert [grant.epoch for grant in await desk.grant()] == [2]


@pytest.mark.guarantee("L1")
async def test_a_renewal_that_commits_while_a_takeover_waits_keeps_the_lease(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    rival = await desk.rival(late)
    await blocker.hold(
        "UPDATE fencepost.leases SET claimable_at = clock_timestamp() + interval '1 minute' "
        "WHERE key = %(key)s",
        key=late.key,
    )
    outcomes = await forced(blocker, [desk.grant()], on="leases", release=blocker.commit)
    assert granted(outcomes) == []
    assert (await desk.lease(late))["holder"] == "holder-1"
    assert await desk.place(rival) == "open waiting"


@pytest.mark.guarantee("L1")
async def test_a_lease_whose_time_passes_while_its_grant_waits_is_taken_over(
    desk: Desk, blocker: Blocker
) -> None:
    first = await desk.ready()
    late = await desk.running(claimable_in_ms=1000)
    rival = await desk.rival(late)
    assert first.key < late.key
    await blocker.hold(NEW_LEASE, key=first.key, action=first.action, state="running")

    async def its_time_has_passed() -> bool:
        return bool((await desk.lease(late))["claimable_at"] <= await desk.now())

    async def release() -> None:
        await until(its_time_has_passed, what="the lease's time to pass")
        await blocker.roll_back()

    outcomes = await forced(blocker, [desk.grant()], on="leases", release=release)
    assert {grant.intent.intent_id for grant in granted(outcomes)} == {
        *(first.intent_id, rival.intent_id),
    }


@pytest.mark.guarantee("L1")
async def test_a_head_that_becomes_current_while_a_grant_waits_settles_it(
    desk: Desk, blocker: Blocker
) -> None:
    work = await desk.ready()
    assert work.change_request is not None
    await blocker.hold(NEW_HEAD, repo_id=work.change_request.repo_id)
    outcomes = await forced(blocker, [desk.grant()], on="change_requests", release=blocker.commit)
    assert granted(outcomes) == []
    assert await desk.place(work) == "superseded"
    assert await desk.rows.all("leases") == []


@pytest.mark.guarantee("X7")
async def test_a_grant_locks_the_change_request_before_the_lease(
    desk: Desk, blocker: Blocker
) -> None:
    work = await desk.ready()
    await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    assert work.change_request is not None
    await blocker.hold(
        "SELECT 1 FROM fencepost.change_requests WHERE repo_id = %(repo_id)s FOR UPDATE",
        repo_id=work.change_request.repo_id,
    )
    granting = asyncio.create_task(desk.grant())
    [waiter] = await blocker.seen_waiting(1, on="change_requests")
    assert "leases" not in waiter.touched
    await blocker.hold(LOCK_LEASE, key=work.key)
    await blocker.roll_back()
    assert len(await granting) == 1


@pytest.mark.guarantee("L5")
async def test_a_holder_that_ends_while_a_rival_is_put_back_wakes_it(
    desk: Desk, blocker: Blocker
) -> None:
    work = await desk.running()
    rival = await desk.rival(work)
    await blocker.hold(
        "INSERT INTO fencepost.waiting (intent_id, tenant, queue, priority, key, action, attempts, "
        "waits_on, due_at) VALUES (%(intent_id)s, 'x', 'x', 0, 'x', 'x', 0, 'time', 'infinity')",
        intent_id=rival.intent_id,
    )
    granting = asyncio.create_task(desk.grant())
    await blocker.seen_waiting(1, on="waiting")
    settling = asyncio.create_task(desk.settle(work, completed()))
    await blocker.seen_waiting(2, on="leases")
    await blocker.roll_back()
    assert (await settling).refusal is None
    # Put back behind the holder, awake by its end, and so settled within the same call or the next.
    assert await granting == []
    assert await desk.grant() == []
    assert await desk.place(rival) == "duplicate"


@pytest.mark.guarantee("Q1", "X6")
async def test_who_takes_a_session_up_waits_for_its_grants_and_gets_them(
    desk: Desk, blocker: Blocker
) -> None:
    session = new_session()
    await desk.dispatching.open_session(session, resume=False)
    work = await desk.ready()
    await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    await blocker.hold(LOCK_LEASE, key=work.key)
    granting = asyncio.create_task(desk.grant(stream_of(session)))
    await blocker.seen_waiting(1, on="leases")
    moved = new_session(session_id=session.session_id)
    resuming = asyncio.create_task(desk.dispatching.open_session(moved, resume=True))
    await blocker.seen_waiting(2, on="sessions")
    await blocker.roll_back()
    [grant], [held] = await granting, await resuming
    assert (held.key, held.epoch) == (grant.key, grant.epoch) == (work.key, 2)


@pytest.mark.guarantee("Q1")
async def test_a_session_that_moves_while_its_old_stream_asks_gets_nothing_there(
    desk: Desk, blocker: Blocker
) -> None:
    stream = await desk.stream()
    work = await desk.ready()
    await blocker.hold("UPDATE fencepost.sessions SET replica = 'elsewhere'")
    [outcome] = await forced(blocker, [desk.grant(stream)], on="sessions", release=blocker.commit)
    assert isinstance(outcome, ResourceNotFound)
    assert await desk.place(work) == "open ready"


@pytest.mark.guarantee("X6")
@pytest.mark.parametrize("commits", [True, False])
async def test_what_a_lost_grant_did_is_said_once_its_transaction_has_ended(
    desk: Desk, blocker: Blocker, commits: bool
) -> None:
    stream = await desk.stream()
    work = await desk.ready()
    await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    await blocker.hold(LOCK_LEASE, key=work.key)
    granting = asyncio.create_task(desk.grant(stream, grant_id="lost"))
    [waiter] = await blocker.seen_waiting(1, on="leases")
    asking = asyncio.create_task(desk.dispatching.granted(stream, grant_id="lost"))
    await blocker.seen_waiting(2, on="sessions")
    if not commits:
        await blocker.observer.execute("SELECT pg_terminate_backend(%s)", [waiter.pid])
        with pytest.raises(DatabaseUnavailable):
            await granting
    await blocker.roll_back()
    found = await asking
    assert [grant.epoch for grant in found] == ([2] if commits else [])
    assert await desk.place(work) == ("open leases" if commits else "open ready")
    await asyncio.gather(granting, return_exceptions=True)


def enqueue() -> Enqueue:
    intent = NewIntent(
        queue="reviews",
        key=None,
        label="",
        action="bot",
        priority=0,
        not_before=None,
        payload=b"",
        content_type="text/plain",
        schema_name="",
        traceparent="",
    )
    return Enqueue(tenant="acme", request_id="request-1", digest=b"d", intents=[intent, intent])


@pytest.mark.guarantee("X6")
async def test_one_request_sent_twice_at_once_adds_its_intents_once(
    desk: Desk, blocker: Blocker
) -> None:
    await blocker.hold(
        "INSERT INTO fencepost.request_ids (tenant, method, request_id, digest, response) "
        "VALUES ('acme', 'EnqueueIntents', 'request-1', 'other', '')"
    )
    first, second = await forced(
        blocker,
        [desk.intents.enqueue(enqueue()) for _ in range(2)],
        on="request_ids",
        release=blocker.roll_back,
    )
    assert first == second == [row["intent_id"] for row in await desk.rows.all("intents")]
    assert len(await desk.rows.all("ready")) == 2


@pytest.mark.guarantee("X7")
async def test_a_deadlock_is_retried_inside_the_operation(desk: Desk, blocker: Blocker) -> None:
    works = sorted([await desk.running() for _ in range(2)], key=lambda work: work.key)
    conflicts_before = DATABASE_CONFLICTS._value.get()
    await blocker.hold(LOCK_LEASE, key=works[1].key)
    items = [settlement(fence_of(work), completed()) for work in works]
    settling = asyncio.create_task(desk.dispatching.settle("acme", items))
    await blocker.seen_waiting(1, on="leases")
    # It holds the first lease and waits for the second; now each waits for the other.
    await blocker.hold(LOCK_LEASE, key=works[0].key)
    await blocker.roll_back()
    answers = await settling
    assert [answer.refusal for answer in answers] == [None, None]
    assert [answer.repeated for answer in answers] == [False, False]
    assert DATABASE_CONFLICTS._value.get() > conflicts_before
    assert len(await desk.rows.all("dispatches")) == 2
