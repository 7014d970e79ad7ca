"""The OTLP call with which stored spans leave: protobuf out, confirmation in."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from urllib.parse import urlsplit

import grpc
from fencepost.channel import RECONNECT_BACKOFF_MS_MAX
from fencepost.errors import FencepostError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from services.dispatcher.checkpoints.spans_store import PendingSpan
from services.dispatcher.housekeeping.export_operations import (
    SpanExporter,
    SpansRefusedError,
    tell_refused,
)
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database
from shared.telemetry import export_credentials, export_headers
from shared.ticking import Ticker

OF_THE_SPANS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INTERNAL,
    }
)
"""Of the statuses that OTLP calls final, those that are not for who sends or where to.

Wrong credentials or a wrong address refuse every span alike: they are mended, and no span is lost.
"""

STATUS_DETAILS = "grpc-status-details-bin"
RETRY_INFO = RetryInfo.DESCRIPTOR.full_name


def span_export(
    database: Database, limits: DispatcherSettings
) -> tuple[Ticker | None, list[Callable[[], Awaitable[None]]]]:
    """The duty that exports spans, and how its connection ends; none without an endpoint."""
    if not limits.otlp_endpoint:
        return None, []
    collector = Collector(limits)
    exporter = SpanExporter(database, collector.send, limits)
    period_ms = limits.span_export_period_ms
    return Ticker("export_spans", period_ms=period_ms, tick=exporter.tick), [collector.close]


class Collector:
    """A collector that speaks OTLP over gRPC, reached as the service's own traces reach it."""

    def __init__(self, limits: DispatcherSettings) -> None:
        """Raises CertificateUnreadableError."""
        self._channel = _channel(limits)
        stub = TraceServiceStub(self._channel)  # type: ignore[no-untyped-call]  # published without types
        self._export = stub.Export
        self._headers = export_headers(limits)
        self._timeout_s = limits.otlp_timeout_ms / 1000

    async def send(self, spans: Sequence[PendingSpan]) -> None:
        """Sends spans as they were stored; raises FencepostError unless they were taken.

        SpansRefusedError says that they, or one of them, never will be.
        """
        request = _request(spans)
        try:
            answer = await self._export(request, timeout=self._timeout_s, metadata=self._headers)
        except grpc.aio.AioRpcError as error:
            raise _refusal(error) from error
        refused = answer.partial_success
        if refused.rejected_spans:
            # The rest was taken, and which was not is not said.
            tell_refused(refused.rejected_spans, why=refused.error_message)

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close()


def _channel(limits: DispatcherSettings) -> grpc.aio.Channel:
    target = urlsplit(limits.otlp_endpoint).netloc
    options = [("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MS_MAX)]
    credentials = export_credentials(limits)
    if credentials is None:
        return grpc.aio.insecure_channel(target, options)
    return grpc.aio.secure_channel(target, credentials, options)


def _refusal(error: grpc.aio.AioRpcError) -> FencepostError:
    message = f"the collector did not take the worker's spans: {error.code().name}"
    exhausted = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and not _may_retry(error)
    if error.code() in OF_THE_SPANS or exhausted:
        return SpansRefusedError(f"{message}: {error.details()}", code=error.code())
    return FencepostError(message, code=error.code())


def _may_retry(error: grpc.aio.AioRpcError) -> bool:
    """Whether the collector says when it will take more; else the request is too much for it."""
    details = dict(error.trailing_metadata()).get(STATUS_DETAILS, b"")
    return any(each.TypeName() == RETRY_INFO for each in Status.FromString(details).details)


def _request(spans: Sequence[PendingSpan]) -> ExportTraceServiceRequest:
    ordered = sorted(spans, key=lambda span: span.service_name)
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=_resource(service_name),
                scope_spans=[ScopeSpans(spans=[Span.FromString(span.otlp_span) for span in group])],
            )
            for service_name, group in groupby(ordered, key=lambda span: span.service_name)
        ]
    )


def _resource(service_name: str) -> Resource:
    name = KeyValue(key="service.name", value=AnyValue(string_value=service_name))
    return Resource(attributes=[name])
