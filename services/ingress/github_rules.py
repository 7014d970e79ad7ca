"""GitHub's events: which make work, and what of their bodies matters.

| event | action | becomes |
|---|---|---|
| `pull_request` | `opened`, `synchronize`, `reopened`, `ready_for_review` | work, unless a draft |
| `pull_request` | `closed` | the change request is closed; ignored: `closed` |
| `pull_request` | any other | ignored: `action-unwanted` |
| `push` that deletes, `delete` | none | ignored: `ref-deleted` |
| `ping` | none | ignored: `ping` |
| any other | any | ignored: `event-unwanted` |
"""

from collections.abc import Mapping
from types import MappingProxyType

from services.ingress.fields_rules import Fields
from services.ingress.reading_rules import (
    ACTION_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    Projection,
    deletes_ref,
    ignored,
    leaf,
    projected,
    told,
    web_address,
)
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Reading, Transition
from shared.schema.states import ChangeRequestState

PULL_REQUEST = "pull_request"

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


def read(event: str, document: dict[str, object]) -> Reading:
    """What an event says; raises MalformedError, which names the field."""
    body = Fields(document)
    if event == PULL_REQUEST:
        return _read_pull_request(body)
    action = leaf(lambda: body.optional_text("action", ACTION_CHARACTERS_MAX)) or ""
    return ignored(action, _why_ignored(event, body), about(body))


def about(body: Fields) -> Projection:
    """What people look for in every event, where it is there."""
    return projected(
        {
            "repo_id": leaf(lambda: body.object("repository").number("id")),
            "repo_name": leaf(lambda: body.object("repository").optional_text("full_name")),
            "sender": leaf(lambda: body.object("sender").optional_text("login")),
            "sender_id": leaf(lambda: body.object("sender").number("id")),
        }
    )


def is_from_fork(repository: Fields, head: Fields) -> bool:
    """Whether people without write access may have made the head; unknown counts as yes."""
    origin = head.optional_object("repo")
    return origin is None or origin.optional_number("id") != repository.number("id")


def state_of(pull: Fields, transition: Transition) -> ChangeRequestState:
    """Whether the pull request is open; a merged one is closed."""
    closed = pull.optional_text("state") == "closed" or transition is Transition.CLOSED
    return ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN


def _why_ignored(event: str, body: Fields) -> IgnoredReason:
    match event:
        case "ping":
            return IgnoredReason.PING
        case "delete":
            return IgnoredReason.REF_DELETED
        case "push" if deletes_ref(body):
            return IgnoredReason.REF_DELETED
        case _:
            return IgnoredReason.EVENT_UNWANTED


def _read_pull_request(body: Fields) -> Reading:
    action = body.text("action", ACTION_CHARACTERS_MAX)
    transition = TRANSITIONS.get(action)
    if transition is None:
        return ignored(action, IgnoredReason.ACTION_UNWANTED, about(body))
    event = _change_request(body, transition)
    title = body.object("pull_request").optional_text("title") or ""
    return told(action, event, about(body), title=title)


def _change_request(body: Fields, transition: Transition) -> ChangeRequestEvent:
    repository = body.object("repository")
    pull = body.object("pull_request")
    head = pull.object("head")
    base = pull.optional_object("base")
    return ChangeRequestEvent(
        transition=transition,
        repo_id=repository.number("id"),
        repo_name=repository.text("full_name", NAME_CHARACTERS_MAX),
        number=pull.number("number"),
        head_sha=head.commit("sha"),
        before_sha=body.optional_commit("before") if transition is Transition.PUSHED else None,
        base_ref=(base.optional_text("ref") if base else None) or "",
        state=state_of(pull, transition),
        draft=pull.optional_flag("draft") or False,
        updated_at=pull.optional_instant("updated_at"),
        url=web_address(pull, "html_url"),
        from_fork=is_from_fork(repository, head),
    )
