"""Received spans: read from OTLP, kept in memory, shown as plain JSON."""

from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SPANS_MAX = 100_000

Attributes = dict[str, object]


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it was received; ids in hex, an absent parent is the empty string."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    service_name: str
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: Attributes
    links: list[Attributes]
    events: list[Attributes]


class SpanMemory:
    """The newest spans received; the same span exported twice stands here twice."""

    def __init__(self, capacity: int = SPANS_MAX) -> None:
        self._spans: deque[ReceivedSpan] = deque(maxlen=capacity)

    def add(self, request: ExportTraceServiceRequest) -> None:
        """Keeps every span of an export."""
        self._spans.extend(_received(request))

    def list_spans(self, trace_id: str | None = None) -> list[ReceivedSpan]:
        """The spans of one trace, or all, in order of arrival."""
        return [span for span in self._spans if trace_id in (None, span.trace_id)]

    def list_traces(self) -> list[Attributes]:
        """Each trace with its spans counted, its services and its root's name where it has one."""
        by_trace: dict[str, list[ReceivedSpan]] = {}
        for span in self._spans:
            by_trace.setdefault(span.trace_id, []).append(span)
        return [_summary(trace_id, spans) for trace_id, spans in by_trace.items()]


def _summary(trace_id: str, spans: list[ReceivedSpan]) -> Attributes:
    return {
        "trace_id": trace_id,
        "spans": len({span.span_id for span in spans}),
        "services": sorted({span.service_name for span in spans}),
        "root": next((span.name for span in spans if not span.parent_span_id), None),
        "start_ns": min(span.start_ns for span in spans),
    }


def _received(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource_spans in request.resource_spans:
        resource = _attributes(resource_spans.resource.attributes)
        service_name = str(resource.get("service.name", ""))
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield _span(span, service_name)


def _span(span: Span, service_name: str) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        service_name=service_name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        links=[
            {
                "trace_id": link.trace_id.hex(),
                "span_id": link.span_id.hex(),
                "attributes": _attributes(link.attributes),
            }
            for link in span.links
        ],
        events=[
            {
                "name": event.name,
                "time_ns": event.time_unix_nano,
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ],
    )


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return b64encode(value.bytes_value).decode()
    plain: object = getattr(value, kind)
    return plain
