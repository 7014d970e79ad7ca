"""Goal: whatever the network loses, a flush and an outcome are recorded once and work goes on.

Method: a real dispatcher behind a network that the test cuts at exact moments.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from fencepost import Run
from fencepost.errors import LeaseLost

from tests.database_proxy import DatabaseProxy
from tests.rows import NOW, Row
from tests.sdk.worker.bench import Bench, network_to, told
from tests.waiting import until


@dataclass(frozen=True)
class Line:
    """A bench whose workers reach the dispatcher over a network that the test controls."""

    bench: Bench
    network: DatabaseProxy

    async def session(self) -> Row:
        """The worker's session, as soon as it has one."""

        async def row() -> Row | None:
            rows = await self.bench.rows.all("sessions", tenant=self.bench.rows.tenant)
            return rows[0] if rows else None

        return await until(row, what="a session")

    async def leased(self) -> int:
        """How many leases the worker's sessions hold."""
        tenant = self.bench.rows.tenant
        return len(await self.bench.rows.all("leases", tenant=tenant, state="running"))


@pytest.fixture
async def line(bench: Bench) -> AsyncIterator[Line]:
    """The bench's dispatcher behind a network."""
    async with network_to(bench.dispatcher) as (network, address):
        yield Line(replace(bench, dispatcher=address), network)


