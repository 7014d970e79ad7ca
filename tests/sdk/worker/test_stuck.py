"""Goal: a row that stays locked keeps neither its own work nor others' from being recorded.

Method: a real dispatcher that soon gives a lock up, and a connection that holds a lease's row.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from fencepost import PermanentError, Run

from tests.database_server import as_service
from tests.races.forcing import Blocker, blocking
from tests.rows import Rows
from tests.sdk.worker.bench import Bench
from tests.sdk.worker.conftest import DISPATCHER
from tests.service_process import service_process
from tests.waiting import until

LOCK_LEASE = "SELECT FROM fencepost.leases WHERE intent_id = %(intent_id)s FOR UPDATE"
LEASE_MS = 3000


@pytest.fixture(scope="module")
def brisk_dispatcher(shared_url: str) -> Iterator[str]:
    """A dispatcher that waits for a lock for a moment only."""
    environment = {
        **DISPATCHER,
        "DISPATCHER_INSTANCE": "brisk",
        "DISPATCHER_LEASE_MS": str(LEASE_MS),
        "DISPATCHER_DATABASE_LOCK_TIMEOUT_MS": "100",
    }
    with service_process("dispatcher", as_service(shared_url, "dispatcher"), environment) as brisk:
        yield brisk.grpc


@pytest.fixture
async def bench(rows: Rows, brisk_dispatcher: str) -> Bench:
    return await Bench.made(rows, brisk_dispatcher)


@pytest.fixture
async def blocker(shared_url: str) -> AsyncIterator[Blocker]:
    async with blocking(shared_url) as blocker:
        yield blocker


@pytest.mark.guarantee("X7")
async def test_an_outcome_whose_lease_stays_locked_is_sent_again_until_it_stands(
    bench: Bench, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, neighbour = await bench.work(), await bench.work()
    locked = asyncio.Event()

    async def handler(run: Run) -> None:
        if run.dispatch.intent_id == stuck.intent_id:
            await blocker.hold(LOCK_LEASE, intent_id=stuck.intent_id)
            locked.set()
        await locked.wait()
        # Success would flush first.
        raise PermanentError("it cannot be done")

    async with bench.working(handler, concurrency=2):
        await bench.settled(neighbour, "dead")
        await until(lambda: "sent again" in caplog.text, what="the outcome to be refused")
        assert (await bench.intent(stuck))["status"] == "open"
        await blocker.roll_back()
        await bench.settled(stuck, "dead")
    for work in (stuck, neighbour):
        [outcome] = await bench.outcomes(work)
        assert (outcome["outcome"], outcome["epoch"]) == ("failed", 1)


@pytest.mark.guarantee("X7", "L4")
async def test_a_lease_that_stays_locked_for_a_while_is_not_a_lost_one(
    bench: Bench, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    work = await bench.work()
    may_end = asyncio.Event()

    async def handler(run: Run) -> None:
        await blocker.hold(LOCK_LEASE, intent_id=run.dispatch.intent_id)
        await may_end.wait()

    async with bench.working(handler):
        await until(lambda: "asked for again" in caplog.text, what="a renewal to be refused")
        before = await bench.rows.one("leases", intent_id=work.intent_id)
        await blocker.roll_back()

        async def renewed() -> bool:
            lease = await bench.rows.one("leases", intent_id=work.intent_id)
            return bool(lease["renewed_at"] > before["renewed_at"])

        await until(renewed, what="the lease to be renewed")
        may_end.set()
        await bench.settled(work)
    [outcome] = await bench.outcomes(work)
    assert (outcome["outcome"], outcome["epoch"]) == ("completed", 1)
