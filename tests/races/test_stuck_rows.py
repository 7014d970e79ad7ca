"""Goal: whatever row stays locked, what needs it is set apart, and its neighbours are served.

Method: a third connection holds the row until the neighbours were answered.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import LiteralString

import pytest
from fencepost.errors import FencepostError

from services.dispatcher.dispatch.grant_operations import Grant
from shared.database import RowLocked
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking
from tests.rows import NOW, Work
from tests.services.dispatcher.desk import Desk, completed, fence_of, opened, settlement

LOCK_TIMEOUT_MS = 100
LONG_AGO = "2026-01-01T00:00:00Z"

LOCK_CHANGE_REQUEST = "SELECT FROM fencepost.change_requests WHERE repo_id = %(repo_id)s FOR UPDATE"
LOCK_LEASE = "SELECT FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
LOCK_INTENT = "SELECT FROM fencepost.intents WHERE intent_id = %(intent_id)s FOR UPDATE"
NEW_LEASE = """
    INSERT INTO fencepost.leases (tenant, key, action, generation, state, epoch, holder, intent_id,
        queue, priority, attempts, grant_id, lease_ms, granted_at, renewed_at, claimable_at)
    VALUES ('acme', %(key)s, %(action)s, 1, 'running', 1, 'quick', 4711, 'reviews', 0, 1, 'g',
        60000, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute')
"""

Stick = Callable[[Desk, Blocker, Work], Awaitable[None]]


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    """One that soon gives a lock up."""
    async with opened(
        owner_url, service_url("dispatcher"), database_lock_timeout_ms=LOCK_TIMEOUT_MS
    ) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def hold_change_request(_: Desk, blocker: Blocker, work: Work) -> None:
    assert work.change_request is not None
    await blocker.hold(LOCK_CHANGE_REQUEST, repo_id=work.change_request.repo_id)


async def hold_lease(desk: Desk, blocker: Blocker, work: Work) -> None:
    await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    await blocker.hold(LOCK_LEASE, key=work.key)


async def hold_new_lease(_: Desk, blocker: Blocker, work: Work) -> None:
    await blocker.hold(NEW_LEASE, key=work.key, action=work.action)


STICKS: tuple[Stick, ...] = (hold_change_request, hold_lease, hold_new_lease)


def intents(grants: list[Grant]) -> list[int]:
    return [grant.intent.intent_id for grant in grants]


async def comes_back(desk: Desk, work: Work) -> None:
    """The intent that was put back is ready again once its moment is over."""
    assert await desk.rows.change("waiting", {"intent_id": work.intent_id}, due_at=NOW) == 1
    await desk.move()


@pytest.mark.guarantee("X7", "L5")
@pytest.mark.parametrize("stick", STICKS)
async def test_an_intent_that_needs_a_locked_row_is_put_back_and_its_neighbours_are_granted(
    desk: Desk, blocker: Blocker, stick: Stick
) -> None:
    works = [await desk.ready() for _ in range(5)]
    stuck = works.pop(2)
    await stick(desk, blocker, stuck)
    assert intents(await desk.grant()) == [work.intent_id for work in works]
    waiting = await desk.rows.one("waiting")
    assert (waiting["intent_id"], waiting["waits_on"], waiting["attempts"]) == (
        *(stuck.intent_id, "time", 0),
    )
    due_in = waiting["due_at"] - await desk.now()
    assert due_in.total_seconds() <= 0.1
    await blocker.roll_back()
    await comes_back(desk, stuck)
    [grant] = await desk.grant()
    assert (grant.intent.intent_id, grant.attempt) == (stuck.intent_id, 1)


@pytest.mark.guarantee("X7", "L5")
async def test_several_that_are_stuck_are_put_back_each(desk: Desk, blocker: Blocker) -> None:
    works = [await desk.ready() for _ in range(6)]
    stuck = [works.pop(number) for number in (0, 2, -1)]
    for work in stuck:
        await hold_change_request(desk, blocker, work)
    assert intents(await desk.grant()) == [work.intent_id for work in works]
    assert {await desk.place(work) for work in stuck} == {"open waiting"}


@pytest.mark.guarantee("X7", "L2")
async def test_a_lease_is_not_taken_over_while_the_displaced_intent_is_locked(
    desk: Desk, blocker: Blocker
) -> None:
    late = await desk.running(claimable_in_ms=-1000)
    rival, neighbour = await desk.rival(late), await desk.ready()
    await blocker.hold(LOCK_INTENT, intent_id=late.intent_id)
    assert intents(await desk.grant()) == [neighbour.intent_id]
    lease = await desk.lease(late)
    assert (lease["epoch"], lease["holder"], lease["intent_id"]) == (1, "holder-1", late.intent_id)
    assert await desk.rows.all("dispatches") == []
    await blocker.roll_back()
    await comes_back(desk, rival)
    assert intents(await desk.grant()) == [rival.intent_id]
    assert (await desk.intent(late))["status"] == "joined"


@pytest.mark.guarantee("X7", "L3")
@pytest.mark.parametrize("row", [LOCK_LEASE, LOCK_INTENT], ids=["lease", "intent"])
async def test_an_outcome_that_needs_a_locked_row_is_refused_alone_and_may_be_sent_again(
    desk: Desk, blocker: Blocker, row: LiteralString
) -> None:
    works = [await desk.running() for _ in range(5)]
    rival = await desk.rival(works[0])
    assert await desk.grant() == []
    items = [settlement(fence_of(work), completed()) for work in works]
    await blocker.hold(row, key=works[2].key, intent_id=works[2].intent_id)
    answers = await desk.dispatching.settle("acme", items)
    assert [kind(answer.refusal) for answer in answers] == [None, None, RowLocked, None, None]
    assert await statuses(desk, works[1:4]) == ["succeeded", "open", "succeeded"]
    assert (await desk.lease(works[2]))["state"] == "running"
    assert await desk.place(rival) == "open ready"
    await blocker.roll_back()
    answers = await desk.dispatching.settle("acme", items)
    assert [answer.repeated for answer in answers] == [True, True, False, True, True]
    assert await statuses(desk, works) == ["succeeded"] * 5


@pytest.mark.guarantee("X7", "L4")
async def test_a_renewal_of_a_locked_lease_is_refused_alone_and_may_be_asked_again(
    desk: Desk, blocker: Blocker
) -> None:
    works = [await desk.running(claimable_in_ms=60_000) for _ in range(5)]
    fences = [fence_of(work) for work in works]
    fences[4] = fence_of(works[4], epoch=2)
    before = await desk.lease(works[2])
    await blocker.hold(LOCK_LEASE, key=works[2].key)
    answers = await desk.dispatching.renew("acme", fences)
    lost = type(fences[4].lost())
    assert [kind(answer.refusal) for answer in answers] == [None, None, RowLocked, None, lost]
    assert await desk.lease(works[2]) == before
    assert (await desk.lease(works[3]))["claimable_at"] > before["claimable_at"]
    await blocker.roll_back()
    [answer] = await desk.dispatching.renew("acme", fences[2:3])
    assert answer.refusal is None


@pytest.mark.guarantee("X7", "L2")
async def test_an_overdue_lease_whose_intent_is_locked_is_left_and_its_neighbours_expire(
    desk: Desk, blocker: Blocker
) -> None:
    spent = desk.settings.attempts_max
    works = [await desk.running(claimable_in_ms=-1, attempts=spent) for _ in range(3)]
    await blocker.hold(LOCK_INTENT, intent_id=works[1].intent_id)
    assert not await desk.expire()
    assert await statuses(desk, works) == ["dead", "open", "dead"]
    assert (await desk.lease(works[1]))["state"] == "running"
    await blocker.roll_back()
    await desk.expire()
    assert await statuses(desk, works) == ["dead"] * 3


@pytest.mark.guarantee("X7")
async def test_a_session_ends_although_one_of_its_leases_is_locked(
    desk: Desk, blocker: Blocker
) -> None:
    stream = await desk.stream()
    works = [await desk.running(session_id=stream.session_id) for _ in range(3)]
    before = await desk.lease(works[1])
    await blocker.hold(LOCK_LEASE, key=works[1].key)
    await desk.dispatching.end_session(stream)
    assert (await desk.rows.one("sessions"))["state"] == "ended"
    assert await desk.lease(works[1]) == before
    grace_ends = await desk.now() + timedelta(milliseconds=desk.settings.session_grace_ms)
    for work in (works[0], works[2]):
        assert (await desk.lease(work))["claimable_at"] <= grace_ends


async def statuses(desk: Desk, works: Sequence[Work]) -> list[str]:
    return [(await desk.intent(work))["status"] for work in works]


def kind(refusal: FencepostError | None) -> type[FencepostError] | None:
    return None if refusal is None else type(refusal)
