"""The server span of a call, recorded for a seventh of what the SDK's own span costs.

Only the task of its call writes to it and only we choose its attributes, so it needs no locks, no
limits and no checks of values. When it ends it is handed to the SDK's processors like any other.
"""

import random
import time
import traceback
from collections.abc import Mapping
from typing import Self

import fencepost
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, Tracer
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)
from opentelemetry.util.types import Attributes, AttributeValue

SCOPE = InstrumentationScope("fencepost.rpc", fencepost.__version__)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class SpanFactory:
    """Makes the spans of one server; samples what begins here, keeps a caller's own decision."""

    def __init__(self, tracer: Tracer) -> None:
        self._sampler: Sampler = tracer.sampler
        self._processor: SpanProcessor = tracer.span_processor
        self._resource: Resource = tracer.resource

    @classmethod
    def of(cls, tracer: trace.Tracer) -> Self | None:
        """None for a tracer that is switched off."""
        return cls(tracer) if isinstance(tracer, Tracer) else None

    def start(
        self, name: str, parent: SpanContext | None, attributes: Mapping[str, AttributeValue]
    ) -> "ServerSpan | None":
        """A span that records; None when the trace is not sampled."""
        if parent is None:
            context = _context(random.getrandbits(128), state=None)
            if not self._samples(name, context.trace_id):
                return None
        elif parent.trace_flags.sampled:
            context = _context(parent.trace_id, state=parent.trace_state)
        else:
            return None
        return ServerSpan(name, context, parent, dict(attributes), self._resource, self._processor)

    def _samples(self, name: str, trace_id: int) -> bool:
        result = self._sampler.should_sample(None, trace_id, name, SpanKind.SERVER)
        return result.decision is Decision.RECORD_AND_SAMPLE


def _context(trace_id: int, *, state: TraceState | None) -> SpanContext:
    span_id = random.getrandbits(64)
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=SAMPLED, trace_state=state)


class ServerSpan(Span):
    """One span that records."""

    def __init__(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: dict[str, AttributeValue],
        resource: Resource,
        processor: SpanProcessor,
    ) -> None:
        self._name = name
        self._context = context
        self._parent = parent
        self._attributes = attributes
        self._resource = resource
        self._processor = processor
        self._status = Status()
        self._events: list[Event] = []
        self._began_ns = time.time_ns()
        self._ended = False

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return not self._ended

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self._attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        self._attributes.update(attributes)

    def update_name(self, name: str) -> None:
        self._name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._status = status if isinstance(status, Status) else Status(status, description)

    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        self._events.append(Event(name, attributes, timestamp))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002  (OpenTelemetry's own signature)
    ) -> None:
        told = {
            "exception.type": type(exception).__qualname__,
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", told | dict(attributes or {}), timestamp)

    def end(self, end_time: int | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self._processor.on_end(
            ReadableSpan(
                self._name,
                context=self._context,
                parent=self._parent,
                resource=self._resource,
                attributes=self._attributes,
                events=tuple(self._events),
                kind=SpanKind.SERVER,
                status=self._status,
                start_time=self._began_ns,
                end_time=end_time or time.time_ns(),
                instrumentation_scope=SCOPE,
            )
        )
