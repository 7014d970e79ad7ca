"""The worker's own spans, made without an SDK: they travel in flushes and are exported from there.

A span belongs to the trace that began with the webhook: its parent is what the dispatch carried.
"""

import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from opentelemetry import trace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fencepost.failures import storable

Attribute = str | int | float | bool

NAME_LENGTH_MAX: Final = 256
VALUE_LENGTH_MAX: Final = 4096
INT_MAX: Final = 2**63
SPAN_BYTES_MAX: Final = 65536
"""The contract's: larger spans lose their attributes."""

SPANS_KEPT_MAX: Final = 10_000
BYTES_KEPT_MAX: Final = 16 * 1024 * 1024
SPANS_TAKEN_MAX: Final = 1000
BYTES_TAKEN_MAX: Final = 1024 * 1024
"""What one flush or outcome carries at most."""

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
        """The finished span, serialised; without attributes when it is too large with them."""
        whole = self._message(ended_ns, self.attributes).SerializeToString()
        if len(whole) <= SPAN_BYTES_MAX:
            return whole
        return self._message(ended_ns, {}).SerializeToString()

    def _message(self, ended_ns: int, attributes: Mapping[str, Attribute]) -> OtlpSpan:
        parent = self.parent_span_id
        return OtlpSpan(
            trace_id=self.context.trace_id.to_bytes(16, "big"),
            span_id=self.context.span_id.to_bytes(8, "big"),
            parent_span_id=parent.to_bytes(8, "big") if parent else b"",
            name=storable(self.name)[:NAME_LENGTH_MAX],
            kind=self.kind,
            start_time_unix_nano=self.started_ns,
            end_time_unix_nano=ended_ns,
            attributes=_key_values(attributes),
            dropped_attributes_count=len(self.attributes) - len(attributes),
            status=_status(self.failure),
            flags=int(self.context.trace_flags),
        )


def _status(failure: str) -> Status:
    if not failure:
        return Status(code=Status.STATUS_CODE_OK)
    return Status(code=Status.STATUS_CODE_ERROR, message=failure)


def _key_values(attributes: Mapping[str, Attribute]) -> list[KeyValue]:
    return [
        KeyValue(key=storable(key)[:NAME_LENGTH_MAX], value=_any_value(value))
        for key, value in attributes.items()
    ]


def _any_value(value: object) -> AnyValue:
    """The value as OTLP has it; as text where a handler gave what OTLP has not."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int() if -INT_MAX <= value < INT_MAX:
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(string_value=storable(str(value))[:VALUE_LENGTH_MAX])


class SpanRecorder:
    """Spans of one run: each becomes current while it is open, and waits for a flush once ended.

    What waits is bounded: the oldest are dropped and counted (C3).
    """

    def __init__(self, traceparent: str) -> None:
        self._root = context_of(traceparent)
        self._ended: deque[bytes] = deque()
        self._ended_bytes = 0
        self.dropped = 0

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
            self._ended_bytes += len(self._ended[-1])
            self._bound()

    def _bound(self, *, spans_max: int = SPANS_KEPT_MAX, bytes_max: int = BYTES_KEPT_MAX) -> None:
        while len(self._ended) > spans_max or self._ended_bytes > bytes_max:
            self._ended_bytes -= len(self._ended.popleft())
            self.dropped += 1

    @property
    def fits_outcome(self) -> bool:
        """Whether an outcome can carry what waits, and the spans that are still open."""
        return (
            len(self._ended) <= SPANS_TAKEN_MAX // 2 and self._ended_bytes <= BYTES_TAKEN_MAX // 2
        )

    def take(self) -> list[bytes]:
        """Removes and returns the oldest ended spans, as many as one flush carries; serialised."""
        taken: list[bytes] = []
        room_bytes = BYTES_TAKEN_MAX
        while self._ended and len(taken) < SPANS_TAKEN_MAX and len(self._ended[0]) <= room_bytes:
            room_bytes -= len(self._ended[0])
            self._ended_bytes -= len(self._ended[0])
            taken.append(self._ended.popleft())
        return taken

    def take_newest(self) -> list[bytes]:
        """The same for the last time: what does not fit is dropped, the oldest first."""
        self._bound(spans_max=SPANS_TAKEN_MAX, bytes_max=BYTES_TAKEN_MAX)
        return self.take()

    def put_back(self, spans: list[bytes]) -> None:
        """Returns spans of a flush that was refused, in their old order."""
        self._ended.extendleft(reversed(spans))
        self._ended_bytes += sum(len(span) for span in spans)
        self._bound()
