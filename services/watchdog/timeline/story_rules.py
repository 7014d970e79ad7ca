"""The facts of a story, as the tables have them; each class is one row of one query."""

from dataclasses import dataclass
from datetime import datetime

from shared.schema.states import (
    AttemptStatus,
    ChangeRequestState,
    DeliveryOutcome,
    DispatchOutcome,
    Disposition,
    IntentStatus,
    SessionState,
    WaitsOn,
)


@dataclass(frozen=True, kw_only=True)
class ChangeRequest:
    """The pull or merge request that the story is about."""

    tenant: str
    forge_instance: str
    repo_id: int
    number: int
    repo_name: str
    url: str
    head_sha: str
    generation: int
    state: ChangeRequestState
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One delivery and what became of it; `key` is None where it spoke of no change request."""

    tenant: str
    delivery_seq: int
    endpoint: str
    delivery_id: str
    event: str
    event_action: str
    received_at: datetime
    outcome: DeliveryOutcome
    reason: str
    matched_delivery_id: str | None
    key: str | None
    forge_instance: str
    repo_id: int | None
    number: int | None
    traceparent: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """A head that was current; `key` is the ordinary key of its work."""

    generation: int
    head_sha: str
    key: str
    became_current_at: datetime


@dataclass(frozen=True, kw_only=True)
class Intent:
    """A unit of work; `delivery_seq` is None where no delivery made it."""

    intent_id: int
    queue: str
    key: str
    action: str
    generation: int
    head_sha: str
    delivery_seq: int | None
    created_at: datetime
    status: IntentStatus
    attempts: int
    settled_at: datetime | None
    settled_by: int | None
    reason: str
    traceparent: str


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """A dispatch that ended."""

    intent_id: int
    action: str
    epoch: int
    holder: str
    worker_version: str | None
    attempt: int
    granted_at: datetime
    ended_at: datetime
    outcome: DispatchOutcome
    disposition: Disposition | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A lease that runs; the session is None where the holder has none."""

    intent_id: int
    action: str
    epoch: int
    holder: str
    worker_version: str | None
    attempt: int
    granted_at: datetime
    renewed_at: datetime
    claimable_at: datetime
    session_state: SessionState | None
    session_heard_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Flush:
    """A checkpoint that was stored."""

    run_id: int
    key: str
    action: str
    generation: int
    version: int
    epoch: int
    state_bytes: int
    span_count: int
    phase: str
    final: bool
    flushed_at: datetime


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt to publish."""

    publication_id: int
    name: str
    kind: str
    target: str
    attempt: int
    status: AttemptStatus
    epoch: int
    intent_id: int
    claimed_at: datetime
    settled_at: datetime | None
    remote_url: str | None
    detail: str
    traceparent: str


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An intent that a worker could take; `workers` are the open sessions that serve its queue."""

    intent_id: int
    queue: str
    entered_at: datetime
    workers: int


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """An intent that waits."""

    intent_id: int
    waits_on: WaitsOn
    publication_id: int | None
    due_at: datetime
    since: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A hold that covers the work; `placed_by` is None where it is another tenant's business."""

    hold_id: int
    reason: str
    placed_by: str | None
    placed_at: datetime
    released_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint that ever sent; `heard_at` is None where that is longer ago than was looked.

    `tenant` is named where all tenants were asked for.
    """

    tenant: str | None
    endpoint: str
    heard_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Story:
    """All that is known at `now`, newest rows first where a list had to be cut."""

    now: datetime
    asked_for: str
    by_delivery: bool
    change_request: ChangeRequest | None = None
    deliveries: tuple[Delivery, ...] = ()
    heads: tuple[Head, ...] = ()
    intents: tuple[Intent, ...] = ()
    dispatches: tuple[Dispatch, ...] = ()
    leases: tuple[Lease, ...] = ()
    flushes: tuple[Flush, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    ready: tuple[Ready, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    holds: tuple[Hold, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def title(self) -> str:
        """owner/repo#number, else what was asked for."""
        if self.change_request is None:
            return f"delivery {self.asked_for}" if self.by_delivery else self.asked_for
        return f"{self.change_request.repo_name}#{self.change_request.number}"
