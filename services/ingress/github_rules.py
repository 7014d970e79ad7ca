"""GitHub's events: which make work, and what of their bodies matters.

| event | action | becomes |
|---|---|---|
| `pull_request` | `opened`, `synchronize`, `reopened`, `ready_for_review` | work, unless a draft |
| `pull_request` | `closed` | the change request is closed; ignored: `closed` |
| `pull_request` | `review_requested` | work again, if it is asked of a bot of ours |
| `issue_comment`, `pull_request_review_comment` | `created`, `edited` | work by commands |
| `pull_request_review` | `submitted`, `edited` | work by commands |
| `check_run` | `rerequested`, `requested_action` | work again |
| `check_suite` | `rerequested` | work again |
| `check_suite` | `requested` | checks |
| `merge_group` | `checks_requested` | checks |
| `merge_group` | `destroyed` | what is done for it ends; ignored: `group-gone` |
| any of these | any other | ignored: `action-unwanted` |
| `push` that deletes, `delete` | none | ignored: `ref-deleted` |
| `ping` | none | ignored: `ping` |
| any other | any | ignored: `event-unwanted` |

A summary of a push, which `push` is, makes no work: the pull requests that it moves tell of it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from services.ingress.fields_rules import Fields
from services.ingress.github_checks_rules import (
    read_check_run,
    read_check_suite,
    read_merge_group,
)
from services.ingress.github_comments_rules import (
    read_issue_comment,
    read_review,
    read_review_comment,
)
from services.ingress.github_parts_rules import (
    PULL_REQUEST,
    REVIEW_REQUESTED,
    about,
    action_of,
    is_from_fork,
    read_review_request,
    state_of,
)
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

TRANSITIONS: Mapping[str, Transition] = MappingProxyType(
    {
        "opened": Transition.OPENED,
        "synchronize": Transition.PUSHED,
        "reopened": Transition.REOPENED,
        "ready_for_review": Transition.READIED,
        "closed": Transition.CLOSED,
    }
)
"""Actions of pull_request that change what is recorded."""


def read(event: str, document: dict[str, object]) -> Reading:
    """What an event says; raises MalformedError, which names the field."""
    body = Fields(document)
    if event in _READERS:
        return _READERS[event](body)
    action = leaf(lambda: body.optional_text("action", ACTION_CHARACTERS_MAX)) or ""
    return ignored(action, _why_ignored(event, body), about(body))


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
    action = action_of(body)
    if action == REVIEW_REQUESTED:
        return read_review_request(body)
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


_READERS: Mapping[str, Callable[[Fields], Reading]] = MappingProxyType(
    {
        PULL_REQUEST: _read_pull_request,
        "issue_comment": read_issue_comment,
        "pull_request_review_comment": read_review_comment,
        "pull_request_review": read_review,
        "check_run": read_check_run,
        "check_suite": read_check_suite,
        "merge_group": read_merge_group,
    }
)
