"""What is kept of each call: its span, its figures, and a log entry when the fault is ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

import structlog
from grpc import StatusCode
from opentelemetry.trace import Span

from shared.metrics import RPC_SERVER_DURATION, RPC_SERVER_IN_FLIGHT, RPC_SERVER_REFUSALS
from shared.rpc.outcomes import OK, Outcome
from shared.rpc.server_span import SpanFactory
from shared.rpc.spans import end_span, start_span

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Recording:
    """One call under way."""

    span: Span
    began_s: float


class Recorder:
    """Records the calls of one method."""

    def __init__(self, spans: SpanFactory | None, method: str) -> None:
        self._spans = spans
        self._method = method
        self._in_flight = 0
        self._ok = RPC_SERVER_DURATION.labels(method, StatusCode.OK.name)
        RPC_SERVER_IN_FLIGHT.labels(method).set_function(lambda: self._in_flight)

    def begin(self, metadata: Mapping[str, str | bytes]) -> Recording:
        """Starts the clock and the span."""
        self._in_flight += 1
        return Recording(start_span(self._spans, self._method, metadata), perf_counter())

    def end(self, recording: Recording, outcome: Outcome) -> None:
        """Records how the call really ended."""
        self._in_flight -= 1
        took_s = perf_counter() - recording.began_s
        if outcome is OK:
            self._ok.observe(took_s)
        else:
            RPC_SERVER_DURATION.labels(self._method, outcome.code.name).observe(took_s)
            RPC_SERVER_REFUSALS.labels(self._method, outcome.reason).inc()
        if outcome.fault is not None:
            log.error(
                "the call failed by a fault of ours",
                rpc_method=self._method,
                error_id=outcome.error_id,
                exc_info=outcome.fault,
            )
        end_span(recording.span, outcome)
