"""The worker's own spans, made without an SDK: they travel in flushes and are exported from there.

A span belongs to the trace that began with the webhook: its parent is what the dispatch carried.
"""

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Attribute = str | int | float | bool

_PROPAGATOR = TraceContextTextMapPropagator()


def context_of(traceparent: str) -> SpanContext:
    """The span context that a dispatch carried; a new root when it carried none that is valid."""
    carried = _PROPAGATOR.extract({"traceparent": traceparent})
    found = trace.get_current_span(carried).get_span_context()
    if found.is_valid:
        return found
    return SpanContext(
        trace_id=secrets.randbits(128) or 1,
        span_id=0,
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


@dataclass
class OpenSpan:
    """A span that has begun; attributes may be added until it ends."""

    name: str
    context: SpanContext
    parent_span_id: int
    kind: "OtlpSpan.SpanKind.ValueType"
    started_ns: int
    attributes: dict[str, Attribute] = field(default_factory=dict)
    failure: str = ""

    def otlp(self, ended_ns: int) -> bytes:
        """The finished span, serialised."""
        parent = self.parent_span_id
        return OtlpSpan(
            trace_id=self.context.trace_id.to_bytes(16, "big"),
            span_id=self.context.span_id.to_bytes(8, "big"),
            parent_span_id=parent.to_bytes(8, "big") if parent else b"",
            name=self.name,
            kind=self.kind,
            start_time_unix_nano=self.started_ns,
            end_time_unix_nano=ended_ns,
            attributes=_key_values(self.attributes),
            status=_status(self.failure),
            flags=int(self.context.trace_flags),
        ).SerializeToString()


def _status(failure: str) -> Status:
    if not failure:
        return Status(code=Status.STATUS_CODE_OK)
    return Status(code=Status.STATUS_CODE_ERROR, message=failure)


def _key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in attributes.items()]


def _any_value(value: Attribute) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)


class SpanRecorder:
    """Spans of one run: each becomes current while it is open, and waits for a flush once ended."""

    def __init__(self, traceparent: str) -> None:
        self._root = context_of(traceparent)
        self._ended: list[bytes] = []

    @property
    def trace_id(self) -> str:
        """The trace that all spans of the run belong to, hex."""
        return f"{self._root.trace_id:032x}"

    @contextmanager
    def span(
        self,
        name: str,
        *,
        kind: "OtlpSpan.SpanKind.ValueType" = OtlpSpan.SPAN_KIND_INTERNAL,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Iterator[OpenSpan]:
        """A span around a block; an exception marks it as failed by its type alone."""
        span = self._begin(name, kind, attributes or {})
        with trace.use_span(NonRecordingSpan(span.context)):
            try:
                yield span
            except BaseException as error:
                span.failure = type(error).__name__
                raise
            finally:
                self._end(span)

    def _begin(
        self,
        name: str,
        kind: "OtlpSpan.SpanKind.ValueType",
        attributes: Mapping[str, Attribute],
    ) -> OpenSpan:
        current = trace.get_current_span().get_span_context()
        inside = current.is_valid and current.trace_id == self._root.trace_id
        parent = current if inside else self._root
        context = SpanContext(
            trace_id=self._root.trace_id,
            span_id=secrets.randbits(64) or 1,
            is_remote=False,
            trace_flags=self._root.trace_flags,
        )
        return OpenSpan(name, context, parent.span_id, kind, time.time_ns(), dict(attributes))

    def _end(self, span: OpenSpan) -> None:
        if span.context.trace_flags.sampled:
            self._ended.append(span.otlp(time.time_ns()))

    def take(self, limit: int) -> list[bytes]:
        """Removes and returns the oldest ended spans, serialised."""
        taken, self._ended = self._ended[:limit], self._ended[limit:]
        return taken

    def put_back(self, spans: list[bytes]) -> None:
        """Returns spans of a flush that was refused, in their old order."""
        self._ended = spans + self._ended
