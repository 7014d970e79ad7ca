"""Goal: no outcome, however broken, keeps a session from recording the others; no end is missed.

Method: a dispatcher of the tests' own, which refuses, interrupts and breaks as it is told.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fencepost import Run, Worker
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    Draining,
    FencepostError,
    FieldInvalid,
    Internal,
    RequestIdReused,
    ResourceNotFound,
)
from fencepost.outbox import BYTES_A_FRAME, ITEMS_A_FRAME, Outbox, one_frame
from fencepost.session import Handlers, Session

from tests.sdk.worker.scripted import ScriptedDispatcher, dispatch, listening
from tests.waiting import until


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedDispatcher]:
    """A dispatcher that does as it is told."""
    async with listening() as scripted:
        yield scripted


def ignore(_: object) -> None:
    """Nothing follows from it."""


@asynccontextmanager
async def session_to(target: str, *, queue: str = "reviews") -> AsyncIterator[Session]:
    """A session that takes nothing; run it with `served`."""
    async with connect(ChannelSettings(target=target)) as channel:
        handlers = Handlers(dispatched=ignore, cancelled=ignore, free_slots=lambda: 0, held=list)
        yield Session(channel, queues=[queue], version="1", labels={}, handlers=handlers)


@asynccontextmanager
async def served(scripted: ScriptedDispatcher) -> AsyncIterator[Session]:
    """A session on its stream; it must end well."""
    async with session_to(scripted.address) as session:
        running = asyncio.create_task(session.run())
        yield session
        session.close()
        await running


def released(intent_id: int, reason: str) -> work_pb2.Settle:
    settle = work_pb2.Settle(fence=dispatch(intent_id).fence, intent_id=intent_id)
    settle.release.reason = reason
    return settle


async def test_an_outcome_that_breaks_the_dispatcher_is_given_up_alone(
    scripted: ScriptedDispatcher,
) -> None:
    scripted.poison["it breaks"] = Internal(error_id="e")
    reasons = ["fine", "fine", "it breaks", "fine", "it breaks", "fine", "fine"]
    async with served(scripted) as session:
        outcomes = await asyncio.gather(
            *(
                session.settle(released(intent_id, reason))
                for intent_id, reason in enumerate(reasons, start=1)
            ),
            return_exceptions=True,
        )
        await session.settle(released(8, "fine"))
    assert [type(each) for each in outcomes] == [
        Internal if reason == "it breaks" else type(None) for reason in reasons
    ]
    assert [settle.intent_id for settle in scripted.settled] == [1, 2, 4, 6, 7, 8]
    assert len({hello.session_id for hello in scripted.hellos}) == 1


async def test_outcomes_that_come_while_others_are_under_way_share_a_frame(
    scripted: ScriptedDispatcher,
) -> None:
    async with served(scripted) as session, asyncio.TaskGroup() as settling:
        for intent_id in range(1, 301):
            settling.create_task(session.settle(released(intent_id, "fine")))
    assert [settle.intent_id for settle in scripted.settled] == list(range(1, 301))


async def test_a_malformed_outcome_is_refused_before_it_is_sent() -> None:
    # Nobody runs the session: what is sent is never answered.
    async with session_to("127.0.0.1:1") as session:
        with pytest.raises(FieldInvalid, match=r"release\.reason"):
            await session.settle(released(1, "x" * 2001))
        with pytest.raises(FieldInvalid, match="outcome"):
            await session.settle(work_pb2.Settle(fence=dispatch(1).fence, intent_id=1))


@pytest.mark.parametrize(
    ("refusal", "resumes", "same_session"),
    [
        (RequestIdReused(request_id="its own"), True, True),
        (Draining(), False, True),
    ],
    ids=["its Welcome was lost", "another time"],
)
async def test_a_session_that_is_not_opened_tries_again(
    scripted: ScriptedDispatcher, refusal: FencepostError, resumes: bool, same_session: bool
) -> None:
    scripted.refusals.append(refusal)
    async with served(scripted) as session:
        await session.settle(released(1, "fine"))
    first, second = scripted.hellos
    assert (first.resume_session, second.resume_session) == (False, resumes)
    assert (first.session_id == second.session_id) == same_session


@pytest.mark.parametrize(
    "interruption",
    [
        ResourceNotFound(kind="session on this stream", name="it"),
        Draining(),
        Internal(error_id="e"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_interrupted_session_is_resumed(
    scripted: ScriptedDispatcher, interruption: FencepostError
) -> None:
    scripted.interruptions.append(interruption)
    async with served(scripted):
        await until(lambda: len(scripted.hellos) > 1, what="it to come back")
    first, second = scripted.hellos
    assert (first.session_id, second.resume_session) == (second.session_id, True)


async def test_a_loss_and_the_return_are_each_told_once(
    scripted: ScriptedDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fencepost.worker")
    scripted.interruptions.append(Draining())
    scripted.resume_refusals += [Draining(), Draining()]
    async with served(scripted):
        await until(lambda: "is back" in caplog.text, what="it to come back")
    assert len(scripted.hellos) == 4
    told = [(each.levelname, each.message.partition(":")[0]) for each in caplog.records]
    assert told == [
        ("WARNING", "the session lost its stream and comes back"),
        ("INFO", "the session is back on a stream"),
    ]


async def test_a_session_that_is_not_found_is_followed_by_a_new_one(
    scripted: ScriptedDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.interruptions.append(Draining())
    scripted.resume_refusals.append(ResourceNotFound(kind="session", name="it"))
    async with served(scripted) as session:
        await until(lambda: len(scripted.hellos) == 3, what="it to come back twice")
        await session.settle(released(1, "fine"))
    first, second, third = scripted.hellos
    assert first.session_id == second.session_id != third.session_id
    assert [hello.resume_session for hello in scripted.hellos] == [False, True, False]
    ended = f"session {first.session_id} has ended at the dispatcher: a new one begins"
    assert [each.message for each in caplog.records].count(ended) == 1


async def test_a_draining_dispatcher_is_left_at_once(scripted: ScriptedDispatcher) -> None:
    scripted.news.append(work_pb2.WorkResponse(drain=work_pb2.Drain()))
    async with served(scripted):
        await until(lambda: len(scripted.hellos) == 2, what="the session to be taken elsewhere")
    assert scripted.hellos[1].resume_session


async def test_a_session_that_says_nonsense_of_itself_ends_with_the_reason(
    scripted: ScriptedDispatcher,
) -> None:
    async with session_to(scripted.address, queue="Not A Name") as session:
        with pytest.raises(FieldInvalid, match="queues"):
            await session.run()
    scripted.refusals.append(FieldInvalid(violations=[("hello.version", "too old")]))
    async with session_to(scripted.address) as session:
        with pytest.raises(FieldInvalid, match="too old"):
            await session.run()


async def test_a_cancelled_dispatch_stops_its_handler_and_settles_nothing(
    scripted: ScriptedDispatcher,
) -> None:
    begun: list[int] = []
    stopped: list[int] = []
    worker = Worker(dispatcher=scripted.address, queues=["reviews"])

    @worker.handle
    async def handler(run: Run) -> None:
        begun.append(run.dispatch.intent_id)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(run.dispatch.intent_id)

    running = asyncio.create_task(worker.run())
    works = [dispatch(1), dispatch(2), dispatch(2)]
    scripted.news.append(work_pb2.WorkResponse(dispatches=works))
    await until(lambda: len(begun) == 2, what="the handlers to begin")
    cancels = [work_pb2.Cancel(intent_id=1, epoch=1), work_pb2.Cancel(intent_id=2, epoch=7)]
    scripted.news.append(work_pb2.WorkResponse(cancels=cancels))
    await until(lambda: stopped, what="the handler to be cancelled")
    assert (begun, stopped) == ([1, 2], [1])
    running.cancel()
    await asyncio.wait({running})
    assert scripted.settled == []


async def test_frames_stay_within_their_bounds() -> None:
    outbox = Outbox(work_pb2.Hello())
    frames = outbox.frames()
    assert (await anext(frames)).HasField("hello")
    for number in range(ITEMS_A_FRAME + 1):
        outbox.renewal(work_pb2.Renew(item_id=number))
    outbox.heartbeat()
    outbox.credit(3)
    outbox.credit(4)
    outbox.end_drain()
    outbox.close()
    first, second = [frame async for frame in frames]
    assert (len(first.renewals), len(second.renewals)) == (ITEMS_A_FRAME, 1)
    assert (first.credit.dispatches, second.HasField("credit")) == (7, False)
    assert first.HasField("heartbeat")
    assert first.HasField("end_drain")
    large = [work_pb2.Settle(spans=[b"x" * (BYTES_A_FRAME // 2)]) for _ in range(3)]
    assert len(one_frame(large, items_max=ITEMS_A_FRAME)) == 1
    assert len(one_frame([work_pb2.Settle(item_id=1)] * 3, items_max=2)) == 2
    assert one_frame([], items_max=2) == []
