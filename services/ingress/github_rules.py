"""GitHub's events: which make work, and what of their bodies matters.

| event | action | becomes |
|---|---|---|
| `pull_request` | `opened`, `synchronize`, `reopened`, `ready_for_review` | work, unless a draft |
| `pull_request` | `closed` | the change request is closed; ignored: `closed` |
| `pull_request` | any other | ignored: `action-unwanted` |
| `ping` | none | ignored: `ping` |
| any other | any | ignored: `event-unwanted` |

A field that nothing depends on may be absent or null; one that is there must be of its type.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from services.ingress.body_rules import MalformedError
from services.ingress.fields_rules import Fields
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Reading, Transition
from shared.schema.states import ChangeRequestState

PULL_REQUEST = "pull_request"
PING = "ping"

TRANSITIONS: Mapping[str, Transition] = MappingProxyType(
    {
        "opened": Transition.OPENED,
        "synchronize": Transition.PUSHED,
        "reopened": Transition.REOPENED,
        "ready_for_review": Transition.READIED,
        "closed": Transition.CLOSED,
    }
)
"""Actions of pull_request that change what is recorded; every other one is ignored."""

ACTION_CHARACTERS_MAX = 100
NAME_CHARACTERS_MAX = 200
URL_CHARACTERS_MAX = 500

T = TypeVar("T")


def read(event: str, document: dict[str, object]) -> Reading:
    """What an event says; raises MalformedError, which names the field."""
    body = Fields(document)
    if event == PULL_REQUEST:
        return _read_pull_request(body)
    return Reading(
        event_action=_leaf(lambda: body.optional_text("action", ACTION_CHARACTERS_MAX)) or "",
        event=None,
        ignored=IgnoredReason.PING if event == PING else IgnoredReason.EVENT_UNWANTED,
        projection=_common_projection(body),
    )


def _read_pull_request(body: Fields) -> Reading:
    action = body.text("action", ACTION_CHARACTERS_MAX)
    transition = TRANSITIONS.get(action)
    if transition is None:
        return Reading(
            event_action=action,
            event=None,
            ignored=IgnoredReason.ACTION_UNWANTED,
            projection=_common_projection(body),
        )
    event = _change_request(body, transition)
    return Reading(
        event_action=action,
        event=event,
        ignored=None,
        projection=_common_projection(body) | _pull_request_projection(body, event),
    )


def _change_request(body: Fields, transition: Transition) -> ChangeRequestEvent:
    repository = body.object("repository")
    pull = body.object("pull_request")
    base = pull.optional_object("base")
    return ChangeRequestEvent(
        transition=transition,
        repo_id=repository.number("id"),
        repo_name=repository.text("full_name", NAME_CHARACTERS_MAX),
        number=pull.number("number"),
        head_sha=pull.object("head").commit("sha"),
        before_sha=body.optional_commit("before") if transition is Transition.PUSHED else None,
        base_ref=(base.optional_text("ref") if base else None) or "",
        state=_state(pull, transition),
        draft=pull.optional_flag("draft") or False,
        updated_at=pull.optional_instant("updated_at"),
        url=_url(pull),
    )


def _state(pull: Fields, transition: Transition) -> ChangeRequestState:
    closed = pull.optional_text("state") == "closed" or transition is Transition.CLOSED
    return ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN


def _url(pull: Fields) -> str:
    url = pull.optional_text("html_url", URL_CHARACTERS_MAX + 1) or ""
    if url and (len(url) > URL_CHARACTERS_MAX or not url.startswith(("https://", "http://"))):
        raise MalformedError(
            pull.path("html_url"),
            f"must be an http address of at most {URL_CHARACTERS_MAX} characters",
        )
    return url


def _from_fork(body: Fields) -> bool:
    """Whether people without write access may have made the head; unknown counts as yes."""
    head = body.object("pull_request").object("head").optional_object("repo")
    repository = body.object("repository")
    return head is None or head.optional_number("id") != repository.number("id")


def _common_projection(body: Fields) -> dict[str, str | int | bool]:
    found = {
        "repo_id": _leaf(lambda: body.object("repository").number("id")),
        "repo_name": _leaf(lambda: body.object("repository").optional_text("full_name")),
        "sender": _leaf(lambda: body.object("sender").optional_text("login")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _leaf(read_leaf: Callable[[], T | None]) -> T | None:
    """What nothing depends on is left out where it is not what it should be."""
    try:
        return read_leaf()
    except MalformedError:
        return None


def _pull_request_projection(
    body: Fields, event: ChangeRequestEvent
) -> dict[str, str | int | bool]:
    return {
        "number": event.number,
        "head_sha": event.head_sha,
        "base_ref": event.base_ref,
        "state": event.state.value,
        "draft": event.draft,
        "updated_at": event.updated_at.isoformat() if event.updated_at else "",
        "url": event.url,
        "title": body.object("pull_request").optional_text("title") or "",
        "from_fork": _from_fork(body),
    }
