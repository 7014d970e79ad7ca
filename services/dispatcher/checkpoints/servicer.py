"""CheckpointService: protobuf in, protobuf out, each flush a span of its own (C7)."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.dispatcher.v1 import checkpoints_pb2, checkpoints_pb2_grpc
from fencepost.errors import FencepostError
from google.protobuf.timestamp_pb2 import Timestamp
from grpc.aio import ServicerContext
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from services.dispatcher.checkpoints.operations import CheckpointOperations, Flush, FlushAnswer
from services.dispatcher.checkpoints.store import Checkpoint, RunRow
from services.dispatcher.dispatch import wire_servicer as wire
from shared import semantic
from shared.rpc.caller import current_caller
from shared.schema.states import AnalysisStatus

_ANALYSIS = {
    checkpoints_pb2.ANALYSIS_STATUS_UNSPECIFIED: AnalysisStatus.UNKNOWN,
    checkpoints_pb2.ANALYSIS_STATUS_RUNNING: AnalysisStatus.RUNNING,
    checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED: AnalysisStatus.SUCCEEDED,
    checkpoints_pb2.ANALYSIS_STATUS_FAILED: AnalysisStatus.FAILED,
}
_ANALYSIS_ON_THE_WIRE = {status: number for number, status in _ANALYSIS.items()}


class CheckpointServicer(checkpoints_pb2_grpc.CheckpointServiceServicer):
    """Translates between the wire and the operations."""

    def __init__(self, operations: CheckpointOperations, tracer: Tracer) -> None:
        self._operations = operations
        self._tracer = tracer

    async def Flush(  # noqa: N802 - named by the contract
        self,
        request: checkpoints_pb2.FlushRequest,
        context: ServicerContext[  # noqa: ARG002
            checkpoints_pb2.FlushRequest, checkpoints_pb2.FlushResponse
        ],
    ) -> checkpoints_pb2.FlushResponse:
        """Stores state, spans and cursor."""
        command = _flush(request, tenant=current_caller().require_tenant())
        with _flush_span(self._tracer, command) as span:
            answer = await self._operations.flush(command)
            span.set_attributes(_stored(answer))
        return checkpoints_pb2.FlushResponse(
            run_id=answer.run_id, version=answer.version, repeated_flush=answer.repeated
        )

    async def GetRun(  # noqa: N802 - named by the contract
        self,
        request: checkpoints_pb2.GetRunRequest,
        context: ServicerContext[  # noqa: ARG002
            checkpoints_pb2.GetRunRequest, checkpoints_pb2.GetRunResponse
        ],
    ) -> checkpoints_pb2.GetRunResponse:
        """Reads the latest checkpoint under a live lease."""
        row = await self._operations.load(
            current_caller().require_tenant(), wire.fence(request.fence, request.intent_id)
        )
        return checkpoints_pb2.GetRunResponse(run=_run(row) if row else None)


def _flush(request: checkpoints_pb2.FlushRequest, *, tenant: str) -> Flush:
    return Flush(
        tenant=tenant,
        fence=wire.fence(request.fence, request.intent_id),
        checkpoint=Checkpoint(
            flush_id=request.flush_id,
            request_sha256=hashlib.sha256(request.SerializeToString(deterministic=True)).digest(),
            based_on_version=request.based_on_version,
            state=request.state.data,
            state_schema_version=request.state.schema_version,
            state_codec=request.state.codec,
            event_cursor=request.event_cursor,
            phase=request.phase,
            analysis_status=_ANALYSIS[request.analysis_status],
            final=request.final,
            span_count=len(request.spans),
        ),
        spans=wire.worker_spans(request.intent_id, request.spans),
    )


@contextmanager
def _flush_span(tracer: Tracer, command: Flush) -> Iterator[Span]:
    """Of one flush; unless it is told what was stored, it was refused, with the reason (C7)."""
    with tracer.start_as_current_span(
        semantic.CHECKPOINT_FLUSH,
        attributes=_described(command),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except FencepostError as refusal:
            span.set_attribute(semantic.ERROR_TYPE, refusal.reason)
            span.set_status(Status(StatusCode.ERROR, refusal.reason))
            raise


def _stored(answer: FlushAnswer) -> dict[str, str | int]:
    return {
        semantic.RUN_ID: answer.run_id,
        semantic.CHECKPOINT_VERSION: answer.version,
        semantic.OUTCOME: "repeated" if answer.repeated else "stored",
    }


def _described(command: Flush) -> dict[str, str | int | bool]:
    return {
        semantic.KEY: command.fence.key,
        semantic.ACTION: command.fence.action,
        semantic.EPOCH: command.fence.epoch,
        semantic.INTENT_ID: command.fence.intent_id,
        semantic.CHECKPOINT_BYTES: len(command.checkpoint.state),
        semantic.CHECKPOINT_SPANS: command.checkpoint.span_count,
        semantic.CHECKPOINT_FINAL: command.checkpoint.final,
        semantic.OUTCOME: "refused",
    }


def _run(row: RunRow) -> checkpoints_pb2.Run:
    flushed_at = Timestamp()
    flushed_at.FromDatetime(row.flushed_at)
    return checkpoints_pb2.Run(
        run_id=row.run_id,
        version=row.version,
        state=checkpoints_pb2.RunState(
            data=row.state, schema_version=row.state_schema_version, codec=row.state_codec
        ),
        event_cursor=row.event_cursor,
        phase=row.phase,
        analysis_status=_ANALYSIS_ON_THE_WIRE[AnalysisStatus(row.analysis_status)],
        flushed_at=flushed_at,
        final=row.final,
        flush_id=row.flush_id,
    )
