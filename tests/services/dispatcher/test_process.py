"""A dispatcher that is stopped, killed, or goes on beside another."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import Draining, FencepostError

from shared.schema.grants import Service
from tests.service_process import service_process
from tests.services.dispatcher.floor import Floor, floor_on
from tests.services.dispatcher.wire import enqueue, hello, settle

EXIT_WITHIN_S = 10.0


@pytest.fixture
async def floor(owner_url: str) -> AsyncIterator[Floor]:
    async with floor_on(owner_url, "") as floor:
        yield floor


@pytest.fixture
def url(service_url: Callable[[Service], str]) -> str:
    return service_url("dispatcher")


def drained_within_ms(frame: work_pb2.WorkResponse) -> int:
    """How long the server still serves; 0 while it does not say."""
    return frame.drain.within.ToMilliseconds()


@pytest.mark.guarantee("X3")
async def test_a_stop_says_drain_lets_workers_finish_and_ends(floor: Floor, url: str) -> None:
    await floor.ready()
    with service_process("dispatcher", url) as process:
        async with await floor.line(address=process.grpc) as line:
            stream, session_id = await line.opened()
            await stream.credit(2)
            dispatch = await stream.dispatch()
            process.ask_to_stop()
            assert await stream.first(drained_within_ms) == 10_000
            waiting = await floor.ready()
            await stream.beat()
            [result] = await stream.settle(settle(dispatch))
            assert not result.HasField("refusal")
            await stream.close()
        began = time.monotonic()
        assert await asyncio.to_thread(process.stopped) == 0
        assert time.monotonic() - began < EXIT_WITHIN_S
    assert (await floor.session(session_id))["state"] == "ended"
    assert len(await floor.rows.all("ready", intent_id=waiting.intent_id)) == 1


@pytest.mark.guarantee("X3")
async def test_a_session_that_stays_is_ended_with_the_grace_and_its_leases_hold(
    floor: Floor, url: str
) -> None:
    work = await floor.ready()
    with service_process("dispatcher", url, {"DISPATCHER_DRAIN_GRACE_MS": "300"}) as process:
        async with await floor.line(address=process.grpc) as line:
            stream, session_id = await line.opened()
            await stream.credit(1)
            dispatch = await stream.dispatch()
            before = await floor.lease(work)
            process.ask_to_stop()
            with pytest.raises(Draining):
                await stream.first(lambda _: False)
        assert await asyncio.to_thread(process.stopped) == 0
    assert (await floor.session(session_id))["state"] == "detached"
    assert await floor.lease(work) == before
    with service_process("dispatcher", url) as process:
        async with await floor.line(address=process.grpc) as line:
            stream = line.stream()
            await stream.open(hello(session_id=session_id, resume_session=True))
            again = await stream.dispatch()
            assert (again.intent_id, again.fence) == (dispatch.intent_id, dispatch.fence)
            await stream.close()


async def test_a_stop_waits_for_no_stream_that_said_nothing(floor: Floor, url: str) -> None:
    with service_process("dispatcher", url, {"DISPATCHER_DRAIN_GRACE_MS": "300"}) as process:
        async with await floor.line(address=process.grpc) as line:
            stream = line.stream()
            reading = asyncio.create_task(stream.frame())
            await line.call("EnqueueIntents", enqueue())
            process.ask_to_stop()
            with pytest.raises(FencepostError) as ended:
                await reading
            assert ended.value.retriable
        assert await asyncio.to_thread(process.stopped) == 0


async def test_a_crash_loses_no_dispatch(floor: Floor, url: str) -> None:
    works = [await floor.ready() for _ in range(3)]
    with service_process("dispatcher", url) as process:
        async with await floor.line(address=process.grpc) as line:
            stream, session_id = await line.opened()
            await stream.credit(2)
            first = await stream.dispatches(2)
            process.kill()
            with pytest.raises(FencepostError) as lost:
                await stream.first(lambda _: False)
            assert lost.value.code is grpc.StatusCode.UNAVAILABLE
    with service_process("dispatcher", url) as process:
        async with await floor.line(address=process.grpc) as line:
            stream = line.stream()
            welcome = await stream.open(hello(session_id=session_id, resume_session=True))
            assert welcome.resumed
            again = await stream.dispatches(2)
            assert [each.fence for each in again] == [each.fence for each in first]
            await stream.credit(1)
            third = await stream.dispatch()
            results = await stream.settle(*(settle(each) for each in (*again, third)))
            assert not any(result.HasField("refusal") for result in results)
            await stream.close()
    assert {(await floor.intent(work))["status"] for work in works} == {"succeeded"}


@pytest.mark.guarantee("Q1")
async def test_two_replicas_share_the_work_and_pass_sessions_on(floor: Floor, url: str) -> None:
    names = [{"DISPATCHER_INSTANCE": name} for name in ("one", "two")]
    with (
        service_process("dispatcher", url, names[0]) as first,
        service_process("dispatcher", url, names[1]) as second,
    ):
        async with (
            await floor.line(address=first.grpc) as one,
            await floor.line(address=second.grpc) as two,
        ):
            (stream_one, session_id), (stream_two, _) = await one.opened(), await two.opened()
            works = [await floor.ready() for _ in range(20)]
            await asyncio.gather(stream_one.credit(10), stream_two.credit(10))
            shares = await asyncio.gather(stream_one.dispatches(10), stream_two.dispatches(10))
            granted = sorted(each.intent_id for share in shares for each in share)
            assert granted == [work.intent_id for work in works]
            stream_one.lose()
            moved = two.stream()
            await moved.open(hello(session_id=session_id, resume_session=True))
            held = await moved.dispatches(10)
            assert {each.intent_id for each in held} == {each.intent_id for each in shares[0]}
            row = await floor.session(session_id)
            assert row["replica"].startswith("two/")

            await moved.beat()
            assert (await floor.session(session_id))["state"] == "open"
            results = await moved.settle(*(settle(each) for each in held))
            assert not any(result.HasField("refusal") for result in results)


async def test_a_worker_that_reads_nothing_is_sent_no_more_and_holds_nothing_up(
    floor: Floor, url: str
) -> None:
    with service_process("dispatcher", url, {"DISPATCHER_DRAIN_GRACE_MS": "300"}) as process:
        async with await floor.line(address=process.grpc) as line:
            deaf, _ = await line.opened()
            for _ in range(60):
                await floor.ready(payload=b"x" * 1024 * 1024)
            await deaf.credit(60)
            hearing, _ = await line.opened(queues=["other"])
            work = await floor.ready(queue="other")
            await hearing.credit(1)
            assert (await hearing.dispatch()).intent_id == work.intent_id
            process.ask_to_stop()
            assert await asyncio.to_thread(process.stopped) == 0
