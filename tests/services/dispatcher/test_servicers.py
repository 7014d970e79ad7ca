"""The unary calls over the wire: keys, tenants, fields, answers."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import checkpoints_pb2, intents_pb2, work_pb2
from fencepost.errors import (
    CheckpointStale,
    FencepostError,
    FieldInvalid,
    KeyUnknown,
    LeaseLost,
    RequestIdReused,
)
from fencepost.metadata import AUTHORIZATION, BEARER
from fencepost.status import from_rpc_error
from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from shared.schema.states import IntentStatus
from tests.services.dispatcher.floor import Floor
from tests.services.dispatcher.wire import Line, enqueue, fence, flush, new_intent

TABLES = ("intents", "ready", "waiting", "leases", "dispatches", "runs", "flushes", "run_spans")
SERVICES = {
    "EnqueueIntents": "IntentService",
    "GetIntent": "IntentService",
    "Flush": "CheckpointService",
    "GetRun": "CheckpointService",
    "FetchPayload": "DispatchService",
    "Wake": "DispatchService",
}
KEY = key_pb2.Key(forge_instance="github.com", repo_id=5, number=7, head_sha="a" * 40)


@pytest.fixture
async def line(floor: Floor) -> AsyncIterator[Line]:
    async with await floor.line() as line:
        yield line


async def dispatch(floor: Floor) -> work_pb2.Dispatch:
    """What the holder of new work was given."""
    work = await floor.running()
    return work_pb2.Dispatch(fence=fence(work), intent_id=work.intent_id)


def get_run(held: work_pb2.Dispatch) -> checkpoints_pb2.GetRunRequest:
    return checkpoints_pb2.GetRunRequest(fence=held.fence, intent_id=held.intent_id)


async def request(floor: Floor, rpc: str) -> Message:
    """A good request for this RPC."""
    held = await dispatch(floor)
    match rpc:
        case "EnqueueIntents":
            return enqueue()
        case "GetIntent":
            return intents_pb2.GetIntentRequest(intent_id=held.intent_id)
        case "Flush":
            return flush(held)
        case "GetRun":
            return get_run(held)
        case "FetchPayload":
            return work_pb2.FetchPayloadRequest(fence=held.fence, intent_id=held.intent_id)
        case _:
            return work_pb2.WakeRequest(queues=["reviews"])


async def written(floor: Floor) -> list[object]:
    """What a refused call must leave as it is."""
    return [await floor.rows.all(table) for table in TABLES if table != "flushes"]


async def raw(floor: Floor, api_key: str, rpc: str, sent: Message) -> None:
    """One call without the client's own checks; raises the server's error."""
    method = f"/fencepost.dispatcher.v1.{SERVICES[rpc]}/{rpc}"
    async with grpc.aio.insecure_channel(floor.address) as channel:
        call: Any = channel.unary_unary(method)
        try:
            await call(
                sent.SerializeToString(), metadata=((AUTHORIZATION, BEARER + api_key),), timeout=15
            )
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error


@pytest.mark.guarantee("X2")
@pytest.mark.parametrize("rpc", SERVICES)
async def test_every_call_needs_a_key(floor: Floor, rpc: str) -> None:
    with pytest.raises(KeyUnknown):
        await raw(floor, "fp_aaaaaaaa_" + "a" * 43, rpc, await request(floor, rpc))


BAD: list[tuple[str, Message, str]] = [
    ("EnqueueIntents", enqueue(request_id=""), "request_id"),
    ("EnqueueIntents", intents_pb2.EnqueueIntentsRequest(request_id="r"), "intents"),
    ("EnqueueIntents", enqueue(new_intent(queue="No")), "intents[0].queue"),
    ("EnqueueIntents", enqueue(new_intent(), new_intent(action="")), "intents[1].action"),
    ("EnqueueIntents", enqueue(new_intent(priority=101)), "intents[0].priority"),
    ("EnqueueIntents", enqueue(new_intent(content_type="a\0b")), "intents[0].content_type"),
    ("EnqueueIntents", enqueue(new_intent(key=key_pb2.Key())), "intents[0].key.repo_id"),
    ("GetIntent", intents_pb2.GetIntentRequest(), "intent_id"),
    ("Flush", flush(work_pb2.Dispatch(intent_id=1)), "fence.key"),
    ("Flush", flush(work_pb2.Dispatch(intent_id=1), flush_id="x"), "flush_id"),
    ("Flush", flush(work_pb2.Dispatch(intent_id=1), phase="a\0"), "phase"),
    ("GetRun", checkpoints_pb2.GetRunRequest(intent_id=1), "fence"),
    ("FetchPayload", work_pb2.FetchPayloadRequest(), "fence"),
    ("Wake", work_pb2.WakeRequest(), "queues"),
]


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(("rpc", "sent", "field"), BAD, ids=[f"{b[0]} {b[2]}" for b in BAD])
async def test_a_wrong_field_is_named_and_nothing_is_done(
    floor: Floor, rpc: str, sent: Message, field: str
) -> None:
    key = await floor.rows.api_key(
        *("work", "wake", "intents_write", "intents_read"), tenant=floor.rows.tenant
    )
    before = await written(floor)
    with pytest.raises(FieldInvalid) as refused:
        await raw(floor, key, rpc, sent)
    assert field in [name for name, _ in refused.value.violations]
    assert await written(floor) == before


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    "bad",
    [b"no span", b"", Span(trace_id=b"1" * 16, span_id=bytes(8)).SerializeToString()],
    ids=["no span", "without ids", "zero id"],
)
async def test_a_span_that_is_none_is_named(floor: Floor, line: Line, bad: bytes) -> None:
    spans = [
        Span(trace_id=b"1" * 16, span_id=b"1" * 8).SerializeToString(),
        bad,
    ]
    before = await written(floor)
    sent = flush(await dispatch(floor), spans=spans)
    with pytest.raises(FieldInvalid) as refused:
        await line.call("Flush", sent)
    assert [name for name, _ in refused.value.violations] == ["spans[1]"]
    assert [await floor.rows.all("runs"), await floor.rows.all("run_spans")] == before[-2:]


async def test_intents_are_added_once_a_request_id(floor: Floor, line: Line) -> None:
    sent = enqueue(new_intent(key=KEY), new_intent(priority=-5))
    first = await line.call("EnqueueIntents", sent)
    again = await line.call("EnqueueIntents", sent)
    assert list(again.intent_ids) == list(first.intent_ids)
    assert len(first.intent_ids) == 2
    other = enqueue(request_id=sent.request_id)
    with pytest.raises(RequestIdReused):
        await line.call("EnqueueIntents", other)
    assert len(await floor.rows.all("intents", tenant=floor.rows.tenant)) == 2


async def test_an_intent_is_read_back(floor: Floor, line: Line) -> None:
    sent = enqueue(new_intent(key=KEY, priority=3))
    [intent_id] = (await line.call("EnqueueIntents", sent)).intent_ids
    read = await line.call("GetIntent", intents_pb2.GetIntentRequest(intent_id=intent_id))
    intent = read.intent
    assert (intent.intent_id, intent.queue, intent.action) == (
        *(intent_id, "reviews", "container-dispatch"),
    )
    assert (intent.status, intent.place, intent.attempts) == (
        *(intents_pb2.INTENT_STATUS_OPEN, intents_pb2.INTENT_PLACE_READY, 0),
    )
    assert (intent.key.repo_id, intent.key.head_sha) == (5, "a" * 40)
    assert intent.key.label
    assert (intent.HasField("created_at"), intent.HasField("settled_at")) == (True, False)
    row = await floor.rows.one("intents", intent_id=intent_id)
    assert row["content_type"] == "application/octet-stream"
    assert row["priority"] == 3


async def test_every_status_of_an_intent_can_be_read(floor: Floor, line: Line) -> None:
    for status in set(IntentStatus) - {IntentStatus.OPEN}:
        work = await floor.rows.intent(
            status=status, settled_at="2026-01-01T00:00:00Z", result=b"r"
        )
        sent = intents_pb2.GetIntentRequest(intent_id=work.intent_id)
        intent = (await line.call("GetIntent", sent)).intent
        assert intents_pb2.IntentStatus.Name(intent.status) == f"INTENT_STATUS_{status.name}"
        assert (intent.place, intent.result) == (intents_pb2.INTENT_PLACE_UNSPECIFIED, b"r")


@pytest.mark.guarantee("X8")
async def test_a_key_of_no_tenant_names_the_one_it_acts_for(floor: Floor) -> None:
    async with await floor.line("intents_write", of_tenant=False) as line:
        with pytest.raises(FencepostError):
            await line.call("EnqueueIntents", enqueue())
    async with await floor.line(
        "intents_write", "operate", of_tenant=False, named=floor.rows.tenant
    ) as line:
        await line.call("EnqueueIntents", enqueue())
    assert len(await floor.rows.all("intents", tenant=floor.rows.tenant)) == 1


@pytest.mark.guarantee("C1", "C2")
async def test_a_flush_is_stored_repeated_and_read_back(floor: Floor, line: Line) -> None:
    held = await dispatch(floor)
    state = checkpoints_pb2.RunState(data=b"\x00sealed", schema_version=2, codec="age")
    sent = flush(
        held,
        state=state,
        event_cursor=9,
        phase="publish",
        analysis_status=checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED,
        final=True,
    )
    empty = await line.call("GetRun", get_run(held))
    assert not empty.HasField("run")
    first = await line.call("Flush", sent)
    assert (first.version, first.repeated_flush) == (1, False)
    again = await line.call("Flush", sent)
    assert (again.run_id, again.version, again.repeated_flush) == (first.run_id, 1, True)
    run = (await line.call("GetRun", get_run(held))).run
    assert (run.run_id, run.version, run.flush_id) == (first.run_id, 1, sent.flush_id)
    assert (run.state, run.event_cursor, run.phase, run.final) == (state, 9, "publish", True)
    assert run.analysis_status == checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED
    assert run.HasField("flushed_at")


@pytest.mark.guarantee("C2", "L3")
async def test_a_refused_flush_says_why(floor: Floor, line: Line) -> None:
    held = await dispatch(floor)
    sent = flush(held)
    await line.call("Flush", sent)
    with pytest.raises(CheckpointStale) as stale:
        await line.call("Flush", flush(held))
    assert (stale.value.base_version, stale.value.latest_version) == (0, 1)
    assert stale.value.code is grpc.StatusCode.ABORTED
    other = flush(held, flush_id=sent.flush_id, phase="another")
    with pytest.raises(RequestIdReused):
        await line.call("Flush", other)
    held.fence.epoch += 1
    with pytest.raises(LeaseLost):
        await line.call("Flush", flush(held, based_on_version=1))
