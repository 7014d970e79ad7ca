"""One server span a call, in the caller's trace, with the status the call really had.

OpenTelemetry's own asyncio interceptor records OK for aborted calls, hence this one.
"""

import random
import re
from collections.abc import Mapping

from fencepost.metadata import TRACEPARENT, TRACESTATE
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from shared import semantic
from shared.rpc.outcomes import FAULTS, Outcome
from shared.rpc.server_span import SpanFactory

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_CONTEXT = Context()


def start_span(spans: SpanFactory | None, method: str, metadata: Mapping[str, str | bytes]) -> Span:
    """A span that is current for the rest of this task.

    Where nothing is exported, or the trace is not sampled, it records nothing and is what the
    caller sent, so that whoever does record below has the right parent.
    """
    parent = _parent(metadata)
    span: Span | None = None
    if spans is not None:
        attributes = {semantic.RPC_SYSTEM_NAME: "grpc", semantic.RPC_METHOD: method}
        span = spans.start(method, parent, attributes)
    if span is None:
        span = NonRecordingSpan(parent or _unrecorded())
    # Every call has a task of its own, so nothing has to be put back.
    otel_context.attach(set_span_in_context(span, _NO_CONTEXT))
    return span


def _parent(metadata: Mapping[str, str | bytes]) -> SpanContext | None:
    """The caller's W3C trace context; None when there is none or it breaks its form."""
    sent = metadata.get(TRACEPARENT)
    match = _TRACEPARENT.fullmatch(sent) if isinstance(sent, str) else None
    if match is None:
        return None
    state = metadata.get(TRACESTATE)
    context = SpanContext(
        trace_id=int(match[1], 16),
        span_id=int(match[2], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(match[3], 16)),
        trace_state=TraceState.from_header([state]) if isinstance(state, str) else None,
    )
    return context if context.is_valid else None


def _unrecorded() -> SpanContext:
    """Ids by which the log entries of one call are found together."""
    return SpanContext(random.getrandbits(128), random.getrandbits(64), is_remote=False)


def end_span(span: Span, outcome: Outcome) -> None:
    """Ends it with the true status; what only we may know stands here and in the log."""
    if span.is_recording():
        span.set_attribute(semantic.RPC_RESPONSE_STATUS_CODE, outcome.code.name)
        if outcome.reason:
            span.set_attribute(semantic.ERROR_TYPE, outcome.reason)
        if outcome.code in FAULTS:
            span.set_status(Status(StatusCode.ERROR, outcome.reason))
        if outcome.fault is not None:
            span.record_exception(outcome.fault)
    span.end()