@pytest.mark.guarantee("C2")
@pytest.mark.parametrize("away", [False, True], ids=["a moment", "longer than gRPC tries"])
async def test_a_flush_whose_answer_was_lost_is_repeated_and_stored_once(
    line: Line, away: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = line.bench
    work = await bench.work()
    versions: list[int] = []

    async def handler(run: Run) -> None:
        run.state["n"] = 1
        with run.span("before"):
            await asyncio.sleep(0)
        versions.append(await run.checkpoint("the lost one"))
        versions.append(await run.checkpoint(final=True))

    line.network.trap(b"the lost one", "keep the answer")
    async with bench.working(handler):
        await until(lambda: bench.flushes(work), what="the flush to be committed")
        assert versions == []
        if away:
            await line.network.cut()
            await until(lambda: "is repeated" in caplog.text, what="the SDK to try again")
            await line.network.restore()
        else:
            line.network.reset()
        await bench.settled(work)
    assert line.network.trapped == 1
    assert versions == [1, 2]
    flushes = await bench.flushes(work)
    assert [(flush["version"], flush["phase"]) for flush in flushes] == [
        (1, "the lost one"),
        (2, "the lost one"),
    ]
    spans = [span for span in await bench.spans(work) if span.name == "checkpoint.flush"]
    outcomes = [told(span)["fencepost.outcome"] for span in spans]
    assert outcomes == ["repeated", "stored"]


@pytest.mark.guarantee("C2")
async def test_a_flush_left_in_doubt_is_settled_before_the_next(line: Line) -> None:
    bench = line.bench
    work = await bench.work()
    versions: list[int] = []

    async def handler(run: Run) -> None:
        run.state["n"] = 1
        with run.span("carried by the flush in doubt"):
            await asyncio.sleep(0)
        flushing = asyncio.create_task(run.checkpoint("the lost one", analysis_done=True))
        await until(lambda: bench.flushes(work), what="the flush to be committed")
        flushing.cancel()
        await asyncio.wait({flushing})
        line.network.reset()
        run.state["n"] = 2
        versions.append(await run.checkpoint("the next"))

    line.network.trap(b"the lost one", "keep the answer")
    async with bench.working(handler):
        await bench.settled(work)
    assert versions == [2]
    assert [outcome["outcome"] for outcome in await bench.outcomes(work)] == ["completed"]
    names = [span.name for span in await bench.spans(work)]
    assert names.count("carried by the flush in doubt") == 1
    assert [flush["phase"] for flush in await bench.flushes(work)] == [
        "the lost one",
        "the next",
        "the next",
    ]


async def test_an_outcome_whose_answer_was_lost_is_recorded_once(line: Line) -> None:
    bench = line.bench
    work = await bench.work()
    attempts: list[int] = []

    async def handler(run: Run) -> bytes:
        attempts.append(run.attempt)
        return b"this very outcome"

    line.network.trap(b"this very outcome", "keep the answer")
    async with bench.working(handler, concurrency=1):
        await bench.settled(work)
        line.network.reset()
        await bench.settled(await bench.work())
    assert attempts == [1, 1]
    assert len(await bench.outcomes(work)) == 1


async def test_a_lost_stream_is_resumed_and_the_handler_goes_on(line: Line) -> None:
    bench = line.bench
    work = await bench.work()
    begun: list[int] = []
    cut = asyncio.Event()

    async def handler(run: Run) -> None:
        begun.append(run.attempt)
        await cut.wait()

    async with bench.working(handler):
        await until(lambda: begun, what="the handler to begin")
        before = await line.session()
        await line.network.cut()
        await line.network.restore()

        await _heard_since(line, before)
        cut.set()
        await bench.settled(work)
    assert begun == [1]
    [outcome] = await bench.outcomes(work)
    assert (outcome["outcome"], outcome["holder"]) == ("completed", before["session_id"])


async def test_a_dispatch_that_never_arrived_is_begun_after_the_resumption(line: Line) -> None:
    bench = line.bench
    begun: list[int] = []

    async def handler(run: Run) -> None:
        begun.append(run.dispatch.intent_id)

    async with bench.working(handler):
        await line.session()
        first = await bench.work()
        await bench.settled(first)
        line.network.freeze()
        second = await bench.work()
        await until(line.leased, what="the second to be granted")
        await line.network.cut()
        await line.network.restore()
        await bench.settled(second)
    assert begun == [first.intent_id, second.intent_id]
    assert (await bench.intent(second))["attempts"] == 1


async def test_what_never_arrived_takes_a_slot_of_the_resumed_session(line: Line) -> None:
    bench = line.bench
    running, most = 0, 0
    may_end = asyncio.Event()

    async def handler(run: Run) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await may_end.wait()
        running -= 1

    async with bench.working(handler, concurrency=1):
        # A sign of life shows that the room which was told before it is known.
        await _heard_since(line, await line.session())
        line.network.freeze()
        lost = await bench.work()
        await until(line.leased, what="it to be granted")
        next_one = await bench.work()
        await line.network.cut()
        await line.network.restore()
        await until(lambda: running, what="what was lost to be begun")
        # What would be offered wrongly would be used long before the next signs of life.
        for _ in range(3):
            await _heard_since(line, await line.session())
        assert (await line.leased(), running) == (1, 1)
        may_end.set()
        await bench.settled(lost)
        await bench.settled(next_one)
    assert most == 1


async def test_a_session_whose_welcome_was_lost_is_its_own(line: Line) -> None:
    bench = line.bench

    async def handler(run: Run) -> None:
        return None

    line.network.trap(b"reviews", "keep the answer")
    async with bench.working(handler):
        before = await line.session()
        line.network.reset()
        await bench.settled(await bench.work())
    sessions = await bench.rows.all("sessions", tenant=bench.rows.tenant)
    assert [session["session_id"] for session in sessions] == [before["session_id"]]


async def test_credit_neither_grows_nor_shrinks_over_losses(line: Line) -> None:
    bench, concurrency, losses = line.bench, 3, 6
    works = [await bench.work() for _ in range(losses * (concurrency + 1))]
    running, most = 0, 0
    done: Counter[int] = Counter()
    may_end = asyncio.Semaphore(0)

    async def handler(run: Run) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await may_end.acquire()
        running -= 1
        done[run.dispatch.intent_id] += 1

    async def all_slots_taken() -> bool:
        return running == concurrency and await line.leased() == concurrency

    async with bench.working(handler, concurrency=concurrency):
        for loss in range(1, losses):
            await until(all_slots_taken, what=f"all slots to be taken before loss {loss}")
            before = await line.session()
            line.network.reset()
            if loss % 2:
                await _heard_since(line, before)
            for _ in range(concurrency + 1):
                may_end.release()
        await until(all_slots_taken, what="all slots to be taken at last")
        for _ in works:
            may_end.release()
        await until(lambda: _all_settled(line), what="all work to be recorded")
    assert most == concurrency
    assert done == Counter({work.intent_id: 1 for work in works})


async def _heard_since(line: Line, before: Row) -> None:
    async def heard() -> bool:
        session = await line.session()
        return session["state"] == "open" and bool(session["heard_at"] > before["heard_at"])

    await until(heard, what="the session to be taken up again")


async def _all_settled(line: Line) -> bool:
    return not await line.bench.rows.all("intents", tenant=line.bench.rows.tenant, status="open")


@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_session_that_ended_is_followed_by_a_new_one(line: Line, taken_over: bool) -> None:
    bench = line.bench
    work = await bench.work()
    begun: list[int] = []
    seen: list[str] = []
    go_on = asyncio.Event()

    async def handler(run: Run) -> None:
        if run.dispatch.intent_id != work.intent_id:
            return
        begun.append(run.attempt)
        try:
            await go_on.wait()
            seen.append(str(await run.checkpoint("under the old holder")))
        except asyncio.CancelledError:
            with pytest.raises(LeaseLost):
                await run.checkpoint("too late")
            seen.append("cancelled")
            raise

    async with bench.working(handler):
        old = await line.session()
        await until(lambda: begun, what="the handler to begin")
        ended = {"state": "ended", "ended_at": NOW}
        await bench.rows.change("sessions", {"session_id": old["session_id"]}, **ended)
        if taken_over:
            await bench.rows.takeover(replace(work, epoch=1), holder="another")
        line.network.reset()
        await bench.settled(await bench.work())
        go_on.set()
        if taken_over:
            await until(lambda: seen, what="the handler to be cancelled")
        else:
            await bench.settled(work)
    assert seen == (["cancelled"] if taken_over else ["1"])
    assert len(await bench.rows.all("sessions", tenant=bench.rows.tenant)) == 2
    if not taken_over:
        [outcome] = await bench.outcomes(work)
        assert (outcome["outcome"], outcome["holder"]) == ("completed", old["session_id"])
