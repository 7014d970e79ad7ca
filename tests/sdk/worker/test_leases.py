"""Goal: a lease is renewed while its handler runs, and a handler whose lease is lost stops.

Method: a real dispatcher with short leases; the lease is taken over in the database, or the network
falls silent.
"""

import asyncio
import time
from dataclasses import replace

import pytest
from fencepost import Run
from fencepost.errors import LeaseLost
from fencepost.lease import LeaseLapsed

from tests.rows import NOW, Work, from_now
from tests.sdk.worker.bench import Bench, network_to
from tests.sdk.worker.conftest import SHORT_LEASE_MS
from tests.waiting import until


async def granted(bench: Bench, work: Work) -> Work:
    """The work with the lease that a worker was granted on it."""

    async def leased() -> bool:
        rows = await bench.rows.all("leases", intent_id=work.intent_id, state="running")
        return bool(rows)

    await until(leased, what="the work to be granted")
    lease = await bench.rows.one("leases", intent_id=work.intent_id)
    return replace(work, epoch=lease["epoch"], holder=lease["holder"])


async def test_a_lease_is_renewed_for_as_long_as_the_handler_runs(hasty_bench: Bench) -> None:
    bench = hasty_bench
    work = await bench.work()
    may_end = asyncio.Event()

    async def handler(run: Run) -> None:
        await may_end.wait()

    async with bench.working(handler):
        first = await granted(bench, work)
        [lease] = await bench.rows.all("leases", intent_id=work.intent_id)

        async def outlived() -> bool:
            now = await bench.rows.one("leases", intent_id=work.intent_id)
            late = now["renewed_at"] - lease["granted_at"]
            return bool(late.total_seconds() * 1000 > 2 * SHORT_LEASE_MS)

        await until(outlived, what="the lease to be renewed beyond its first end")
        may_end.set()
        await bench.settled(work)
    [outcome] = await bench.outcomes(work)
    assert (outcome["epoch"], outcome["holder"]) == (first.epoch, first.holder)


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.guarantee("L4")
async def test_a_handler_whose_renewal_is_refused_is_cancelled_and_writes_nothing(
    hasty_bench: Bench, swallowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = hasty_bench
    work = await bench.work()
    refused: list[Exception] = []

    async def handler(run: Run) -> bytes:
        run.state["n"] = 1
        await run.checkpoint("before")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            run.state["n"] = 2
            for write in (run.checkpoint("after"), run.publish_review("too late")):
                try:
                    await write
                except LeaseLost as lost:
                    refused.append(lost)
            if not swallowed:
                raise
        return b"too late"

    async with bench.working(handler, publisher="127.0.0.1:1"):
        held = await granted(bench, work)
        await until(lambda: bench.flushes(work), what="the first flush")
        await bench.rows.takeover(held, holder="another", claimable_at=from_now(60_000))
        await until(lambda: len(refused) == 2, what="the handler to be cancelled")
    assert [type(each) for each in refused] == [LeaseLapsed, LeaseLapsed]
    # By the dispatcher's word, not by its own clock.
    assert "its handler is stopped: The lease on" in caplog.text
    assert [flush["phase"] for flush in await bench.flushes(work)] == ["before"]
    lease = await bench.rows.one("leases", intent_id=work.intent_id)
    assert (lease["state"], lease["holder"]) == ("running", "another")
    assert (await bench.intent(work))["status"] == "open"


@pytest.mark.guarantee("L4")
async def test_a_worker_that_hears_nothing_stops_by_its_own_clock(hasty_bench: Bench) -> None:
    bench = hasty_bench
    work = await bench.work()
    stopped_after_s: list[float] = []
    refused: list[Exception] = []

    async def handler(run: Run) -> None:
        if run.attempt > 1:
            return
        await run.checkpoint("before")
        silent_since_s = time.monotonic()
        network.freeze()
        try:
            await asyncio.Event().wait()
        finally:
            stopped_after_s.append(time.monotonic() - silent_since_s)
            with pytest.raises(LeaseLost) as lost:
                await run.checkpoint("after")
            refused.append(lost.value)

    async with (
        network_to(bench.dispatcher) as (network, address),
        replace(bench, dispatcher=address).working(handler),
    ):
        await until(lambda: refused, what="the handler to stop")
        await network.cut()
        await network.restore()
    assert stopped_after_s[0] <= SHORT_LEASE_MS / 1000 + 0.5
    assert isinstance(refused[0], LeaseLapsed)
    flushes = [flush["phase"] for flush in await bench.flushes(work) if flush["epoch"] == 1]
    assert flushes == ["before"]


@pytest.mark.guarantee("L4")
async def test_a_refused_flush_ends_all_later_writes(bench: Bench) -> None:
    work = await bench.work()
    refused: list[Exception] = []

    async def handler(run: Run) -> None:
        await bench.rows.takeover(replace(work, epoch=1), holder="another")
        for _ in range(2):
            with pytest.raises(LeaseLost) as lost:
                await run.checkpoint("late")
            refused.append(lost.value)

    async with bench.working(handler):
        await until(lambda: len(refused) == 2, what="both flushes to be refused")
    assert [type(each) for each in refused] == [LeaseLost, LeaseLapsed]
    assert await bench.flushes(work) == []
    assert (await bench.intent(work))["status"] == "open"


async def test_work_that_comes_back_at_a_later_epoch_ends_what_ran_before(bench: Bench) -> None:
    work = await bench.work()
    ended: list[str] = []

    async def handler(run: Run) -> None:
        if run.dispatch.fence.epoch == 1:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("the first")

    async with bench.working(handler):
        await granted(bench, work)
        lease = {"intent_id": work.intent_id, "state": "running"}
        await bench.rows.change("leases", lease, state="free", settled_at=NOW)
        await bench.rows.ready(work, attempts=1)
        await bench.settled(work)
        await until(lambda: ended, what="the first handler to be cancelled")
    [outcome] = await bench.outcomes(work)
    assert (outcome["epoch"], outcome["outcome"]) == (2, "completed")
