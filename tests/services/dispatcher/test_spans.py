"""The dispatcher's own spans, and the worker's, as another process receives them over OTLP."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import CheckpointStale
from fencepost.spans import SpanRecorder
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from examples.trace_receiver.client import ExportedSpan, TraceReceiver
from tests.database_server import DatabaseServer, as_service
from tests.service_process import service_process
from tests.services.dispatcher.floor import TRACEPARENT, Floor, floor_on
from tests.services.dispatcher.wire import Line, flush, settle
from tests.waiting import until

FLUSH = "checkpoint.flush"


@dataclass(frozen=True)
class Traced:
    """A dispatcher whose spans are received, and its database."""

    owner_url: str
    address: str
    receiver: TraceReceiver


@pytest.fixture(scope="module")
def traced(database_server: DatabaseServer) -> Iterator[Traced]:
    with TraceReceiver.start() as receiver:
        for owner_url in database_server.each_database():
            environment = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.otlp_endpoint,
                "DISPATCHER_POLL_INTERVAL_MS": "50",
            }
            url = as_service(owner_url, "dispatcher")
            with service_process("dispatcher", url, environment) as process:
                yield Traced(owner_url, process.grpc, receiver)


@pytest.fixture
async def floor(traced: Traced) -> AsyncIterator[Floor]:
    async with floor_on(traced.owner_url, traced.address) as floor:
        yield floor


@pytest.fixture
async def line(floor: Floor) -> AsyncIterator[Line]:
    async with await floor.line() as line:
        yield line


@pytest.fixture
async def dispatch(floor: Floor, line: Line) -> work_pb2.Dispatch:
    """Work of a trace of its own, in a worker's hands."""
    number = (await floor.rows.change_request()).repo_id
    await floor.ready(traceparent=f"00-{number:032x}-b7ad6b7169203331-01")
    stream, _ = await line.opened()
    await stream.credit(1)
    return await stream.dispatch()


def context_of(dispatch: work_pb2.Dispatch) -> SpanContext:
    """What the dispatch carried."""
    _, trace_id, span_id, flags = dispatch.traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


async def received(traced: Traced, dispatch: work_pb2.Dispatch, name: str) -> ExportedSpan:
    """The one span of this name in the dispatch's trace."""
    trace_id = dispatch.traceparent.split("-")[1]

    def found() -> list[ExportedSpan]:
        return [span for span in traced.receiver.spans(trace_id) if span.name == name]

    [span] = await until(found, what=f"the span {name}")
    return span


@pytest.mark.guarantee("C7")
async def test_the_hand_over_is_in_the_intents_trace_and_the_work_continues_it(
    traced: Traced, dispatch: work_pb2.Dispatch
) -> None:
    span = await received(traced, dispatch, "intent.dispatch")
    assert (span.parent_span_id, span.kind) == (TRACEPARENT.split("-")[2], "PRODUCER")
    assert dispatch.traceparent == f"00-{span.trace_id}-{span.span_id}-01"
    assert span.service_name == "dispatcher"
    assert span.attributes == {
        "messaging.destination.name": "reviews",
        "fencepost.intent.id": dispatch.intent_id,
        "fencepost.key": dispatch.fence.key,
        "fencepost.action": dispatch.fence.action,
        "fencepost.epoch": 1,
        "fencepost.attempt": 1,
        "fencepost.session.id": dispatch.fence.holder,
    }


