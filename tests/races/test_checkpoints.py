"""Flushes of one run at the same moment: each race is forced."""

from collections.abc import AsyncIterator, Callable

import pytest
from fencepost.errors import CheckpointStale, LeaseLost

from services.dispatcher.checkpoints.operations import Flush, FlushAnswer
from services.dispatcher.dispatch.settle_operations import SettleAnswer
from shared.schema.grants import Service
from tests.races.forcing import Blocker, blocking, forced
from tests.rows import Work
from tests.services.dispatcher.desk import Desk, checkpoint, completed, fence_of, opened, span

LOCK_LEASE = "SELECT 1 FROM fencepost.leases WHERE key = %(key)s FOR UPDATE"


@pytest.fixture
async def desk(owner_url: str, service_url: Callable[[Service], str]) -> AsyncIterator[Desk]:
    async with opened(owner_url, service_url("dispatcher")) as desk:
        yield desk


@pytest.fixture
async def blocker(owner_url: str) -> AsyncIterator[Blocker]:
    async with blocking(owner_url) as blocker:
        yield blocker


@pytest.mark.guarantee("C2", "C1")
@pytest.mark.parametrize("base", [0, 1])
async def test_one_flush_sent_twice_at_once_makes_one_version(
    desk: Desk, blocker: Blocker, base: int
) -> None:
    work = await desk.running()
    for _ in range(base):
        await desk.flush(work)
    command = Flush(
        tenant="acme",
        fence=fence_of(work),
        checkpoint=checkpoint(based_on_version=base, span_count=1),
        spans=[span(work)],
    )
    await blocker.hold(LOCK_LEASE, key=work.key)
    outcomes = await forced(
        blocker,
        [desk.checkpoints.flush(command) for _ in range(2)],
        on="leases",
        release=blocker.roll_back,
    )
    answers = [answer for answer in outcomes if isinstance(answer, FlushAnswer)]
    assert sorted((answer.version, answer.repeated) for answer in answers) == [
        (base + 1, False),
        (base + 1, True),
    ]
    assert (await desk.rows.one("runs"))["version"] == base + 1
    assert len(await desk.rows.all("run_spans")) == 1


@pytest.mark.guarantee("C2")
@pytest.mark.parametrize("base", [0, 1])
async def test_of_two_flushes_on_one_version_one_is_stored(
    desk: Desk, blocker: Blocker, base: int
) -> None:
    work = await desk.running()
    for _ in range(base):
        await desk.flush(work)
    await blocker.hold(LOCK_LEASE, key=work.key)
    outcomes = await forced(
        blocker,
        [desk.flush(work, based_on_version=base, state=state) for state in (b"a", b"b")],
        on="leases",
        release=blocker.roll_back,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        CheckpointStale.__name__,
        FlushAnswer.__name__,
    ]
    stored = b"a" if isinstance(outcomes[0], FlushAnswer) else b"b"
    run = await desk.rows.one("runs")
    assert (run["version"], run["state"]) == (base + 1, stored)


async def final(desk: Desk) -> Work:
    """Work whose last flush is a final one."""
    work = await desk.running()
    await desk.flush(work, final=True)
    return work


@pytest.mark.guarantee("C4", "L3")
async def test_success_and_a_later_flush_at_once_never_lose_state(
    desk: Desk, blocker: Blocker
) -> None:
    work = await final(desk)
    await blocker.hold(LOCK_LEASE, key=work.key)
    settled, flushed = await forced(
        blocker,
        [desk.settle(work, completed(version=1)), desk.flush(work, based_on_version=1)],
        on="leases",
        release=blocker.roll_back,
    )
    assert isinstance(settled, SettleAnswer)
    version = (await desk.rows.one("runs"))["version"]
    # Whoever came second was refused: success never stands on a flush that is not the last.
    assert (settled.refusal is None) is isinstance(flushed, LeaseLost) is (version == 1)
