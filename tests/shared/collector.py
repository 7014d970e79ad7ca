"""A collector in the test's own loop, which takes spans, refuses them or never answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Self

from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode, aio, ssl_server_credentials
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from pydantic import SecretStr

from tests.shared.rpc.certificates import Authority

Mood = Literal["takes", "refuses", "hangs"]
CALLER = "a service"
"""The name in the certificate of `access`."""


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it takes."""

    def __init__(self, mood: Mood) -> None:
        self.mood = mood
        self.endpoint = ""
        self.received: list[ResourceSpans] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.callers: list[str] = []
        self.poison = ""
        """A request that holds a span of this name is refused as a whole, with `code`."""
        self.code = StatusCode.INVALID_ARGUMENT
        self.retry_info = False
        self.dropped = 0
        """How many spans of each request it says that it dropped."""

    @classmethod
    @asynccontextmanager
    async def running(
        cls, mood: Mood = "takes", *, clients: Authority | None = None
    ) -> AsyncIterator[Self]:
        """Listens on a free port until the block ends; over TLS if it knows `clients`."""
        collector = cls(mood)
        server = aio.server()
        add: Callable[..., None] = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add(collector, server)
        if clients is None:
            collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        else:
            own = clients.sign("collector")
            asks = ssl_server_credentials(
                [(own.key, own.certificate)], clients.certificate, require_client_auth=True
            )
            collector.endpoint = f"https://127.0.0.1:{server.add_secure_port('127.0.0.1:0', asks)}"
        await server.start()
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
        self.metadata.append(dict(context.invocation_metadata() or ()))
        names = context.auth_context().get("x509_common_name", ())
        self.callers.extend(name.decode() for name in names)
        if self.poison and any(span.name == self.poison for span in _spans(request)):
            context.set_trailing_metadata(self._details())
            await context.abort(self.code, "a span that I cannot read")
        self.received.extend(request.resource_spans)
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = self.dropped
        return answer

    def _details(self) -> tuple[tuple[str, bytes], ...]:
        if not self.retry_info:
            return ()
        status = Status(code=self.code.value[0])
        status.details.add().Pack(RetryInfo())
        return (("grpc-status-details-bin", status.SerializeToString()),)


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for each in request.resource_spans for s in each.scope_spans for span in s.spans]


def access(folder: Path, authority: Authority) -> dict[str, object]:
    """Settings with which a collector that asks for a certificate and a header is reached."""
    own = authority.sign(CALLER)
    files = {"ca": authority.certificate, "certificate": own.certificate, "key": own.key}
    for name, content in files.items():
        (folder / f"{name}.pem").write_bytes(content)
    return {
        "otlp_headers": SecretStr("X-Collector-Key=a%20key"),
        **{f"otlp_{name}_file": folder / f"{name}.pem" for name in files},
    }