@pytest.mark.guarantee("C7")
async def test_a_flush_is_a_span_in_the_workers_trace_that_says_what_was_stored(
    traced: Traced, line: Line, dispatch: work_pb2.Dispatch
) -> None:
    recorder = SpanRecorder(dispatch.traceparent)
    with recorder.span("thinking"):
        pass
    with trace.use_span(NonRecordingSpan(context_of(dispatch))):
        sent = flush(dispatch, spans=recorder.take(), final=True)
        answer = await line.call("Flush", sent)
    span = await received(traced, dispatch, FLUSH)
    rpc = await received(traced, dispatch, "fencepost.dispatcher.v1.CheckpointService/Flush")
    assert span.parent_span_id == rpc.span_id
    assert rpc.parent_span_id == dispatch.traceparent.split("-")[2]
    assert span.attributes == {
        "fencepost.key": dispatch.fence.key,
        "fencepost.action": dispatch.fence.action,
        "fencepost.epoch": 1,
        "fencepost.intent.id": dispatch.intent_id,
        "fencepost.checkpoint.bytes": 2,
        "fencepost.checkpoint.spans": 1,
        "fencepost.checkpoint.final": True,
        "fencepost.run.id": answer.run_id,
        "fencepost.checkpoint.version": 1,
        "fencepost.outcome": "stored",
    }
    assert span.status == "UNSET"


@pytest.mark.guarantee("C7")
async def test_a_repeated_and_a_refused_flush_say_so(
    traced: Traced, line: Line, dispatch: work_pb2.Dispatch
) -> None:
    sent = flush(dispatch)
    await line.call("Flush", sent)
    with trace.use_span(NonRecordingSpan(context_of(dispatch))):
        await line.call("Flush", sent)
    span = await received(traced, dispatch, FLUSH)
    assert span.attributes["fencepost.outcome"] == "repeated"
    assert span.attributes["fencepost.checkpoint.version"] == 1
    other = SpanContext(context_of(dispatch).trace_id + 1, 1, True, TraceFlags(1))
    with trace.use_span(NonRecordingSpan(other)), pytest.raises(CheckpointStale):
        await line.call("Flush", flush(dispatch))
    dispatch.traceparent = f"00-{other.trace_id:032x}-{1:016x}-01"
    span = await received(traced, dispatch, FLUSH)
    assert span.attributes["fencepost.outcome"] == "refused"
    assert span.attributes["error.type"] == "CHECKPOINT_STALE"
    assert "fencepost.run.id" not in span.attributes
    assert (span.status, span.events) == ("ERROR", ())


@pytest.mark.guarantee("C7")
async def test_the_workers_spans_arrive_with_their_ids_though_the_collector_failed_once(
    traced: Traced, floor: Floor, line: Line, dispatch: work_pb2.Dispatch
) -> None:
    recorder = SpanRecorder(dispatch.traceparent)
    with recorder.span("outer", attributes={"answer": 42}), recorder.span("inner"):
        pass
    spans = recorder.take()
    traced.receiver.misbehave("fail", times=3)
    sent = flush(dispatch, spans=spans, final=True)
    await line.call("Flush", sent)
    await line.call("Flush", sent)
    outer, inner = [await received(traced, dispatch, name) for name in ("outer", "inner")]
    assert traced.receiver.exports_met() == 3
    assert inner.parent_span_id == outer.span_id
    assert outer.parent_span_id == dispatch.traceparent.split("-")[2]
    assert (outer.attributes, outer.service_name) == ({"answer": 42}, "demo-bot")
    rows = await floor.rows.all("run_spans", intent_id=dispatch.intent_id)
    assert sorted(row["span_id"].hex() for row in rows) == sorted([outer.span_id, inner.span_id])

    async def marked() -> bool:
        rows = await floor.rows.all("run_spans", intent_id=dispatch.intent_id)
        return all(row["exported_at"] for row in rows)

    await until(marked, what="the spans to be marked as exported")


@pytest.mark.guarantee("C7")
async def test_spans_that_come_with_the_outcome_arrive_too(
    traced: Traced, floor: Floor, line: Line
) -> None:
    number = (await floor.rows.change_request()).repo_id
    await floor.ready(traceparent=f"00-{number:032x}-b7ad6b7169203331-01")
    stream, _ = await line.opened()
    await stream.credit(1)
    dispatch = await stream.dispatch()
    recorder = SpanRecorder(dispatch.traceparent)
    with recorder.span("last words"):
        pass
    item = settle(dispatch)
    item.spans.extend(recorder.take())
    [result] = await stream.settle(item)
    assert not result.HasField("refusal")
    await received(traced, dispatch, "last words")
