"""The helper that forces races: it sees every waiter, and who does not wait fails the test."""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from tests.races.forcing import Blocker, blocking, forced

LOCKED = "SELECT 1 FROM fencepost.schema_revision FOR UPDATE"


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


async def contender(owner_url: str, number: int) -> int:
    async with await AsyncConnection.connect(owner_url) as connection:
        await connection.execute("SELECT 1 FROM fencepost.schema_revision FOR UPDATE")
        return number


async def test_contenders_of_one_row_are_all_seen_in_its_queue(
    blocker: Blocker, owner_url: str
) -> None:
    await blocker.hold(LOCKED)
    seen: list[str] = []

    async def release() -> None:
        seen.extend(waiter.waits_for for waiter in await blocker.waiters(on="schema_revision"))
        assert await blocker.waiters(on="leases") == []
        await blocker.roll_back()

    outcomes = await forced(
        blocker, [contender(owner_url, n) for n in range(3)], on="schema_revision", release=release
    )
    assert outcomes == [0, 1, 2]
    assert sorted(seen) == ["transactionid", "tuple", "tuple"]


async def test_a_contender_that_does_not_wait_fails_the_test(
    blocker: Blocker, owner_url: str
) -> None:
    with pytest.raises(AssertionError, match="contender 1 did not wait: it ended with 7"):
        await forced(blocker, [contender(owner_url, 7)], release=blocker.roll_back)


async def test_waiting_elsewhere_is_not_waiting_here(blocker: Blocker, owner_url: str) -> None:
    await blocker.hold(LOCKED)
    with pytest.raises(TimeoutError, match="1 sessions waiting behind the blocker on leases"):
        await forced(
            blocker,
            [contender(owner_url, 1)],
            on="leases",
            release=blocker.roll_back,
            deadline_s=0.2,
        )
