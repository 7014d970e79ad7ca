"""Protobuf to commands and back, for work sessions; no rule and no SQL."""

import hashlib
from collections.abc import Sequence

from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import work_pb2
from fencepost.errors import FencepostError, FieldInvalid
from fencepost.status import to_status
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from services.dispatcher.checkpoints.spans_store import WorkerSpan
from services.dispatcher.dispatch.fences_store import Fence
from services.dispatcher.dispatch.grant_operations import Grant
from services.dispatcher.dispatch.operations import RenewAnswer
from services.dispatcher.dispatch.settle_operations import (
    Completed,
    Failed,
    Outcome,
    Released,
    SettleAnswer,
    Settlement,
)
from shared.schema.states import Disposition

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8

_DISPOSITIONS = {
    work_pb2.DISPOSITION_TRANSIENT: Disposition.TRANSIENT,
    work_pb2.DISPOSITION_DETERMINISTIC: Disposition.DETERMINISTIC,
    work_pb2.DISPOSITION_PERMANENT: Disposition.PERMANENT,
    work_pb2.DISPOSITION_BLOCKED: Disposition.BLOCKED,
}


def fence(proof: key_pb2.Fence, intent_id: int) -> Fence:
    """The fence of a call about this intent."""
    return Fence(
        key=proof.key,
        action=proof.action,
        epoch=proof.epoch,
        holder=proof.holder,
        intent_id=intent_id,
    )


def duration(milliseconds: int) -> Duration:
    """A length of time for the wire."""
    length = Duration()
    length.FromMilliseconds(milliseconds)
    return length


def settlement(settle: work_pb2.Settle) -> Settlement:
    """The command of one settle; raises FieldInvalid for a span that is none."""
    return Settlement(
        fence=fence(settle.fence, settle.intent_id),
        outcome=_outcome(settle),
        outcome_sha256=_outcome_digest(settle),
        spans=worker_spans(settle.intent_id, settle.spans),
    )


def _outcome(settle: work_pb2.Settle) -> Outcome:
    match settle.WhichOneof("outcome"):
        case "complete":
            complete = settle.complete
            return Completed(checkpoint_version=complete.checkpoint_version, result=complete.result)
        case "fail":
            fail = settle.fail
            return Failed(
                disposition=_DISPOSITIONS[fail.disposition],
                reason=fail.reason,
                retry_after_ms=fail.retry_after.ToMilliseconds()
                if fail.HasField("retry_after")
                else None,
            )
        case _:
            release = settle.release
            return Released(delay_ms=release.delay.ToMilliseconds(), reason=release.reason)


def _outcome_digest(settle: work_pb2.Settle) -> bytes:
    bare = work_pb2.Settle()
    bare.CopyFrom(settle)
    for name in ("item_id", "fence", "intent_id", "spans"):
        bare.ClearField(name)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).digest()


def worker_spans(intent_id: int, serialised: Sequence[bytes]) -> list[WorkerSpan]:
    """Spans with their ids read out; raises FieldInvalid naming the first that is none."""
    return [_worker_span(intent_id, number, raw) for number, raw in enumerate(serialised)]


def _worker_span(intent_id: int, number: int, raw: bytes) -> WorkerSpan:
    try:
        span = Span.FromString(raw)
    except DecodeError as malformed:
        raise _not_a_span(number) from malformed
    if not (_is_id(span.trace_id, TRACE_ID_BYTES) and _is_id(span.span_id, SPAN_ID_BYTES)):
        raise _not_a_span(number)
    return WorkerSpan(
        intent_id=intent_id, trace_id=span.trace_id, span_id=span.span_id, otlp_span=raw
    )


def _is_id(raw: bytes, length: int) -> bool:
    return len(raw) == length and any(raw)


def _not_a_span(number: int) -> FieldInvalid:
    sentence = "must be a serialised opentelemetry.proto.trace.v1.Span with a trace and span id"
    return FieldInvalid(violations=[(f"spans[{number}]", sentence)])


def dispatch(grant: Grant, *, holder: str, traceparent: str) -> work_pb2.Dispatch:
    """What a worker receives for a grant."""
    intent = grant.intent
    message = work_pb2.Dispatch(
        intent_id=intent.intent_id,
        queue=grant.queue,
        fence=key_pb2.Fence(key=grant.key, action=grant.action, epoch=grant.epoch, holder=holder),
        generation=intent.generation,
        attempt=grant.attempt,
        payload=grant.load.payload or b"",
        payload_by_reference=grant.load.payload is None,
        content_type=intent.content_type,
        schema_name=intent.schema_name,
        traceparent=traceparent,
        lease_time=duration(grant.lease_ms),
        checkpoint_version=grant.load.checkpoint_version,
    )
    if intent.forge_instance is not None:
        message.key.CopyFrom(
            key_pb2.Key(
                forge_instance=intent.forge_instance,
                repo_id=intent.repo_id or 0,
                number=intent.number or 0,
                head_sha=intent.head_sha or "",
                suffix=intent.suffix,
                label=intent.key_label,
            )
        )
    return message


def settle_result(item_id: int, answer: SettleAnswer) -> work_pb2.SettleResult:
    """The answer to one settle."""
    if answer.refusal is not None:
        return refused_settle(item_id, answer.refusal)
    return work_pb2.SettleResult(item_id=item_id, repeated_outcome=answer.repeated)


def refused_settle(item_id: int, refusal: FencepostError) -> work_pb2.SettleResult:
    """A settle that changed nothing, with why."""
    return work_pb2.SettleResult(item_id=item_id, refusal=to_status(refusal))


def renew_result(item_id: int, answer: RenewAnswer) -> work_pb2.RenewResult:
    """The answer to one renewal."""
    if answer.refusal is not None:
        return refused_renewal(item_id, answer.refusal)
    return work_pb2.RenewResult(item_id=item_id, lease_time=duration(answer.lease_ms))


def refused_renewal(item_id: int, refusal: FencepostError) -> work_pb2.RenewResult:
    """A lease that was not renewed, with why."""
    return work_pb2.RenewResult(item_id=item_id, refusal=to_status(refusal))
