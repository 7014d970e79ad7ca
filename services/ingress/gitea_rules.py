"""The events of Gitea and of Forgejo, whose bodies agree in all that matters here.

| event | action | becomes |
|---|---|---|
| `pull_request` | `opened`, `synchronized`, `reopened` | work, unless a draft |
| `pull_request` | `edited`, when its title stops saying that it is a draft | work |
| `pull_request` | `closed` | the change request is closed; ignored: `closed` |
| `pull_request` | any other | ignored: `action-unwanted` |
| `push` that deletes, `delete` | none | ignored: `ref-deleted` |
| any other | any | ignored: `event-unwanted` |

A draft is what the pull request says it is; where it does not say, its title does.
"""

from collections.abc import Mapping
from types import MappingProxyType

from services.ingress.fields_rules import Fields
from services.ingress.github_rules import about, is_from_fork, state_of
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

PULL_REQUEST = "pull_request"
EDITED = "edited"

TRANSITIONS: Mapping[str, Transition] = MappingProxyType(
    {
        "opened": Transition.OPENED,
        "synchronized": Transition.PUSHED,
        "reopened": Transition.REOPENED,
        "closed": Transition.CLOSED,
    }
)
"""Actions of pull_request that always change what is recorded."""

DRAFT_PREFIXES = ("wip:", "[wip]")
"""How titles of drafts begin where an installation has not changed it, in lower case."""


def read(event: str, document: dict[str, object]) -> Reading:
    """What an event says; raises MalformedError, which names the field."""
    body = Fields(document)
    if event == PULL_REQUEST:
        return _read_pull_request(body)
    action = leaf(lambda: body.optional_text("action", ACTION_CHARACTERS_MAX)) or ""
    gone = event == "delete" or (event == "push" and deletes_ref(body))
    reason = IgnoredReason.REF_DELETED if gone else IgnoredReason.EVENT_UNWANTED
    return ignored(action, reason, about(body))


def _read_pull_request(body: Fields) -> Reading:
    action = body.text("action", ACTION_CHARACTERS_MAX)
    transition = TRANSITIONS.get(action)
    if action == EDITED and _was_draft(body) and not _is_draft(body.object("pull_request")):
        transition = Transition.READIED
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
        before_sha=None,
        base_ref=(base.optional_text("ref") if base else None) or "",
        state=state_of(pull, transition),
        draft=_is_draft(pull),
        updated_at=pull.optional_instant("updated_at"),
        url=web_address(pull, "html_url"),
        from_fork=is_from_fork(repository, head),
    )


def _is_draft(pull: Fields) -> bool:
    said = pull.optional_flag("draft")
    return _says_draft(pull.optional_text("title")) if said is None else said


def _was_draft(body: Fields) -> bool:
    """Whether an edit took a title away that said so; what else was edited does not matter."""
    before = leaf(lambda: body.object("changes").object("title").optional_text("from"))
    return _says_draft(before)


def _says_draft(title: str | None) -> bool:
    return (title or "").strip().lower().startswith(DRAFT_PREFIXES)
