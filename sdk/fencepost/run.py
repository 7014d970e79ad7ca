"""The work a handler does: its payload, its durable state, its publications."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from fencepost.channel import Channel
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import checkpoints_pb2, work_pb2
from fencepost.dispatcher.v1.checkpoints_pb2_grpc import CheckpointServiceStub
from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceStub
from fencepost.errors import FencepostError, FieldInvalid, LeaseLost
from fencepost.failures import StateUnreadableError
from fencepost.lease import LeaseClock, LeaseLapsed, leaves_doubt, until_answered
from fencepost.publisher.v1 import publish_pb2
from fencepost.publisher.v1.publish_pb2_grpc import PublishServiceStub
from fencepost.spans import Attribute, OpenSpan, SpanRecorder

if TYPE_CHECKING:
    from fencepost.dispatcher.v1.checkpoints_pb2_grpc import CheckpointServiceAsyncStub
    from fencepost.dispatcher.v1.work_pb2_grpc import DispatchServiceAsyncStub
    from fencepost.publisher.v1.publish_pb2_grpc import PublishServiceAsyncStub

STATE_SCHEMA_VERSION: Final = 1
PUBLISH_DEADLINE_S: Final = 60.0

CHECKPOINT_FLUSH: Final = "checkpoint.flush"
PUBLISH_REVIEW: Final = "publish review"
OUTCOME: Final = "fencepost.outcome"


@dataclass(frozen=True, kw_only=True)
class Services:
    """Stubs that a run calls."""

    work: "DispatchServiceAsyncStub"
    checkpoints: "CheckpointServiceAsyncStub"
    publish: "PublishServiceAsyncStub | None"

    @classmethod
    def over(cls, dispatcher: Channel, publisher: Channel | None) -> "Services":
        """Stubs over these channels; without a publisher nothing can be published."""
        return cls(
            work=DispatchServiceStub(dispatcher),
            checkpoints=CheckpointServiceStub(dispatcher),
            publish=PublishServiceStub(publisher) if publisher else None,
        )


@dataclass(frozen=True, kw_only=True)
class ReviewComment:
    """One remark on a line of the new version of a file."""

    path: str
    line: int
    body: str


@dataclass(frozen=True)
class _Snapshot:
    """What a checkpoint keeps of a run."""

    state: bytes = b""
    event_cursor: int = 0
    phase: str = ""
    analysis_done: bool = False


@dataclass(frozen=True)
class _Flush:
    """A flush on its way: the very request that is repeated until it is answered."""

    request: checkpoints_pb2.FlushRequest
    snapshot: _Snapshot


class Run:
    """One dispatch in a handler's hands.

    `state` is what the next attempt finds after a crash: JSON values only. It becomes durable with
    `checkpoint()`, and without being asked before a publication and at the end.
    """

    def __init__(
        self,
        dispatch: work_pb2.Dispatch,
        *,
        lease: LeaseClock,
        recorder: SpanRecorder,
        services: Services,
    ) -> None:
        self.dispatch = dispatch
        self.payload = dispatch.payload
        self.state: dict[str, Any] = {}
        self.event_cursor = 0
        self.phase = ""
        self.analysis_done = False
        self._lease = lease
        self._recorder = recorder
        self._services = services
        self._version = 0
        self._durable = _Snapshot()
        self._durable_is_final = False
        self._in_doubt: _Flush | None = None
        self._flushing = asyncio.Lock()

    @property
    def key(self) -> key_pb2.Key:
        """What the work is about; empty for work that is keyed by itself."""
        return self.dispatch.key

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self.dispatch.attempt

    @property
    def version(self) -> int:
        """Latest durable checkpoint; 0 before the first."""
        return self._version

    def json(self) -> Any:
        """The payload as JSON; raises ValueError when it is none."""
        return json.loads(self.payload)

    @contextmanager
    def span(self, name: str, **attributes: Attribute) -> Iterator[OpenSpan]:
        """A span of the handler's own, part of the trace that began with the webhook."""
        with self._recorder.span(name, attributes=attributes) as opened:
            yield opened

    async def begin(self) -> None:
        """Fetches what the dispatch did not carry, and what an earlier attempt made durable.

        Raises LeaseLost, StateUnreadableError.
        """
        if self.dispatch.payload_by_reference:
            self.payload = await self._fetch_payload()
        if self.dispatch.checkpoint_version:
            self._take_up(await self._latest_checkpoint())

    async def _fetch_payload(self) -> bytes:
        request = work_pb2.FetchPayloadRequest(
            fence=self.dispatch.fence, intent_id=self.dispatch.intent_id
        )
        fetch = self._services.work.FetchPayload
        return (await until_answered(lambda: fetch(request), self._lease)).payload

    async def _latest_checkpoint(self) -> checkpoints_pb2.Run:
        request = checkpoints_pb2.GetRunRequest(
            fence=self.dispatch.fence, intent_id=self.dispatch.intent_id
        )
        get_run = self._services.checkpoints.GetRun
        return (await until_answered(lambda: get_run(request), self._lease)).run

    def _take_up(self, run: checkpoints_pb2.Run) -> None:
        self.state = _read_state(run.state)
        self.event_cursor = run.event_cursor
        self.phase = run.phase
        self.analysis_done = run.analysis_status == checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED
        self._version = run.version
        self._durable = self._snapshot()
        self._durable_is_final = run.final

    async def checkpoint(
        self, phase: str | None = None, *, analysis_done: bool | None = None, final: bool = False
    ) -> int:
        """Makes state, spans and cursor durable; returns the version.

        A flush whose outcome is unknown is repeated with the same id and bytes until it is
        answered or the lease may be over (C2); one that was left in doubt is settled by the next
        checkpoint before anything else. Raises LeaseLost, FieldInvalid.
        """
        async with self._flushing:
            if self._in_doubt is not None:
                await self._flush(self._in_doubt)
            self.must_hold()
            before = self.phase, self.analysis_done
            self.phase = before[0] if phase is None else phase
            self.analysis_done = before[1] if analysis_done is None else analysis_done
            try:
                await self._flush(self._next_flush(final=final))
            except FencepostError as refused:
                if not _unanswered(refused):
                    self.phase, self.analysis_done = before
                raise
            return self._version

    def _snapshot(self) -> _Snapshot:
        state = json.dumps(self.state, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return _Snapshot(state.encode(), self.event_cursor, self.phase, self.analysis_done)

    def _next_flush(self, *, final: bool) -> _Flush:
        if "\0" in self.phase:
            raise FieldInvalid(violations=[("phase", "must not contain NUL")])
        snapshot = self._snapshot()
        done = checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED
        request = checkpoints_pb2.FlushRequest(
            fence=self.dispatch.fence,
            intent_id=self.dispatch.intent_id,
            flush_id=str(uuid.uuid4()),
            based_on_version=self._version,
            state=checkpoints_pb2.RunState(
                data=snapshot.state, schema_version=STATE_SCHEMA_VERSION
            ),
            event_cursor=snapshot.event_cursor,
            phase=snapshot.phase,
            analysis_status=done
            if snapshot.analysis_done
            else checkpoints_pb2.ANALYSIS_STATUS_RUNNING,
            spans=self._recorder.take(),
            final=final,
        )
        return _Flush(request, snapshot)

    async def _flush(self, flush: _Flush) -> None:
        request = flush.request
        self._in_doubt = flush
        attributes = _described(request, spans_dropped=self._recorder.dropped)
        with self._recorder.span(
            CHECKPOINT_FLUSH, kind=OtlpSpan.SPAN_KIND_CLIENT, attributes=attributes
        ) as span:
            try:
                with self._fenced():
                    response = await until_answered(
                        lambda: self._services.checkpoints.Flush(request), self._lease
                    )
            except FencepostError as error:
                if not _unanswered(error):
                    span.attributes[OUTCOME] = "refused"
                    self._in_doubt = None
                    self._recorder.put_back(list(request.spans))
                raise
            self._in_doubt = None
            span.attributes["fencepost.run.id"] = response.run_id
            span.attributes["fencepost.checkpoint.version"] = response.version
            span.attributes[OUTCOME] = "repeated" if response.repeated_flush else "stored"
        self._version = response.version
        self._durable, self._durable_is_final = flush.snapshot, request.final

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        """A refusal for want of the lease holds for everything after it (L4)."""
        try:
            yield
        except LeaseLost:
            self._lease.lose()
            raise

    def must_hold(self) -> None:
        """Raises LeaseLost when the lease is lost or may be: no side effect may follow (L4)."""
        self._lease.must_hold()

    async def publish_review(
        self,
        body: str,
        *,
        verdict: "publish_pb2.ReviewVerdict.ValueType" = publish_pb2.REVIEW_VERDICT_COMMENT,
        comments: Sequence[ReviewComment] = (),
        name: str = "review",
        ordinal: int = 0,
    ) -> publish_pb2.PublishReviewResponse:
        """Posts one review, at most once for this name and ordinal, whatever is repeated.

        What changed since the last checkpoint is made durable first (P1). Raises LeaseLost,
        ReconciliationRequired, PublicationsHeld, PublicationBlocked, PublicationRefused, and
        ConnectionMissing or another where the forge's connection does not open. Never repeated by
        itself (P3).
        """
        if self._services.publish is None:
            raise ValueError("the worker has no publisher: give it the publisher's address")
        if self.is_dirty:
            await self.checkpoint()
        self.must_hold()
        request = publish_pb2.PublishReviewRequest(
            fence=self.dispatch.fence,
            intent_id=self.dispatch.intent_id,
            checkpoint_version=self._version,
            name=name,
            ordinal=ordinal,
            verdict=verdict,
            body=body,
            comments=[
                publish_pb2.ReviewComment(path=each.path, line=each.line, body=each.body)
                for each in comments
            ],
        )
        attributes: dict[str, Attribute] = {
            "fencepost.publication.name": name,
            "fencepost.publication.ordinal": ordinal,
        }
        with (
            self._recorder.span(
                PUBLISH_REVIEW, kind=OtlpSpan.SPAN_KIND_CLIENT, attributes=attributes
            ),
            self._fenced(),
        ):
            return await self._services.publish.PublishReview(request, timeout=PUBLISH_DEADLINE_S)

    @property
    def is_dirty(self) -> bool:
        """Whether a checkpoint now would keep something new; true before the first."""
        in_doubt = self._in_doubt is not None
        return in_doubt or self._version == 0 or self._durable != self._snapshot()

    async def finish(self) -> int:
        """Makes sure that the last flush is a final one; returns its version (C4)."""
        while self.is_dirty or not self._durable_is_final or not self._recorder.fits_outcome:
            await self.checkpoint(final=True)
        return self._version

    def last_spans(self) -> list[bytes]:
        """Spans for the outcome to carry: those of a flush left in doubt, and what ended since."""
        if self._in_doubt is not None:
            self._recorder.put_back(list(self._in_doubt.request.spans))
        return self._recorder.take_newest()


def _unanswered(error: FencepostError) -> bool:
    return isinstance(error, LeaseLapsed) or leaves_doubt(error)


def _read_state(stored: checkpoints_pb2.RunState) -> dict[str, Any]:
    written_as = stored.codec or f"version {stored.schema_version}"
    if stored.codec or stored.schema_version != STATE_SCHEMA_VERSION:
        raise StateUnreadableError(f"the stored state is {written_as}, which this SDK cannot read")
    try:
        state = json.loads(stored.data)
    except ValueError as malformed:
        raise StateUnreadableError(f"the stored state is not JSON: {malformed}") from malformed
    if not isinstance(state, dict):
        raise StateUnreadableError("the stored state is not a JSON object")
    return state


def _described(
    request: checkpoints_pb2.FlushRequest, *, spans_dropped: int
) -> dict[str, Attribute]:
    return {
        "fencepost.key": request.fence.key,
        "fencepost.action": request.fence.action,
        "fencepost.epoch": request.fence.epoch,
        "fencepost.intent.id": request.intent_id,
        "fencepost.checkpoint.bytes": len(request.state.data),
        "fencepost.checkpoint.spans": len(request.spans),
        "fencepost.checkpoint.final": request.final,
        "fencepost.spans.dropped": spans_dropped,
        OUTCOME: "unknown",
    }
