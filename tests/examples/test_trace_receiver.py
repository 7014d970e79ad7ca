"""The receiver takes what the published exporter sends, gives it back, and fails when told to."""

import subprocess
import sys
from collections.abc import Iterator

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
)
from opentelemetry.util.types import AttributeValue

from examples.child_process import ROOT
from examples.trace_receiver.client import ExportedSpan, SpanLink, TraceReceiver
from tests.waiting import until_sync


@pytest.fixture(scope="module")
def receiver() -> Iterator[TraceReceiver]:
    """A receiver as a process of its own, which must end with status 0."""
    receiver = TraceReceiver.start()
    yield receiver
    assert receiver.stop() == 0


@pytest.fixture
def tracer(receiver: TraceReceiver) -> Iterator[Tracer]:
    """A tracer that exports each span at once."""
    resource = Resource.create({"service.name": "a-service"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=receiver.otlp_endpoint, insecure=True)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("tests")
    provider.shutdown()


@pytest.fixture
def channel(receiver: TraceReceiver) -> Iterator[grpc.Channel]:
    """A plain channel to the receiver, which is told to behave in the end."""
    with grpc.insecure_channel(receiver.otlp_endpoint.removeprefix("http://")) as channel:
        yield channel
    receiver.misbehave("none")


def _trace_id(span: Span) -> str:
    return format_trace_id(span.get_span_context().trace_id)


def _spans(receiver: TraceReceiver, span: Span) -> dict[str, ExportedSpan]:
    return {one.name: one for one in receiver.spans(_trace_id(span))}


def test_a_trace_comes_back_with_its_parentage(receiver: TraceReceiver, tracer: Tracer) -> None:
    with (
        tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer,
        tracer.start_as_current_span("inner", kind=SpanKind.CLIENT) as inner,
    ):
        pass

    spans = _spans(receiver, outer)

    assert set(spans) == {"outer", "inner"}
    assert spans["outer"].parent_span_id == ""
    assert spans["inner"].parent_span_id == spans["outer"].span_id
    assert spans["inner"].span_id == format_span_id(inner.get_span_context().span_id)
    assert (spans["outer"].kind, spans["inner"].kind) == ("SERVER", "CLIENT")
    assert spans["outer"].service_name == "a-service"
    assert spans["outer"].start_ns <= spans["inner"].start_ns <= spans["inner"].end_ns
    assert spans["inner"].end_ns <= spans["outer"].end_ns
    assert _trace_id(outer) in receiver.trace_ids()


def test_what_a_span_carries_comes_back(receiver: TraceReceiver, tracer: Tracer) -> None:
    with tracer.start_as_current_span("earlier") as earlier:
        pass
    link = Link(earlier.get_span_context(), {"why": "retry"})
    attributes: dict[str, AttributeValue] = {
        "text": "ä",
        "count": 2**53 + 1,
        "ratio": 0.5,
        "on": True,
        "list": ["a", "b"],
    }

    with tracer.start_as_current_span("later", links=[link], attributes=attributes) as later:
        later.add_event("noted", {"n": 1})
        later.set_status(Status(StatusCode.ERROR, "it broke"))

    span = _spans(receiver, later)["later"]
    assert span.attributes == attributes
    assert (span.status, span.status_message) == ("ERROR", "it broke")
    context = earlier.get_span_context()
    assert span.links == (
        SpanLink(
            trace_id=format_trace_id(context.trace_id),
            span_id=format_span_id(context.span_id),
            attributes={"why": "retry"},
        ),
    )
    assert [(event.name, event.attributes) for event in span.events] == [("noted", {"n": 1})]
    assert _spans(receiver, earlier)["earlier"].status == "UNSET"


def test_a_trace_is_summed_up(receiver: TraceReceiver, tracer: Tracer) -> None:
    with tracer.start_as_current_span("root") as root, tracer.start_as_current_span("child"):
        pass

    traces = httpx.get(f"{receiver.http_url}/traces", trust_env=False).json()

    (one,) = [trace for trace in traces if trace["trace_id"] == _trace_id(root)]
    assert (one["spans"], one["services"], one["root"]) == (2, ["a-service"], "root")


def test_a_trace_never_seen_has_no_spans(receiver: TraceReceiver) -> None:
    assert receiver.spans("0" * 32) == []


def _export(channel: grpc.Channel, trace_id: bytes = b"", timeout_s: float = 10.0) -> None:
    request = trace_service_pb2.ExportTraceServiceRequest()
    if trace_id:
        resource_spans = request.resource_spans.add()
        resource_spans.scope_spans.add().spans.add(trace_id=trace_id, span_id=b"8" * 8)
    stub = trace_service_pb2_grpc.TraceServiceStub(channel)  # type: ignore[no-untyped-call] # published without types
    stub.Export(request, timeout=timeout_s)


def test_metrics_and_logs_are_accepted(channel: grpc.Channel) -> None:
    metrics = metrics_service_pb2_grpc.MetricsServiceStub(channel)  # type: ignore[no-untyped-call] # published without types
    logs = logs_service_pb2_grpc.LogsServiceStub(channel)  # type: ignore[no-untyped-call] # published without types

    taken = metrics.Export(metrics_service_pb2.ExportMetricsServiceRequest(), timeout=10)
    assert taken == metrics_service_pb2.ExportMetricsServiceResponse()
    taken = logs.Export(logs_service_pb2.ExportLogsServiceRequest(), timeout=10)
    assert taken == logs_service_pb2.ExportLogsServiceResponse()


def test_the_same_span_exported_twice_stands_there_twice(
    receiver: TraceReceiver, channel: grpc.Channel
) -> None:
    _export(channel, b"twice-exported--")
    _export(channel, b"twice-exported--")

    assert len(receiver.spans(b"twice-exported--".hex())) == 2


def test_it_fails_as_often_as_told(receiver: TraceReceiver, channel: grpc.Channel) -> None:
    receiver.misbehave("fail", code="RESOURCE_EXHAUSTED", times=2)

    for _ in range(2):
        with pytest.raises(grpc.RpcError) as failed:
            _export(channel, b"never-taken-----")
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    _export(channel, b"taken-after-that")

    assert receiver.exports_met() == 2
    assert receiver.spans(b"never-taken-----".hex()) == []
    assert len(receiver.spans(b"taken-after-that".hex())) == 1


def test_an_export_that_hangs_meets_its_deadline_and_is_not_kept(
    receiver: TraceReceiver, channel: grpc.Channel
) -> None:
    receiver.misbehave("hang")

    with pytest.raises(grpc.RpcError) as failed:
        _export(channel, b"hung-and-left---", timeout_s=1.0)
    until_sync(lambda: receiver.exports_met() == 1, what="the export to be met")
    receiver.misbehave("none")

    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert receiver.spans(b"hung-and-left---".hex()) == []


def test_an_export_that_hangs_is_kept_once_released(
    receiver: TraceReceiver, channel: grpc.Channel
) -> None:
    receiver.misbehave("hang")
    stub = trace_service_pb2_grpc.TraceServiceStub(channel)  # type: ignore[no-untyped-call] # published without types
    call = stub.Export.future(trace_service_pb2.ExportTraceServiceRequest(), timeout=10)
    until_sync(receiver.exports_met, what="the export to hang")
    assert not call.done()

    receiver.misbehave("none")

    assert call.result() == trace_service_pb2.ExportTraceServiceResponse()


@pytest.mark.parametrize(
    "directions", [b"{", b"[]", b"{}", b'{"mode": "sulk"}', b'{"mode": "fail", "code": "NO"}']
)
def test_directions_that_make_no_sense_are_refused(
    receiver: TraceReceiver, directions: bytes
) -> None:
    response = httpx.post(f"{receiver.http_url}/faults", content=directions, trust_env=False)

    assert response.status_code == 422


def test_it_ends_cleanly_with_an_export_hanging() -> None:
    with TraceReceiver.start() as receiver:
        receiver.misbehave("hang")
        with grpc.insecure_channel(receiver.otlp_endpoint.removeprefix("http://")) as channel:
            stub = trace_service_pb2_grpc.TraceServiceStub(channel)  # type: ignore[no-untyped-call] # published without types
            call = stub.Export.future(trace_service_pb2.ExportTraceServiceRequest(), timeout=20)
            until_sync(receiver.exports_met, what="the export to hang")

            assert receiver.stop() == 0
            assert call.code() is not grpc.StatusCode.OK


@pytest.mark.parametrize("flag", ["--grpc", "--http"])
def test_a_port_in_use_is_said_in_a_sentence(receiver: TraceReceiver, flag: str) -> None:
    taken = receiver.otlp_endpoint if flag == "--grpc" else receiver.http_url
    free = {"--grpc": "127.0.0.1:0", "--http": "127.0.0.1:0", flag: taken.removeprefix("http://")}
    arguments = [part for option in free.items() for part in option]

    ended = subprocess.run(
        [sys.executable, "-m", "examples.trace_receiver", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert ended.returncode == 1
    assert f"cannot listen on {free[flag]}: " in ended.stderr
