"""OpenTelemetry's published OTLP services over gRPC: traces are kept, metrics and logs accepted."""

from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from examples.trace_receiver.misbehaviour import Misbehaviour
from examples.trace_receiver.spans import SpanMemory

Context = grpc.aio.ServicerContext[Any, Any]

MESSAGE_MAX_BYTES = 64 * 1024 * 1024


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it is sent."""

    def __init__(self, memory: SpanMemory, misbehaviour: Misbehaviour) -> None:
        self._memory = memory
        self._misbehaviour = misbehaviour

    async def Export(  # noqa: N802 # gRPC calls it so
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Context
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Takes spans, unless told to fail or hang."""
        await _misbehave(self._misbehaviour, context)
        self._memory.add(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Accepts metrics and forgets them."""

    def __init__(self, misbehaviour: Misbehaviour) -> None:
        self._misbehaviour = misbehaviour

    async def Export(  # noqa: N802 # gRPC calls it so
        self, _request: metrics_service_pb2.ExportMetricsServiceRequest, context: Context
    ) -> metrics_service_pb2.ExportMetricsServiceResponse:
        """Accepts, unless told to fail or hang."""
        await _misbehave(self._misbehaviour, context)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Logs(logs_service_pb2_grpc.LogsServiceServicer):
    """Accepts logs and forgets them."""

    def __init__(self, misbehaviour: Misbehaviour) -> None:
        self._misbehaviour = misbehaviour

    async def Export(  # noqa: N802 # gRPC calls it so
        self, _request: logs_service_pb2.ExportLogsServiceRequest, context: Context
    ) -> logs_service_pb2.ExportLogsServiceResponse:
        """Accepts, unless told to fail or hang."""
        await _misbehave(self._misbehaviour, context)
        return logs_service_pb2.ExportLogsServiceResponse()


async def _misbehave(misbehaviour: Misbehaviour, context: Context) -> None:
    code = await misbehaviour.meet()
    if code is not None:
        await context.abort(code, "told to fail")


def grpc_server(
    memory: SpanMemory, misbehaviour: Misbehaviour, address: str
) -> tuple[grpc.aio.Server, int]:
    """A server with the three services, and the port it is bound to.

    Raises RuntimeError where the address is taken.
    """
    # Without this option a second receiver on the same port would share it in silence.
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES)]
    server = grpc.aio.server(options=options)
    for add_to_server, servicer in (
        (trace_service_pb2_grpc.add_TraceServiceServicer_to_server, Traces(memory, misbehaviour)),
        (metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server, Metrics(misbehaviour)),
        (logs_service_pb2_grpc.add_LogsServiceServicer_to_server, Logs(misbehaviour)),
    ):
        add_to_server(servicer, server)  # type: ignore[no-untyped-call] # published without types
    return server, server.add_insecure_port(address)
