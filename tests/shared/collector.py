"""A collector in the test's own loop, which takes spans, refuses them or never answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, Self

from grpc import StatusCode, aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

Mood = Literal["takes", "refuses", "hangs"]


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it takes."""

    def __init__(self, mood: Mood) -> None:
        self.mood = mood
        self.endpoint = ""
        self.received: list[ResourceSpans] = []

    @classmethod
    @asynccontextmanager
    async def running(cls, mood: Mood = "takes") -> AsyncIterator[Self]:
        """Listens on a free port until the block ends."""
        collector = cls(mood)
        server = aio.server()
        add: Callable[..., None] = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add(collector, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        collector.endpoint = f"http://127.0.0.1:{port}"
        try:
            yield collector
        finally:
            await server.stop(None)

    @property
    def spans(self) -> list[Span]:
        """Every span, in order of arrival."""
        return [
            span for each in self.received for scope in each.scope_spans for span in scope.spans
        ]

    async def Export(  # noqa: N802  (the contract's name)
        self,
        request: ExportTraceServiceRequest,
        context: aio.ServicerContext[ExportTraceServiceRequest, ExportTraceServiceResponse],
    ) -> ExportTraceServiceResponse:
        if self.mood == "hangs":
            await asyncio.Event().wait()
        if self.mood == "refuses":
            await context.abort(StatusCode.PERMISSION_DENIED, "not you")
        self.received.extend(request.resource_spans)
        return ExportTraceServiceResponse()
