"""States and their legal edges, declared once: SQL, CHECK constraints and docs/states.md use them.

Every edge names the operation that takes it. A transition that is not listed here is a fault.
"""

from dataclasses import dataclass
from enum import StrEnum


class DeliveryOutcome(StrEnum):
    """What became of a delivery when it was stored."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    REFUSED = "refused"


class ChangeRequestState(StrEnum):
    """Whether a change request still wants work."""

    OPEN = "open"
    CLOSED = "closed"


class IntentStatus(StrEnum):
    """How far an intent is; where an open one stands follows from the row that holds it."""

    OPEN = "open"
    SUCCEEDED = "succeeded"
    DUPLICATE = "duplicate"
    JOINED = "joined"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"
    CANCELLED = "cancelled"
    DEAD = "dead"
    REDRIVEN = "redriven"


class WaitsOn(StrEnum):
    """What an intent in the waiting table waits for; its due time is the cap."""

    TIME = "time"
    LEASE = "lease"
    PUBLICATION = "publication"


class LeaseState(StrEnum):
    """State of the right to act on (key, action)."""

    FREE = "free"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"
    DEAD = "dead"


class DispatchOutcome(StrEnum):
    """How one dispatch ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    DISPLACED = "displaced"


class SessionState(StrEnum):
    """State of a worker's session."""

    OPEN = "open"
    DETACHED = "detached"
    ENDED = "ended"


class AnalysisStatus(StrEnum):
    """How far a run's analysis is, as the worker said."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class AttemptStatus(StrEnum):
    """How far an attempt to publish is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    UNCERTAIN = "uncertain"
    REFUSED = "refused"
    ABSENT = "absent"


class Disposition(StrEnum):
    """Kind of a failure, as the worker said (Q5)."""

    TRANSIENT = "transient"
    DETERMINISTIC = "deterministic"
    PERMANENT = "permanent"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class Edge:
    """One legal transition and the operation that takes it; no source means an insert."""

    source: StrEnum | None
    target: StrEnum
    operation: str


INTENT_EDGES: tuple[Edge, ...] = (
    Edge(None, IntentStatus.OPEN, "submit or enqueue"),
    Edge(IntentStatus.OPEN, IntentStatus.SUCCEEDED, "complete"),
    Edge(IntentStatus.OPEN, IntentStatus.DUPLICATE, "grant refused: its generation had succeeded"),
    Edge(IntentStatus.OPEN, IntentStatus.JOINED, "grant to another intent of the key"),
    Edge(IntentStatus.OPEN, IntentStatus.SUPERSEDED, "grant refused: a newer head is current"),
    Edge(IntentStatus.OPEN, IntentStatus.ABANDONED, "grant refused: the change request is closed"),
    Edge(IntentStatus.OPEN, IntentStatus.CANCELLED, "cancel"),
    Edge(IntentStatus.OPEN, IntentStatus.DEAD, "fail, out of attempts or permanent"),
    Edge(IntentStatus.DEAD, IntentStatus.REDRIVEN, "redrive"),
)

LEASE_EDGES: tuple[Edge, ...] = (
    Edge(None, LeaseState.RUNNING, "grant"),
    Edge(LeaseState.FREE, LeaseState.RUNNING, "grant"),
    Edge(LeaseState.RUNNING, LeaseState.RUNNING, "grant after claimable_at: takeover"),
    Edge(LeaseState.SUCCEEDED, LeaseState.RUNNING, "grant of a newer generation"),
    Edge(LeaseState.SUPERSEDED, LeaseState.RUNNING, "grant of a newer generation"),
    Edge(LeaseState.ABANDONED, LeaseState.RUNNING, "grant of a newer generation"),
    Edge(LeaseState.DEAD, LeaseState.RUNNING, "grant to another intent"),
    Edge(LeaseState.DEAD, LeaseState.FREE, "redrive"),
    Edge(LeaseState.RUNNING, LeaseState.SUCCEEDED, "complete"),
    Edge(LeaseState.RUNNING, LeaseState.FREE, "fail with a retry, release, expire"),
    Edge(LeaseState.RUNNING, LeaseState.DEAD, "fail, out of attempts or permanent"),
    Edge(LeaseState.RUNNING, LeaseState.SUPERSEDED, "supersede"),
    Edge(LeaseState.RUNNING, LeaseState.ABANDONED, "abandon"),
    Edge(LeaseState.FREE, LeaseState.SUPERSEDED, "supersede"),
    Edge(LeaseState.FREE, LeaseState.ABANDONED, "abandon"),
)

SESSION_EDGES: tuple[Edge, ...] = (
    Edge(None, SessionState.OPEN, "hello"),
    Edge(SessionState.OPEN, SessionState.DETACHED, "stream lost"),
    Edge(SessionState.DETACHED, SessionState.OPEN, "hello with resume_session"),
    Edge(SessionState.OPEN, SessionState.OPEN, "hello with resume_session on another replica"),
    Edge(SessionState.OPEN, SessionState.ENDED, "worker closed the session"),
    Edge(SessionState.DETACHED, SessionState.ENDED, "grace passed"),
)

ATTEMPT_EDGES: tuple[Edge, ...] = (
    Edge(None, AttemptStatus.RUNNING, "claim"),
    Edge(AttemptStatus.RUNNING, AttemptStatus.SUCCEEDED, "record the forge's confirmation"),
    Edge(AttemptStatus.RUNNING, AttemptStatus.UNCERTAIN, "record doubt"),
    Edge(AttemptStatus.RUNNING, AttemptStatus.REFUSED, "record the forge's refusal"),
    Edge(AttemptStatus.UNCERTAIN, AttemptStatus.SUCCEEDED, "reconcile: found"),
    Edge(AttemptStatus.UNCERTAIN, AttemptStatus.ABSENT, "reconcile: proven not there"),
)

ATTEMPTS_THAT_BLOCK: tuple[AttemptStatus, ...] = (
    AttemptStatus.RUNNING,
    AttemptStatus.SUCCEEDED,
    AttemptStatus.UNCERTAIN,
)
"""At most one attempt of a publication is in one of these (P2)."""

INTENTS_THAT_OCCUPY: tuple[IntentStatus, ...] = (IntentStatus.OPEN, IntentStatus.SUCCEEDED)
"""An intent made by a delivery occupies (key, action, generation) while in one of these (I13)."""
