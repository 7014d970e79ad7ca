"""The work a handler does: its payload, its durable state, its publications."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.channel import Channel
from fencepost.common.v1 import key_pb2
from fencepost.dispatcher.v1 import checkpoints_pb2, work_pb2
from fencepost.dispatcher.v1.checkpoints_pb2_grpc import CheckpointServiceStub
from fencepost.errors import (
    DeadlineTooShort,
    FencepostError,
    LeaseLost,
)
from fencepost.publisher.v1 import publish_pb2
from fencepost.publisher.v1.publish_pb2_grpc import PublishServiceStub
from fencepost.spans import Attribute, OpenSpan, SpanRecorder

if TYPE_CHECKING:
    from fencepost.dispatcher.v1.checkpoints_pb2_grpc import CheckpointServiceAsyncStub
    from fencepost.publisher.v1.publish_pb2_grpc import PublishServiceAsyncStub

STATE_SCHEMA_VERSION = 1
SPANS_A_FLUSH_MAX = 1000
FLUSH_PAUSE_S = 0.2
FLUSH_PAUSE_S_MAX = 4.0
PUBLISH_DEADLINE_S = 60.0

CHECKPOINT_FLUSH = "checkpoint.flush"


class LeaseClock:
    """How long the lease is known to hold, on this process's monotonic clock (L4)."""

    def __init__(self, lease_s: float) -> None:
        self._ends_s = time.monotonic() + lease_s
        self._lost = False

    def renewed(self, *, asked_at_s: float, lease_s: float) -> None:
        """The lease holds from the moment the renewal was asked for, at least."""
        self._ends_s = max(self._ends_s, asked_at_s + lease_s)

    def lose(self) -> None:
        """The dispatcher said that the lease is another's."""
        self._lost = True

    @property
    def remaining_s(self) -> float:
        """Time left; 0 when it is lost or may be."""
        return 0.0 if self._lost else max(0.0, self._ends_s - time.monotonic())


@dataclass(frozen=True, kw_only=True)
class Services:
    """Stubs that a run calls."""

    checkpoints: "CheckpointServiceAsyncStub"
    publish: "PublishServiceAsyncStub | None"

    @classmethod
    def over(cls, dispatcher: Channel, publisher: Channel | None) -> "Services":
        """Stubs over these channels; without a publisher nothing can be published."""
        return cls(
            checkpoints=CheckpointServiceStub(dispatcher),
            publish=PublishServiceStub(publisher) if publisher else None,
        )


@dataclass
class _Durable:
    """What the last acknowledged flush made durable."""

    version: int = 0
    state: bytes = b""
    final: bool = False


@dataclass(frozen=True, kw_only=True)
class ReviewComment:
    """One remark on a line of the new version of a file."""

    path: str
    line: int
    body: str


