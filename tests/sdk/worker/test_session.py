"""Goal: no outcome, however broken, keeps a session from recording the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fencepost.channel import ChannelSettings, connect
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import FencepostError, FieldInvalid
from fencepost.outbox import BYTES_A_FRAME, ITEMS_A_FRAME, Outbox, one_frame
from fencepost.session import Handlers, Session

from tests.sdk.worker.bench import Bench
from tests.waiting import until

CONCURRENCY = 5


def ignore(_: object) -> None:
    """Nothing follows from it."""


@asynccontextmanager
async def session_of(bench: Bench, received: list[work_pb2.Dispatch]) -> AsyncIterator[Session]:
    """A bare session that keeps what it is given."""
    async with connect(ChannelSettings(target=bench.dispatcher, api_key=bench.api_key)) as channel:
        session = Session(
            channel,
            queues=["reviews"],
            version="1",
            labels={},
            handlers=Handlers(
                dispatched=received.append,
                cancelled=ignore,
                free_slots=lambda: CONCURRENCY - len(received),
                held=list,
            ),
        )
        running = asyncio.create_task(session.run())
        yield session
        session.close()
        await running


def released(dispatch: work_pb2.Dispatch, reason: str) -> work_pb2.Settle:
    settle = work_pb2.Settle(fence=dispatch.fence, intent_id=dispatch.intent_id)
    settle.release.reason = reason
    settle.release.delay.FromSeconds(60)
    return settle


async def dispatched(bench: Bench, received: list[work_pb2.Dispatch]) -> None:
    for _ in range(CONCURRENCY):
        await bench.work()
    await until(lambda: len(received) == CONCURRENCY, what="all the work to be granted")


async def test_an_outcome_that_breaks_the_dispatcher_is_given_up_alone(bench: Bench) -> None:
    received: list[work_pb2.Dispatch] = []
    async with session_of(bench, received) as session:
        await dispatched(bench, received)
        reasons = ["fine", "fine", "no text in PostgreSQL: \0", "fine", "fine"]
        outcomes = await asyncio.gather(
            *(
                session.settle(released(dispatch, reason))
                for dispatch, reason in zip(received, reasons, strict=True)
            ),
            return_exceptions=True,
        )
    assert [type(outcome) for outcome in outcomes[:2] + outcomes[3:]] == [type(None)] * 4
    assert isinstance(outcomes[2], FencepostError)
    recorded = await bench.rows.all("dispatches", tenant=bench.rows.tenant)
    assert [dispatch["outcome"] for dispatch in recorded] == ["released"] * 4


async def test_a_malformed_outcome_is_refused_before_it_is_sent(bench: Bench) -> None:
    received: list[work_pb2.Dispatch] = []
    async with session_of(bench, received) as session:
        await dispatched(bench, received)
        malformed = released(received[0], "x" * 2001)
        with pytest.raises(FieldInvalid, match=r"release\.reason"):
            await session.settle(malformed)
        with pytest.raises(FieldInvalid, match="outcome"):
            await session.settle(work_pb2.Settle(fence=received[0].fence, intent_id=1))
        await session.settle(released(received[0], "x" * 2000))


async def test_a_session_that_says_nonsense_of_itself_ends_with_the_reason(bench: Bench) -> None:
    async with connect(ChannelSettings(target=bench.dispatcher, api_key=bench.api_key)) as channel:
        handlers = Handlers(
            dispatched=ignore,
            cancelled=ignore,
            free_slots=lambda: 1,
            held=list,
        )
        session = Session(channel, queues=["Not A Name"], version="1", labels={}, handlers=handlers)
        with pytest.raises(FieldInvalid, match="queues"):
            await session.run()


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
