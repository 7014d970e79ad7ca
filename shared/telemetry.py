"""Traces: recorded by a sampler that keeps the caller's decision, exported beside the calls.

A collector that is slow, away or hanging costs spans, which are counted, and never a call or more
of the exit than it was given.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final
from urllib.parse import urlsplit

import fencepost
import grpc
import structlog
from fencepost.tls import TlsFiles
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Span, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared import semantic
from shared.metrics import TRACE_SPANS_EXPORTED, TRACE_SPANS_LOST
from shared.settings import RuntimeSettings, headers_in

NAMESPACE = "fencepost"
QUEUED_SPANS_MAX = 8192
BATCH_SPANS_MAX = 512
EXPORT_EVERY_MS = 1000

QUEUE_FULL: Final = "queue full"
EXPORT_FAILED: Final = "export failed"
EXIT: Final = "time was up at exit"

_PROPAGATOR = TraceContextTextMapPropagator()

log = structlog.get_logger(__name__)


class Telemetry:
    """The tracer of this process, and its end."""

    def __init__(self, provider: TracerProvider, export: "SpanExport | None") -> None:
        self._provider = provider
        self._export = export
        self.tracer: Tracer = provider.get_tracer(NAMESPACE, fencepost.__version__)

    async def stop(self, *, within_ms: int) -> None:
        """Exports what is left, for at most so long; what is left then is counted as lost."""
        if self._export is not None:
            await self._export.stop(within_ms=within_ms)


def start(service: str, settings: RuntimeSettings) -> Telemetry:
    """Begins to trace, for the whole process when it is the first; exports if there is an endpoint.

    Spans are exported to the collector every second. Stop it when everything else has stopped.
    """
    provider = TracerProvider(
        sampler=_sampler(settings),
        resource=Resource.create(
            {
                semantic.SERVICE_NAMESPACE: NAMESPACE,
                semantic.SERVICE_NAME: service,
                semantic.SERVICE_VERSION: fencepost.__version__,
                semantic.SERVICE_INSTANCE_ID: settings.instance,
            }
        ),
        shutdown_on_exit=False,
    )
    export = None
    if settings.otlp_endpoint:
        export = SpanExport(_exporter(settings))
        provider.add_span_processor(export)
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(provider)
    return Telemetry(provider, export)


def export_headers(settings: RuntimeSettings) -> tuple[tuple[str, str], ...]:
    """What each export to the collector carries."""
    headers = settings.otlp_headers
    return headers_in(headers.get_secret_value()) if headers else ()


def export_credentials(settings: RuntimeSettings) -> grpc.ChannelCredentials | None:
    """How the collector is known and what it is shown; None for one without TLS.

    Raises CertificateUnreadableError.
    """
    if urlsplit(settings.otlp_endpoint).scheme != "https":
        return None
    tls = TlsFiles(
        ca=settings.otlp_ca_file,
        certificate=settings.otlp_certificate_file,
        key=settings.otlp_key_file,
    ).read()
    return grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)


def _exporter(settings: RuntimeSettings) -> SpanExporter:
    # A service without a collector starts quicker and stays smaller.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )

    credentials = export_credentials(settings)
    return OTLPSpanExporter(
        endpoint=settings.otlp_endpoint,
        insecure=credentials is None,
        credentials=credentials,
        headers=export_headers(settings),
        timeout=settings.otlp_timeout_ms / 1000,
    )


def traceparent_of(span: Span) -> str:
    """W3C trace context of a span; empty if it has none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get("traceparent", "")


def current_traceparent() -> str:
    """The same of the span under way."""
    return traceparent_of(trace.get_current_span())


def context_from(traceparent: str) -> Context:
    """The parent for a new span; without a valid one, a context in which the span is a new root.

    Nothing of the span under way gets in: give it to `start_span` explicitly.
    """
    return _PROPAGATOR.extract({"traceparent": traceparent}, Context())


def _sampler(settings: RuntimeSettings) -> Sampler:
    if settings.otlp_endpoint:
        return ParentBased(TraceIdRatioBased(settings.trace_sample_ratio))
    return ParentBased(ALWAYS_OFF)


class SpanExport(SpanProcessor):
    """Hands ended spans to a batch exporter and keeps count of them."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._counted = _CountedExporter(exporter)
        self._batches = BatchSpanProcessor(
            self._counted,
            max_queue_size=QUEUED_SPANS_MAX,
            max_export_batch_size=BATCH_SPANS_MAX,
            schedule_delay_millis=EXPORT_EVERY_MS,
        )
        self._queued = 0
        self._stopped = False

    def on_end(self, span: ReadableSpan) -> None:
        """Queues a sampled span; a full queue loses its oldest."""
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self._stopped:
            TRACE_SPANS_LOST.labels(EXIT).inc()
            return
        if self._queued - self._counted.taken >= QUEUED_SPANS_MAX:
            TRACE_SPANS_LOST.labels(QUEUE_FULL).inc()
        else:
            self._queued += 1
        self._batches.on_end(span)

    async def stop(self, *, within_ms: int) -> None:
        """Exports what is queued, for at most so long."""
        self._stopped = True
        try:
            async with asyncio.timeout(within_ms / 1000):
                await asyncio.wrap_future(_in_daemon_thread(self._batches.shutdown))
        except TimeoutError:
            self._counted.abandon()
        lost = self._queued - self._counted.settled
        if lost:
            TRACE_SPANS_LOST.labels(EXIT).inc(lost)
            log.warning("spans were lost at exit: the collector did not take them", spans=lost)


class _CountedExporter(SpanExporter):
    """Counts what the exporter under it takes and loses; says once that it fails."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failing = False
        self._abandoned = False
        self.taken = 0
        self.settled = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = self._exporter.export(spans)
        if self._abandoned:
            return result
        self.settled += len(spans)
        if result is SpanExportResult.SUCCESS:
            TRACE_SPANS_EXPORTED.inc(len(spans))
        else:
            TRACE_SPANS_LOST.labels(EXPORT_FAILED).inc(len(spans))
        self._say_once(failing=result is not SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def abandon(self) -> None:
        """Ends an export under way; what is not settled by now is somebody else's to count."""
        self._abandoned = True
        _in_daemon_thread(self._exporter.shutdown)

    def _say_once(self, *, failing: bool) -> None:
        if failing and not self._failing:
            log.warning("traces are lost: the collector does not take them")
        if self._failing and not failing:
            log.info("the collector takes traces again")
        self._failing = failing


def _in_daemon_thread(work: Callable[[], None]) -> Future[None]:
    """Runs the work where it cannot hold the exit of the process."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  (whoever waits for the future gets it)
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="telemetry-stop", daemon=True).start()
    return future
