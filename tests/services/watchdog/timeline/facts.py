"""Facts of a story about one pull request, with sensible defaults; times are seconds after noon."""

from datetime import UTC, datetime, timedelta
from typing import Any

from services.watchdog.timeline.story_rules import (
    Attempt,
    ChangeRequest,
    Delivery,
    Dispatch,
    Endpoint,
    Flush,
    Head,
    Hold,
    Intent,
    Lease,
    Ready,
    Story,
    Waiting,
)
from shared.schema.states import (
    AttemptStatus,
    ChangeRequestState,
    DeliveryOutcome,
    DispatchOutcome,
    IntentStatus,
    SessionState,
    WaitsOn,
)

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HEAD = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
KEY = f"github.com/1296269#7@{HEAD}"
URL = "https://github.com/octo-org/widgets/pull/7"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def change_request(**values: Any) -> ChangeRequest:
    """An open pull request at its first head."""
    return ChangeRequest(
        **{
            "tenant": "acme",
            "forge_instance": "github.com",
            "repo_id": 1296269,
            "number": 7,
            "repo_name": "octo-org/widgets",
            "url": URL,
            "head_sha": HEAD,
            "generation": 1,
            "state": ChangeRequestState.OPEN,
            "updated_at": NOON,
            **values,
        }
    )


def delivery(**values: Any) -> Delivery:
    """An accepted delivery, at noon."""
    return Delivery(
        **{
            "tenant": "acme",
            "delivery_seq": 1,
            "endpoint": "github",
            "delivery_id": "d-1",
            "event": "pull_request",
            "event_action": "opened",
            "received_at": NOON,
            "outcome": DeliveryOutcome.ACCEPTED,
            "reason": "",
            "matched_delivery_id": None,
            "key": KEY,
            "forge_instance": "github.com",
            "repo_id": 1296269,
            "number": 7,
            "traceparent": TRACEPARENT,
            **values,
        }
    )


def head(**values: Any) -> Head:
    """The first head, current a moment before its delivery was stored."""
    return Head(
        **{
            "generation": 1,
            "head_sha": HEAD,
            "key": KEY,
            "became_current_at": at(-0.002),
            **values,
        }
    )


def intent(**values: Any) -> Intent:
    """An open intent made by the first delivery, a moment before that was stored."""
    return Intent(
        **{
            "intent_id": 12,
            "queue": "reviews",
            "key": KEY,
            "action": "container-dispatch",
            "generation": 1,
            "head_sha": HEAD,
            "delivery_seq": 1,
            "created_at": at(-0.001),
            "status": IntentStatus.OPEN,
            "attempts": 0,
            "settled_at": None,
            "settled_by": None,
            "reason": "",
            "traceparent": TRACEPARENT,
            **values,
        }
    )


def settled(status: IntentStatus, **values: Any) -> Intent:
    """An intent that was settled a minute after noon."""
    return intent(**{"status": status, "settled_at": at(60), "attempts": 1, **values})


def dispatch(**values: Any) -> Dispatch:
    """A first attempt that was completed."""
    return Dispatch(
        **{
            "intent_id": 12,
            "action": "container-dispatch",
            "epoch": 1,
            "holder": "s-1",
            "worker_version": None,
            "attempt": 1,
            "granted_at": at(1),
            "ended_at": at(50),
            "outcome": DispatchOutcome.COMPLETED,
            "disposition": None,
            "reason": "",
            **values,
        }
    )


def lease(**values: Any) -> Lease:
    """A first attempt that runs, with its session alive."""
    return Lease(
        **{
            "intent_id": 12,
            "action": "container-dispatch",
            "epoch": 1,
            "holder": "s-1",
            "worker_version": "2.1",
            "attempt": 1,
            "granted_at": at(1),
            "renewed_at": at(30),
            "claimable_at": at(1830),
            "session_state": SessionState.OPEN,
            "session_heard_at": at(58),
            **values,
        }
    )


def flush(**values: Any) -> Flush:
    """A first checkpoint."""
    return Flush(
        **{
            "run_id": 5,
            "key": KEY,
            "action": "container-dispatch",
            "generation": 1,
            "version": 1,
            "epoch": 1,
            "state_bytes": 1204,
            "span_count": 3,
            "phase": "analysis",
            "final": False,
            "flushed_at": at(10),
            **values,
        }
    )


def attempt(**values: Any) -> Attempt:
    """A review that is on the forge."""
    return Attempt(
        **{
            "publication_id": 3,
            "name": "review",
            "kind": "review",
            "target": "github.com/1296269#7",
            "attempt": 1,
            "status": AttemptStatus.SUCCEEDED,
            "epoch": 1,
            "intent_id": 12,
            "claimed_at": at(40),
            "settled_at": at(41),
            "remote_url": f"{URL}#pullrequestreview-80",
            "detail": "",
            "traceparent": TRACEPARENT,
            **values,
        }
    )


def ready(**values: Any) -> Ready:
    """The intent could be taken since noon, and nobody is there to."""
    return Ready(
        **{"intent_id": 12, "queue": "reviews", "entered_at": NOON, "workers": 0, **values}
    )


def waiting(**values: Any) -> Waiting:
    """The intent waits for its retry."""
    return Waiting(
        **{
            "intent_id": 12,
            "waits_on": WaitsOn.TIME,
            "publication_id": None,
            "due_at": at(120),
            "since": at(50),
            "reason": "the model is overloaded",
            **values,
        }
    )


def hold(**values: Any) -> Hold:
    """A hold that stands."""
    return Hold(
        **{
            "hold_id": 4,
            "reason": "incident",
            "placed_by": "ops",
            "placed_at": at(5),
            "released_at": None,
            **values,
        }
    )


def endpoint(
    name: str = "github", *, heard_at: datetime | None, tenant: str | None = None
) -> Endpoint:
    """An endpoint that was heard then."""
    return Endpoint(tenant=tenant, endpoint=name, heard_at=heard_at)


def story(**values: Any) -> Story:
    """The story of the pull request, told a minute after noon."""
    return Story(
        **{
            "now": at(60),
            "asked_for": URL,
            "by_delivery": False,
            "change_request": change_request(),
            **values,
        }
    )


def nothing(**values: Any) -> Story:
    """The story of a delivery that nobody received."""
    empty = {"asked_for": "d-9", "by_delivery": True, "change_request": None}
    return story(**{**empty, **values})
