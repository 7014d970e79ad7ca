"""GitLab's events: which make work, and what of their bodies matters.

| event | action | becomes |
|---|---|---|
| `merge_request` | `open`, `reopen` | work, unless a draft |
| `merge_request` | `update` that pushes (it has `oldrev`) or ends a draft | work, unless a draft |
| `merge_request` | `close`, `merge` | the change request is closed; ignored: `closed` |
| `merge_request` | `update` that asks for reviews | work again, if of a bot of ours |
| `note` on a merge request | `create`, `update` | work by commands |
| any of these | any other | ignored: `action-unwanted` |
| `merge_request` | wanted, but without a commit | ignored: `no-commits` |
| `push`, `tag_push` that delete | none | ignored: `ref-deleted` |
| any other | any | ignored: `event-unwanted` |

Events are named as bodies name them in `object_kind`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from services.ingress.body_rules import MalformedError
from services.ingress.fields_rules import Fields
from services.ingress.gitlab_asks_rules import read_note, read_review_request
from services.ingress.gitlab_parts_rules import about, action_of, is_closed
from services.ingress.reading_rules import (
    ACTION_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    deletes_ref,
    ignored,
    leaf,
    told,
    web_address,
)
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Reading, Transition
from shared.schema.states import ChangeRequestState

MERGE_REQUEST = "merge_request"
NOTE = "note"
PUSHES = ("push", "tag_push")
UPDATE = "update"
DRAFT_FIELDS = ("draft", "work_in_progress")
"""A draft's flag, and the one of older installations."""

TRANSITIONS: Mapping[str, Transition] = MappingProxyType(
    {
        "open": Transition.OPENED,
        "reopen": Transition.REOPENED,
        "close": Transition.CLOSED,
        "merge": Transition.CLOSED,
    }
)
"""Actions of merge_request that always change what is recorded."""


def read(event: str, document: dict[str, object]) -> Reading:
    """What an event says; raises MalformedError, which names the field."""
    body = Fields(document)
    if event == MERGE_REQUEST:
        return _read_merge_request(body)
    if event == NOTE:
        return read_note(body)
    gone = event in PUSHES and deletes_ref(body)
    reason = IgnoredReason.REF_DELETED if gone else IgnoredReason.EVENT_UNWANTED
    return ignored(action_of(body), reason, about(body))


def _read_merge_request(body: Fields) -> Reading:
    if body.text("object_kind", ACTION_CHARACTERS_MAX) != MERGE_REQUEST:
        raise MalformedError("object_kind", f"must be {MERGE_REQUEST}, as the event is")
    merge = body.object("object_attributes")
    action = merge.optional_text("action", ACTION_CHARACTERS_MAX) or ""
    transition = _updated(body, merge) if action == UPDATE else TRANSITIONS.get(action)
    if transition is None:
        review = read_review_request(body, merge) if action == UPDATE else None
        return review or ignored(action, IgnoredReason.ACTION_UNWANTED, about(body))
    if merge.optional_object("last_commit") is None:
        return ignored(action, IgnoredReason.NO_COMMITS, about(body))
    event = _change_request(body, merge, transition)
    return told(action, event, about(body), title=merge.optional_text("title") or "")


def _updated(body: Fields, merge: Fields) -> Transition | None:
    """What an update says that matters: new commits, or that it is a draft no longer."""
    if merge.optional_commit("oldrev") is not None:
        return Transition.PUSHED
    changes = body.optional_object("changes")
    found = [changes.optional_object(name) for name in DRAFT_FIELDS] if changes else []
    ended = [each for each in found if each and each.optional_flag("previous")]
    readied = any(each.optional_flag("current") is False for each in ended)
    return Transition.READIED if readied else None


def _change_request(body: Fields, merge: Fields, transition: Transition) -> ChangeRequestEvent:
    project = body.object("project")
    draft_flags = [merge.optional_flag(name) for name in DRAFT_FIELDS]
    repo_id = project.number("id")
    return ChangeRequestEvent(
        transition=transition,
        repo_id=repo_id,
        repo_name=project.text("path_with_namespace", NAME_CHARACTERS_MAX),
        number=merge.number("iid"),
        head_sha=merge.object("last_commit").commit("id"),
        before_sha=merge.optional_commit("oldrev") if transition is Transition.PUSHED else None,
        base_ref=merge.optional_text("target_branch") or "",
        state=_state(merge, transition),
        draft=any(draft_flags),
        updated_at=merge.optional_instant("updated_at"),
        url=web_address(merge, "url"),
        from_fork=leaf(lambda: merge.optional_number("source_project_id")) != repo_id,
    )


def _state(merge: Fields, transition: Transition) -> ChangeRequestState:
    closed = is_closed(merge) or transition is Transition.CLOSED
    return ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN
