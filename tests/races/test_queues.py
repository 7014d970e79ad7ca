"""A pause against a grant that is under way: the race is forced."""

from collections.abc import AsyncIterator, Callable

import pytest

from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.services.dispatcher.desk import Desk, opened

LOCK_LEASE = "SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"
LONG_AGO = "2026-01-01T00:00:00Z"


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def test_a_pause_that_commits_while_a_grant_is_under_way_leaves_the_lease(
    desk: Desk, blocker: Blocker, owner_url: str, service_url: Callable[[Service], str]
) -> None:
    await desk.put_queue()
    work = await desk.ready()
    await desk.rows.lease(work, state="free", intent_id=4711, settled_at=LONG_AGO)
    before = await desk.lease(work)
    await blocker.hold(LOCK_LEASE, key=work.key)

    async with opened(owner_url, service_url("dispatcher")) as another_replica:

        async def pause_and_let_go() -> None:
            await another_replica.pause()
            await blocker.roll_back()

        [grants] = await forced(blocker, [desk.grant()], on="leases", release=pause_and_let_go)
    assert grants == []
    assert await desk.lease(work) == before
    waiting = await desk.rows.one("waiting", intent_id=work.intent_id)
    assert (waiting["waits_on"], waiting["attempts"]) == ("time", 0)
