"""The OTLP call with which stored spans leave: protobuf out, confirmation in."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from urllib.parse import urlsplit

import grpc
from fencepost.channel import RECONNECT_BACKOFF_MS_MAX
from fencepost.errors import FencepostError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from services.dispatcher.checkpoints.spans_store import PendingSpan
from services.dispatcher.housekeeping.export_operations import SpanExporter
from services.dispatcher.settings import DispatcherSettings
from shared.database import Database
from shared.ticking import Ticker


def span_export(
    database: Database, limits: DispatcherSettings
) -> tuple[Ticker | None, list[Callable[[], Awaitable[None]]]]:
    """The duty that exports spans, and how its connection ends; none without an endpoint."""
    if not limits.otlp_endpoint:
        return None, []
    collector = Collector(limits.otlp_endpoint, timeout_ms=limits.otlp_timeout_ms)
    exporter = SpanExporter(database, collector.send, limits)
    period_ms = limits.span_export_period_ms
    return Ticker("export_spans", period_ms=period_ms, tick=exporter.tick), [collector.close]


class Collector:
    """A collector that speaks OTLP over gRPC."""

    def __init__(self, endpoint: str, *, timeout_ms: int) -> None:
        self._channel = _channel(endpoint)
        stub = TraceServiceStub(self._channel)  # type: ignore[no-untyped-call]  # published without types
        self._export = stub.Export
        self._timeout_s = timeout_ms / 1000

    async def send(self, spans: Sequence[PendingSpan]) -> None:
        """Sends spans as they were stored; raises FencepostError unless they were taken."""
        try:
            await self._export(_request(spans), timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            raise FencepostError(
                f"the collector did not take the worker's spans: {error.code().name}",
                code=error.code(),
            ) from error

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close()


def _channel(endpoint: str) -> grpc.aio.Channel:
    parts = urlsplit(endpoint)
    options = [("grpc.max_reconnect_backoff_ms", RECONNECT_BACKOFF_MS_MAX)]
    if parts.scheme == "https":
        return grpc.aio.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options)
    return grpc.aio.insecure_channel(parts.netloc, options)


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
