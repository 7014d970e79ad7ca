"""One server span a call, in the caller's trace, with the status the call really had.

OpenTelemetry's own asyncio interceptor records OK for aborted calls, hence this one.
"""

from collections.abc import Mapping

from fencepost.metadata import TRACEPARENT
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared import semantic
from shared.rpc.outcomes import FAULTS, Outcome

_PROPAGATOR = TraceContextTextMapPropagator()
_NO_CONTEXT = Context()


def start_span(tracer: Tracer, method: str, metadata: Mapping[str, str | bytes]) -> Span:
    """A span that is current for the rest of this task."""
    context = _NO_CONTEXT
    if TRACEPARENT in metadata:
        context = _PROPAGATOR.extract(metadata, _NO_CONTEXT)
    span = tracer.start_span(
        method,
        context,
        SpanKind.SERVER,
        {semantic.RPC_SYSTEM_NAME: "grpc", semantic.RPC_METHOD: method},
    )
    # Every call has a task of its own, so nothing has to be put back.
    otel_context.attach(set_span_in_context(span, context))
    return span


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
