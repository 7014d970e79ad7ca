"""A session whose database loses answers, freezes or goes away: nothing is lost or given twice."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import DatabaseUnavailable, Overloaded
from opentelemetry.trace import NoOpTracer
from structlog.testing import capture_logs

from services.dispatcher.dispatch.session_servicer import WorkSession
from services.dispatcher.dispatch.sessions_store import NewSession
from shared.database import Database
from shared.schema.grants import Service
from tests.database_proxy import COMMIT, DatabaseProxy, Loss
from tests.rows import Row
from tests.services.dispatcher.desk import Desk, dispatcher_settings, new_session, opened
from tests.services.dispatcher.wire import settle
from tests.waiting import until

PATIENT = {
    "poll_interval_ms": 60_000,
    "database_connect_timeout_ms": 500,
    "database_statement_timeout_ms": 500,
    "database_lock_timeout_ms": 400,
}


@pytest.fixture
async def proxy(service_url: Callable[[Service], str]) -> AsyncIterator[DatabaseProxy]:
    """The network between the dispatcher and its database."""
    async with DatabaseProxy.before(service_url("dispatcher")) as proxy:
        yield proxy


@pytest.fixture
async def desk(
    owner_url: str, service_url: Callable[[Service], str], proxy: DatabaseProxy
) -> AsyncIterator[Desk]:
    """A dispatcher behind that network, which looks for work only when it is told to."""
    async with opened(owner_url, service_url("dispatcher")) as desk:
        settings = dispatcher_settings(proxy.url(), **PATIENT)
        async with Database.create(settings, application_name="dispatcher") as database:
            yield replace(desk, database=database, settings=settings)


@dataclass
class Worker:
    """The other end of one stream: what it says, and what it was sent."""

    desk: Desk
    session: NewSession
    said: "asyncio.Queue[work_pb2.WorkRequest | None]" = field(default_factory=asyncio.Queue)
    heard: list[work_pb2.WorkResponse] = field(default_factory=list)

    async def frames(self) -> AsyncIterator[work_pb2.WorkRequest]:
        while (frame := await self.said.get()) is not None:
            yield frame

    async def run(self, *, resume: bool) -> None:
        """Serves the stream until it ends; raises what it ended with."""
        serving = WorkSession(
            self.session,
            self.desk.dispatching,
            self.desk.wakeups,
            self.desk.settings,
            asyncio.Event(),
            NoOpTracer(),
        )
        async for frame in serving.serve(self.frames(), resume=resume):
            self.heard.append(frame)

    def say(self, frame: work_pb2.WorkRequest) -> None:
        self.said.put_nowait(frame)

    def close(self) -> None:
        """Ends the session in good order."""
        self.say(work_pb2.WorkRequest(end_drain=work_pb2.EndDrain()))
        self.said.put_nowait(None)

    def dispatches(self) -> list[work_pb2.Dispatch]:
        return [dispatch for frame in self.heard for dispatch in frame.dispatches]

    def results(self) -> list[work_pb2.SettleResult]:
        return [result for frame in self.heard for result in frame.settle_results]

    async def got(self, count: int) -> list[work_pb2.Dispatch]:
        """The dispatches, once there are so many."""
        await until(lambda: len(self.dispatches()) >= count, what=f"{count} dispatches")
        return self.dispatches()


@asynccontextmanager
async def working(
    desk: Desk, session: NewSession | None = None
) -> AsyncIterator[tuple[Worker, "asyncio.Task[None]"]]:
    """A worker on a new or resumed stream, which it closes at the end if it is still open."""
    worker = Worker(desk, session or new_session())
    running = asyncio.create_task(worker.run(resume=session is not None))
    await until(lambda: worker.heard or running.done(), what="the session to be welcomed")
    yield worker, running
    worker.close()
    await asyncio.wait({running}, timeout=10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def credit(dispatches: int) -> work_pb2.WorkRequest:
    return work_pb2.WorkRequest(credit=work_pb2.Credit(dispatches=dispatches))


async def leases(desk: Desk) -> list[Row]:
    return await desk.rows.all("leases", state="running")


@pytest.mark.guarantee("X6", "Q1")
@pytest.mark.parametrize("loss", ["lose the answer", "keep the answer", "lose the request"])
async def test_a_grant_whose_commit_was_not_answered_is_delivered_once(
    desk: Desk, proxy: DatabaseProxy, loss: Loss
) -> None:
    work = await desk.ready()
    async with working(desk) as (worker, _):
        proxy.trap(COMMIT, loss)
        worker.say(credit(5))
        await until(lambda: proxy.trapped, what="the grant's commit")
        # Stands for the next poll.
        await until(lambda: _looked_again(desk, worker), what="the dispatch")
        [dispatch] = worker.dispatches()
        assert (dispatch.intent_id, dispatch.fence.epoch) == (work.intent_id, 1)
        worker.say(work_pb2.WorkRequest(settles=[settle(dispatch)]))
        await until(worker.results, what="the outcome's answer")
    assert (await desk.intent(work))["status"] == "succeeded"
    assert [row["attempt"] for row in await desk.rows.all("dispatches")] == [1]


def _looked_again(desk: Desk, worker: Worker) -> bool:
    desk.wakeups.wake_queues(["reviews"])
    return bool(worker.dispatches())


@pytest.mark.guarantee("X6", "Q8")
@pytest.mark.parametrize("loss", ["lose the answer", "keep the answer", "lose the request"])
async def test_an_outcome_whose_commit_was_not_answered_ends_the_stream_and_may_be_sent_again(
    desk: Desk, proxy: DatabaseProxy, loss: Loss
) -> None:
    work = await desk.ready()
    async with working(desk) as (worker, running):
        worker.say(credit(1))
        [dispatch] = await worker.got(1)
        item = settle(dispatch)
        proxy.trap(COMMIT, loss)
        worker.say(work_pb2.WorkRequest(settles=[item]))
        with pytest.raises(DatabaseUnavailable) as lost:
            await running
        assert lost.value.retriable
    again = replace(worker.session, place=f"replica/{uuid.uuid4()}")
    async with working(desk, again) as (worker, _):
        worker.say(work_pb2.WorkRequest(settles=[item]))
        [result] = await until(worker.results, what="the outcome's answer")
        assert not result.HasField("refusal")
        assert result.repeated_outcome is (loss != "lose the request")
    assert (await desk.intent(work))["status"] == "succeeded"
    assert len(await desk.rows.all("dispatches")) == 1


@pytest.mark.guarantee("X6")
@pytest.mark.parametrize("loss", ["lose the answer", "lose the request"])
async def test_a_hello_whose_commit_was_not_answered_may_be_said_again(
    desk: Desk, proxy: DatabaseProxy, loss: Loss
) -> None:
    session = new_session()
    proxy.trap(COMMIT, loss)
    with pytest.raises(DatabaseUnavailable):
        await Worker(desk, session).run(resume=False)
    again = Worker(desk, replace(session, place=f"replica/{uuid.uuid4()}"))
    again.close()
    await again.run(resume=False)
    assert again.heard[0].welcome.session_id == session.session_id
    assert (await desk.rows.one("sessions"))["state"] == "ended"


async def test_a_session_outlives_an_absence_of_the_database(
    desk: Desk, proxy: DatabaseProxy
) -> None:
    async with working(desk) as (worker, running):
        worker.say(credit(5))
        await proxy.cut()
        work = await desk.ready()
        desk.wakeups.wake_queues(["reviews"])
        with capture_logs() as logs:
            for _ in range(3):
                worker.say(work_pb2.WorkRequest(heartbeat=work_pb2.Heartbeat()))
            worker.say(credit(1))
            await until(worker.said.empty, what="the frames to be read")
        lost = [entry for entry in logs if entry["event"] == "heartbeats are not recorded"]
        assert len(lost) == 1
        assert not running.done()
        assert worker.dispatches() == []
        await proxy.restore()
        await until(lambda: _looked_again(desk, worker), what="the dispatch")
        assert [each.intent_id for each in worker.dispatches()] == [work.intent_id]
        worker.say(work_pb2.WorkRequest(heartbeat=work_pb2.Heartbeat()))
        await until(
            lambda: any(frame.HasField("heartbeat_ack") for frame in worker.heard),
            what="the heartbeat to be answered",
        )
    assert (await desk.rows.one("sessions"))["state"] == "ended"


async def test_a_stream_that_ends_while_the_database_is_away_leaves_all_to_be_taken_up(
    desk: Desk, proxy: DatabaseProxy
) -> None:
    work = await desk.ready()
    async with working(desk) as (worker, running):
        worker.say(credit(1))
        [dispatch] = await worker.got(1)
        await proxy.cut()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await proxy.restore()
    await until(lambda: _answers(desk.database), what="the database to answer")
    assert (await desk.rows.one("sessions"))["state"] == "open"
    again = replace(worker.session, place=f"replica/{uuid.uuid4()}")
    async with working(desk, again) as (worker, _):
        [held] = await worker.got(1)
        assert held.fence == dispatch.fence
    assert (await desk.lease(work))["epoch"] == 1


async def _answers(database: Database) -> bool:
    try:
        await database.ping()
    except (DatabaseUnavailable, Overloaded):
        return False
    return True


@pytest.mark.guarantee("Q1")
async def test_a_grant_under_way_when_the_worker_closes_is_not_kept_for_long(
    desk: Desk, proxy: DatabaseProxy
) -> None:
    work = await desk.ready()
    async with working(desk) as (worker, running):
        proxy.trap(COMMIT, "keep the answer")
        worker.say(credit(1))
        await until(lambda: proxy.trapped, what="the grant's commit")
        worker.close()
        await running
    assert worker.dispatches() == []
    [lease] = await leases(desk)
    row = await desk.rows.one("sessions")
    assert (lease["intent_id"], row["state"]) == (work.intent_id, "ended")
    left_s = (lease["claimable_at"] - row["ended_at"]).total_seconds()
    assert left_s <= desk.settings.session_grace_ms / 1000 + 1