@dataclass
class Run:
    """One dispatch in a handler's hands.

    `state` is what the next attempt finds after a crash: JSON values only. It becomes durable with
    `checkpoint()`, and without being asked before a publication and at the end.
    """

    dispatch: work_pb2.Dispatch
    payload: bytes
    lease: LeaseClock
    recorder: SpanRecorder
    services: Services
    state: dict[str, Any] = field(default_factory=dict)
    event_cursor: int = 0
    phase: str = ""
    analysis_done: bool = False
    _durable: _Durable = field(default_factory=_Durable)
    _flushing: asyncio.Lock = field(default_factory=asyncio.Lock)

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
        return self._durable.version

    def json(self) -> Any:
        """The payload as JSON; raises ValueError when it is none."""
        return json.loads(self.payload)

    @contextmanager
    def span(self, name: str, **attributes: Attribute) -> Iterator[OpenSpan]:
        """A span of the handler's own, part of the trace that began with the webhook."""
        with self.recorder.span(name, attributes=attributes) as opened:
            yield opened

    async def load(self) -> None:
        """Takes up what an earlier attempt made durable; raises LeaseLost."""
        if self.dispatch.checkpoint_version == 0:
            return
        request = checkpoints_pb2.GetRunRequest(
            fence=self.dispatch.fence, intent_id=self.dispatch.intent_id
        )
        response = await self.services.checkpoints.GetRun(request)
        if not response.HasField("run"):
            return
        run = response.run
        self.state = json.loads(run.state.data)
        self.event_cursor = run.event_cursor
        self.phase = run.phase
        self.analysis_done = run.analysis_status == checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED
        self._durable = _Durable(run.version, run.state.data, run.final)

    async def checkpoint(
        self, phase: str | None = None, *, analysis_done: bool | None = None, final: bool = False
    ) -> int:
        """Makes state, spans and cursor durable; returns the version.

        A flush whose outcome is unknown is repeated with the same id and bytes until it is
        answered or the lease may be over (C2). Raises LeaseLost, CheckpointStale.
        """
        async with self._flushing:
            self.phase = self.phase if phase is None else phase
            self.analysis_done = self.analysis_done if analysis_done is None else analysis_done
            request = self._flush_request(final=final)
            attributes = self._flush_attributes(request)
            with self.recorder.span(CHECKPOINT_FLUSH, attributes=attributes) as span:
                try:
                    response = await self._until_answered(request)
                except FencepostError:
                    self.recorder.put_back(list(request.spans))
                    raise
                span.attributes["fencepost.run.id"] = response.run_id
                span.attributes["fencepost.checkpoint.version"] = response.version
                outcome = "repeated" if response.repeated_flush else "stored"
                span.attributes["fencepost.outcome"] = outcome
            self._durable = _Durable(response.version, request.state.data, final)
            return response.version

    def _flush_request(self, *, final: bool) -> checkpoints_pb2.FlushRequest:
        done = checkpoints_pb2.ANALYSIS_STATUS_SUCCEEDED
        return checkpoints_pb2.FlushRequest(
            fence=self.dispatch.fence,
            intent_id=self.dispatch.intent_id,
            flush_id=str(uuid.uuid4()),
            based_on_version=self._durable.version,
            state=checkpoints_pb2.RunState(
                data=_canonical_json(self.state), schema_version=STATE_SCHEMA_VERSION
            ),
            event_cursor=self.event_cursor,
            phase=self.phase,
            analysis_status=done if self.analysis_done else checkpoints_pb2.ANALYSIS_STATUS_RUNNING,
            spans=self.recorder.take(SPANS_A_FLUSH_MAX),
            final=final,
        )

    def _flush_attributes(self, request: checkpoints_pb2.FlushRequest) -> dict[str, Attribute]:
        return {
            "fencepost.key": request.fence.key,
            "fencepost.action": request.fence.action,
            "fencepost.epoch": request.fence.epoch,
            "fencepost.intent.id": request.intent_id,
            "fencepost.checkpoint.bytes": len(request.state.data),
            "fencepost.checkpoint.spans": len(request.spans),
            "fencepost.checkpoint.final": request.final,
            "fencepost.outcome": "refused",
        }

    async def _until_answered(
        self, request: checkpoints_pb2.FlushRequest
    ) -> checkpoints_pb2.FlushResponse:
        pause_s = FLUSH_PAUSE_S
        while True:
            self.must_hold()
            try:
                return await self.services.checkpoints.Flush(request)
            except FencepostError as unanswered:
                if not (unanswered.retriable or isinstance(unanswered, DeadlineTooShort)):
                    raise
            await asyncio.sleep(min(pause_s, self.lease.remaining_s))
            pause_s = min(pause_s * 2, FLUSH_PAUSE_S_MAX)

    def must_hold(self) -> None:
        """Raises LeaseLost when the lease is lost or may be: no side effect may follow (L4)."""
        if self.lease.remaining_s == 0.0:
            fence = self.dispatch.fence
            raise LeaseLost(key=fence.key, action=fence.action, epoch=fence.epoch)

    async def publish_review(
        self,
        body: str,
        *,
        verdict: "publish_pb2.ReviewVerdict.ValueType" = publish_pb2.REVIEW_VERDICT_COMMENT,
        comments: Sequence[ReviewComment] = (),
        name: str = "review",
        ordinal: int = 0,
    ) -> publish_pb2.PublishReviewResponse:
        """Posts one review, exactly once for this name and ordinal, whatever is repeated.

        State that changed is made durable first (P1). Raises LeaseLost, ReconciliationRequired,
        PublicationsHeld, PublicationBlocked, PublicationRefused. Never repeated by itself (P3).
        """
        if self.services.publish is None:
            raise ValueError("the worker has no publisher: give it the publisher's address")
        if self.is_dirty:
            await self.checkpoint()
        self.must_hold()
        request = publish_pb2.PublishReviewRequest(
            fence=self.dispatch.fence,
            intent_id=self.dispatch.intent_id,
            checkpoint_version=self._durable.version,
            name=name,
            ordinal=ordinal,
            verdict=verdict,
            body=body,
            comments=[
                publish_pb2.ReviewComment(path=each.path, line=each.line, body=each.body)
                for each in comments
            ],
        )
        with self.recorder.span("publish review", attributes={"fencepost.publication.name": name}):
            return await self.services.publish.PublishReview(request, timeout=PUBLISH_DEADLINE_S)

    @property
    def is_dirty(self) -> bool:
        """Whether the state differs from the last durable one, or nothing is durable yet."""
        return self._durable.version == 0 or self._durable.state != _canonical_json(self.state)

    async def finish(self) -> int:
        """Makes sure that the last flush is a final one; returns its version (C4)."""
        if self.is_dirty or not self._durable.final:
            return await self.checkpoint(final=True)
        return self._durable.version


def _canonical_json(state: dict[str, Any]) -> bytes:
    return json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
