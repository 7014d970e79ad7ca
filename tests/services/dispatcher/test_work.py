"""A worker's session over the wire, frame by frame."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import (
    CheckpointRequired,
    FencepostError,
    FieldInvalid,
    LeaseLost,
    OutcomeConflict,
    ResourceNotFound,
    ScopeMissing,
)
from fencepost.status import from_status

from shared.settings import MIB
from tests.services.dispatcher.floor import TRACE_ID, Floor
from tests.services.dispatcher.wire import Line, flush, hello, renewal, settle
from tests.waiting import until

LEASE_MS = 1_800_000
FRAME_BYTES_MAX = 4 * MIB


@pytest.fixture
async def line(floor: Floor) -> AsyncIterator[Line]:
    async with await floor.line() as line:
        yield line


async def test_a_session_is_welcomed(floor: Floor, line: Line) -> None:
    stream = line.stream()
    said = hello(queues=["reviews", "other", "reviews"], labels={"zone": "a"})
    welcome = await stream.open(said)
    assert (welcome.session_id, welcome.resumed) == (said.session_id, False)
    assert welcome.heartbeat_interval.ToMilliseconds() == 5000
    assert welcome.grace.ToMilliseconds() == 15_000
    row = await floor.session(said.session_id)
    assert (row["tenant"], row["state"], row["queues"], row["labels"]) == (
        *(floor.rows.tenant, "open", ["reviews", "other"], {"zone": "a"}),
    )
    await stream.close()


BAD_BEGINNINGS: list[dict[str, Any]] = [
    {},
    {"credit": work_pb2.Credit(dispatches=1)},
    {"hello": hello(), "credit": work_pb2.Credit(dispatches=1)},
    {"hello": hello(), "heartbeat": work_pb2.Heartbeat()},
]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("parts", BAD_BEGINNINGS, ids=["empty", "credit", "and credit", "and beat"])
async def test_a_session_begins_with_hello_alone(
    floor: Floor, line: Line, parts: dict[str, Any]
) -> None:
    stream = line.stream()
    await stream.send(**parts)
    with pytest.raises(FieldInvalid) as refused:
        await stream.frame()
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [name for name, _ in refused.value.violations] == ["hello"]
    assert await floor.rows.all("sessions", tenant=floor.rows.tenant) == []


@pytest.mark.guarantee("X4")
async def test_hello_is_said_once(line: Line) -> None:
    stream, _ = await line.opened()
    await stream.send(hello=hello())
    with pytest.raises(FieldInvalid) as refused:
        await stream.first(lambda _: False)
    assert [name for name, _ in refused.value.violations] == ["hello"]


async def test_a_dispatch_carries_all_that_the_work_needs(floor: Floor, line: Line) -> None:
    work = await floor.ready(payload=b'{"a": 1}', schema_name="a.v1", suffix="manual-5")
    stream, session_id = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    assert (dispatch.intent_id, dispatch.queue, dispatch.attempt) == (work.intent_id, "reviews", 1)
    assert (dispatch.payload, dispatch.payload_by_reference) == (b'{"a": 1}', False)
    assert (dispatch.content_type, dispatch.schema_name) == ("application/json", "a.v1")
    assert (dispatch.generation, dispatch.checkpoint_version) == (1, 0)
    assert dispatch.lease_time.ToMilliseconds() == LEASE_MS
    fence = dispatch.fence
    assert (fence.key, fence.action, fence.epoch, fence.holder) == (
        *(work.key, work.action, 1, session_id),
    )
    pull = work.change_request
    assert pull is not None
    key = dispatch.key
    assert (key.forge_instance, key.repo_id, key.number, key.head_sha, key.suffix) == (
        *(pull.forge_instance, pull.repo_id, pull.number, pull.head_sha, "manual-5"),
    )
    assert key.label == work.key_label
    assert dispatch.traceparent.split("-")[1] == TRACE_ID


async def test_work_that_is_its_own_key_carries_none(floor: Floor, line: Line) -> None:
    work = await floor.rows.bare_intent()
    await floor.rows.ready(work)
    stream, _ = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    assert (dispatch.HasField("key"), dispatch.fence.key) == (False, work.key)


async def test_no_more_comes_than_there_is_credit_for(floor: Floor, line: Line) -> None:
    works = [await floor.ready() for _ in range(4)]
    stream, _ = await line.opened()
    await stream.beat()
    assert len(await floor.rows.all("ready", tenant=floor.rows.tenant)) == 4
    await stream.credit(1)
    await stream.credit(1)
    first = await stream.dispatches(2)
    await stream.beat()
    assert len(await floor.rows.all("ready", tenant=floor.rows.tenant)) == 2
    await stream.credit(1)
    third = await stream.dispatch()
    assert [each.intent_id for each in (*first, third)] == [each.intent_id for each in works[:3]]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("dispatches", [0, -1, 10_001])
async def test_credit_has_bounds(line: Line, dispatches: int) -> None:
    stream, _ = await line.opened()
    with pytest.raises(FieldInvalid):
        await stream.credit(dispatches)


async def test_frames_keep_their_size_and_large_payloads_stay_behind(
    floor: Floor, line: Line
) -> None:
    large = await floor.ready(payload=b"x" * (MIB + 1))
    works = [await floor.ready(payload=bytes([n]) * MIB) for n in range(6)]
    stream, _ = await line.opened()
    await stream.credit(10)
    frames: list[work_pb2.WorkResponse] = []
    while sum(len(frame.dispatches) for frame in frames) < 7:
        frame = await stream.frame()
        assert frame is not None
        frames.append(frame)
    assert max(frame.ByteSize() for frame in frames) <= FRAME_BYTES_MAX
    found = {each.intent_id: each for frame in frames for each in frame.dispatches}
    carried = [work for work in works if not found[work.intent_id].payload_by_reference]
    assert len(carried) >= 4
    for number, work in enumerate([*works, large]):
        dispatch = found[work.intent_id]
        payload = dispatch.payload
        if dispatch.payload_by_reference:
            assert payload == b""
            request = work_pb2.FetchPayloadRequest(
                fence=dispatch.fence, intent_id=dispatch.intent_id
            )
            payload = (await line.call("FetchPayload", request)).payload
        assert payload == (b"x" * (MIB + 1) if work is large else bytes([number]) * MIB)


@pytest.mark.guarantee("L3")
async def test_a_payload_is_not_for_a_replaced_holder(floor: Floor, line: Line) -> None:
    await floor.ready(payload=b"x" * (MIB + 1))
    stream, _ = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    dispatch.fence.epoch += 1
    request = work_pb2.FetchPayloadRequest(fence=dispatch.fence, intent_id=dispatch.intent_id)
    with pytest.raises(LeaseLost):
        await line.call("FetchPayload", request)


async def test_outcomes_are_answered_each(floor: Floor, line: Line) -> None:
    works = [await floor.ready() for _ in range(4)]
    stream, _ = await line.opened()
    await stream.credit(4)
    one, two, three, four = await stream.dispatches(4)
    transient = work_pb2.Fail(disposition=work_pb2.DISPOSITION_TRANSIENT, reason="no network")
    permanent = work_pb2.Fail(disposition=work_pb2.DISPOSITION_PERMANENT, reason="no repository")
    results = await stream.settle(
        settle(one),
        settle(two, fail=transient),
        settle(three, fail=permanent),
        settle(four, release=work_pb2.Release(reason="not now")),
    )
    assert not any(result.HasField("refusal") or result.repeated_outcome for result in results)
    states = [(await floor.lease(work))["state"] for work in works]
    assert states == ["succeeded", "free", "dead", "free"]
    assert (await floor.intent(works[0]))["result"] == b"done"
    [again, other] = await stream.settle(settle(one), settle(one, fail=transient))
    assert (again.repeated_outcome, again.HasField("refusal")) == (True, False)
    assert isinstance(from_status(other.refusal), OutcomeConflict)


def malformed(dispatch: work_pb2.Dispatch) -> list[tuple[work_pb2.Settle, str]]:
    """Settles that break a rule each, and the field that is named."""
    bad = [settle(dispatch) for _ in range(7)]
    bad[0].ClearField("complete")
    bad[1].ClearField("fence")
    bad[2].intent_id = 0
    bad[3].fail.reason = ""
    bad[4].release.reason = "x\0y"
    bad[5].release.delay.seconds = 2**40
    bad[6].spans.append(b"no span")
    fields = ["outcome", "fence", "intent_id", "fail.reason", "release.reason", "release.delay"]
    return list(zip(bad, [*fields, "spans[0]"], strict=True))


@pytest.mark.guarantee("X4")
async def test_a_malformed_outcome_is_refused_alone(floor: Floor, line: Line) -> None:
    works = [await floor.ready() for _ in range(2)]
    stream, _ = await line.opened()
    await stream.credit(2)
    good, bad = await stream.dispatches(2)
    cases = malformed(bad)
    first, *refused, last = await stream.settle(
        settle(good), *(item for item, _ in cases), settle(bad)
    )
    assert not first.HasField("refusal")
    for result, (_, field) in zip(refused, cases, strict=True):
        error = from_status(result.refusal)
        assert isinstance(error, FieldInvalid)
        assert field in [name for name, _ in error.violations]
    assert (last.HasField("refusal"), last.repeated_outcome) == (False, False)
    assert [(await floor.lease(work))["state"] for work in works] == ["succeeded"] * 2


@pytest.mark.guarantee("X4", "L3")
async def test_a_malformed_or_lost_renewal_is_refused_alone(floor: Floor, line: Line) -> None:
    works = [await floor.ready() for _ in range(3)]
    stream, _ = await line.opened()
    await stream.credit(3)
    good, lost, bad = await stream.dispatches(3)
    await floor.rows.change("leases", {"key": works[1].key}, epoch=2, holder="another")
    broken = renewal(bad)
    broken.fence.key = ""
    before = {work.key: await floor.lease(work) for work in works}
    first, second, third = await stream.renew(renewal(good), renewal(lost), broken)
    assert first.lease_time.ToMilliseconds() == LEASE_MS
    assert not first.HasField("refusal")
    assert isinstance(from_status(second.refusal), LeaseLost)
    assert isinstance(from_status(third.refusal), FieldInvalid)
    after = {work.key: await floor.lease(work) for work in works}
    assert [key for key in after if after[key] != before[key]] == [works[0].key]


@pytest.mark.guarantee("C4")
async def test_success_waits_for_the_final_flush(floor: Floor, line: Line) -> None:
    work = await floor.ready()
    stream, _ = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    flushed = await line.call("Flush", flush(dispatch))
    claimed = work_pb2.Complete(checkpoint_version=flushed.version)
    [refused] = await stream.settle(settle(dispatch, complete=claimed))
    assert isinstance(from_status(refused.refusal), CheckpointRequired)
    final = await line.call("Flush", flush(dispatch, based_on_version=1, final=True))
    claimed = work_pb2.Complete(checkpoint_version=final.version)
    [settled] = await stream.settle(settle(dispatch, complete=claimed))
    assert not settled.HasField("refusal")
    assert (await floor.intent(work))["status"] == "succeeded"


@pytest.mark.guarantee("Q1", "L5")
async def test_of_two_workers_one_gets_the_key_and_the_other_intent_is_a_duplicate(
    floor: Floor, line: Line
) -> None:
    work = await floor.ready()
    async with await floor.line() as other_line:
        streams = [(await each.opened())[0] for each in (line, other_line)]
        await streams[0].credit(5)
        dispatch = await streams[0].dispatch()
        second = await floor.rows.intent(work.change_request)
        await floor.rows.ready(second)
        await streams[1].credit(5)
        await until(
            lambda: floor.rows.all("waiting", intent_id=second.intent_id),
            what="the second intent to be put back",
        )
        [row] = await floor.rows.all("waiting", intent_id=second.intent_id)
        assert (row["waits_on"], row["attempts"]) == ("lease", 0)
        await streams[0].settle(settle(dispatch))

        async def duplicate() -> bool:
            return bool((await floor.intent(second))["status"] == "duplicate")

        await until(duplicate, what="the second intent to be acknowledged")
        row = await floor.intent(second)
        assert (row["settled_by"], row["attempts"]) == (work.intent_id, 0)
        assert len(await floor.rows.all("dispatches", key=work.key)) == 1


async def test_who_winds_down_gets_no_more_and_may_finish(floor: Floor, line: Line) -> None:
    works = [await floor.ready() for _ in range(2)]
    stream, session_id = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    await stream.send(end_drain=work_pb2.EndDrain(), credit=work_pb2.Credit(dispatches=5))
    await stream.beat()
    await stream.settle(settle(dispatch))
    await stream.beat()
    assert (await floor.session(session_id))["draining"]
    await stream.close()
    row = await floor.session(session_id)
    assert (row["state"], row["ended_at"] is None) == ("ended", False)
    states = [len(await floor.rows.all("ready", intent_id=work.intent_id)) for work in works]
    assert states == [0, 1]


async def test_a_stream_that_ends_without_word_of_it_is_as_good_as_lost(
    floor: Floor, line: Line
) -> None:
    work = await floor.ready()
    stream, session_id = await line.opened()
    await stream.credit(1)
    await stream.dispatch()
    before = await floor.lease(work)
    await stream.stop_writing()
    assert (await floor.session(session_id))["state"] == "detached"
    assert await floor.lease(work) == before


async def test_a_lost_stream_detaches_and_the_session_is_taken_up_with_what_it_holds(
    floor: Floor, line: Line
) -> None:
    await floor.ready()
    stream, session_id = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    stream.lose()

    async def detached() -> bool:
        return bool((await floor.session(session_id))["state"] == "detached")

    await until(detached, what="the session to be detached")
    stream = line.stream()
    welcome = await stream.open(hello(session_id=session_id, resume_session=True))
    assert (welcome.session_id, welcome.resumed) == (session_id, True)
    again = await stream.dispatch()
    await stream.beat()
    assert (again.fence, again.intent_id, again.attempt) == (
        *(dispatch.fence, dispatch.intent_id, 1),
    )
    assert LEASE_MS - 60_000 < again.lease_time.ToMilliseconds() <= LEASE_MS
    assert (await floor.session(session_id))["state"] == "open"
    [result] = await stream.settle(settle(again))
    assert not result.HasField("refusal")


async def test_a_session_taken_up_before_its_old_stream_broke_is_not_disturbed_by_it(
    floor: Floor, line: Line
) -> None:
    old, session_id = await line.opened()
    await old.credit(5)
    await old.beat()
    async with await floor.line() as other_line:
        stream = other_line.stream()
        await stream.open(hello(session_id=session_id, resume_session=True))
        await old.send(heartbeat=work_pb2.Heartbeat())
        with pytest.raises(ResourceNotFound):
            await old.first(lambda _: False)
        assert (await floor.session(session_id))["state"] == "open"
        await stream.beat()
        work = await floor.ready()
        await stream.credit(1)
        assert (await stream.dispatch()).intent_id == work.intent_id


@pytest.mark.guarantee("X2")
async def test_a_session_needs_its_scope(floor: Floor) -> None:
    async with await floor.line("intents_write", "wake", "publish", "operate") as line:
        stream = line.stream()
        with pytest.raises(FencepostError) as refused:
            await stream.open()
    assert isinstance(refused.value, ScopeMissing)
    assert refused.value.scope == "work"
    assert await floor.rows.all("sessions", tenant=floor.rows.tenant) == []
