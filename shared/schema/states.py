"""States and their legal edges, declared once: SQL, CHECK constraints and docs/states.md use them.

Every edge names the operations that take it. A transition that is not listed here is a fault: the
tests' databases refuse it.
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
    HEAD = "head"


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
    """One legal transition: when it is taken, and by which code; no source means an insert."""

    source: StrEnum | None
    target: StrEnum
    when: str
    operations: tuple[str, ...]
    """Dotted names below `services`."""


_TAKE_IN = "ingress.take_operations.take_in"
_ENQUEUE = "dispatcher.intents.operations.IntentOperations.enqueue"
_GRANT = "dispatcher.dispatch.grant_operations.grant"
_SETTLE = "dispatcher.dispatch.settle_operations.settle"
_EXPIRE = "dispatcher.housekeeping.expire_operations.Expirer.tick"
_RESOLVE = "dispatcher.housekeeping.resolve_operations.HeadResolver.tick"
_OPEN_SESSION = "dispatcher.dispatch.operations.DispatchOperations.open_session"
_DETACH_SESSION = "dispatcher.dispatch.operations.DispatchOperations.detach_session"
_END_SESSION = "dispatcher.dispatch.operations.DispatchOperations.end_session"
_CLAIM = "publisher.ledger.operations.claim"
_SETTLE_ATTEMPT = "publisher.ledger.operations.settle"

INTENT_EDGES: tuple[Edge, ...] = (
    Edge(None, IntentStatus.OPEN, "a delivery or a message is taken in", (_TAKE_IN, _ENQUEUE)),
    Edge(IntentStatus.OPEN, IntentStatus.SUCCEEDED, "completed", (_SETTLE,)),
    Edge(IntentStatus.OPEN, IntentStatus.DUPLICATE, "its generation had succeeded", (_GRANT,)),
    Edge(IntentStatus.OPEN, IntentStatus.JOINED, "its lease was taken over", (_GRANT,)),
    Edge(IntentStatus.OPEN, IntentStatus.SUPERSEDED, "a newer head is current", (_TAKE_IN, _GRANT)),
    Edge(
        IntentStatus.OPEN,
        IntentStatus.ABANDONED,
        "the change request is closed, or gone, or the merge group is",
        (_TAKE_IN, _GRANT, _RESOLVE),
    ),
    Edge(
        IntentStatus.OPEN,
        IntentStatus.DEAD,
        "it is not tried again",
        (_SETTLE, _EXPIRE, _RESOLVE),
    ),
    Edge(IntentStatus.DEAD, IntentStatus.REDRIVEN, "its delivery came again", (_TAKE_IN,)),
)

LEASE_EDGES: tuple[Edge, ...] = (
    Edge(None, LeaseState.RUNNING, "granted", (_GRANT,)),
    Edge(LeaseState.FREE, LeaseState.RUNNING, "granted", (_GRANT,)),
    Edge(LeaseState.RUNNING, LeaseState.RUNNING, "taken over after its time", (_GRANT,)),
    Edge(LeaseState.SUCCEEDED, LeaseState.RUNNING, "granted to a newer generation", (_GRANT,)),
    Edge(LeaseState.SUPERSEDED, LeaseState.RUNNING, "granted to a newer generation", (_GRANT,)),
    Edge(LeaseState.ABANDONED, LeaseState.RUNNING, "granted to a newer generation", (_GRANT,)),
    Edge(LeaseState.DEAD, LeaseState.RUNNING, "granted to another intent", (_GRANT,)),
    Edge(LeaseState.RUNNING, LeaseState.SUCCEEDED, "completed", (_SETTLE,)),
    Edge(LeaseState.RUNNING, LeaseState.FREE, "given back, or to be retried", (_SETTLE, _EXPIRE)),
    Edge(LeaseState.RUNNING, LeaseState.DEAD, "it is not tried again", (_SETTLE, _EXPIRE)),
    Edge(LeaseState.RUNNING, LeaseState.SUPERSEDED, "a newer head is current", (_TAKE_IN,)),
    Edge(
        LeaseState.RUNNING,
        LeaseState.ABANDONED,
        "the change request is closed, or the merge group is gone",
        (_TAKE_IN,),
    ),
)

SESSION_EDGES: tuple[Edge, ...] = (
    Edge(None, SessionState.OPEN, "hello", (_OPEN_SESSION,)),
    Edge(SessionState.OPEN, SessionState.DETACHED, "its stream was lost", (_DETACH_SESSION,)),
    Edge(SessionState.DETACHED, SessionState.OPEN, "taken up again", (_OPEN_SESSION,)),
    Edge(SessionState.OPEN, SessionState.OPEN, "taken up by another stream", (_OPEN_SESSION,)),
    Edge(SessionState.OPEN, SessionState.ENDED, "closed by its worker", (_END_SESSION,)),
)

ATTEMPT_EDGES: tuple[Edge, ...] = (
    Edge(None, AttemptStatus.RUNNING, "claimed", (_CLAIM,)),
    Edge(AttemptStatus.RUNNING, AttemptStatus.SUCCEEDED, "the forge confirmed", (_SETTLE_ATTEMPT,)),
    Edge(AttemptStatus.RUNNING, AttemptStatus.UNCERTAIN, "nobody knows", (_SETTLE_ATTEMPT,)),
    Edge(AttemptStatus.RUNNING, AttemptStatus.REFUSED, "the forge refused", (_SETTLE_ATTEMPT,)),
)

ATTEMPTS_THAT_BLOCK: tuple[AttemptStatus, ...] = (
    AttemptStatus.RUNNING,
    AttemptStatus.SUCCEEDED,
    AttemptStatus.UNCERTAIN,
)
"""At most one attempt of a publication is in one of these (P2)."""

INTENTS_THAT_OCCUPY: tuple[IntentStatus, ...] = (IntentStatus.OPEN, IntentStatus.SUCCEEDED)
"""An intent made by a delivery occupies (key, action, generation) while in one of these (I13)."""
