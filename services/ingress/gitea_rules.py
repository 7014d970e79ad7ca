"""The events of Gitea and of Forgejo, whose bodies agree in all that matters here.

| event | action | becomes |
|---|---|---|
| `pull_request` | `opened`, `synchronized`, `reopened` | work, unless a draft |
| `pull_request` | `edited`, when its title stops saying that it is a draft | work |
| `pull_request` | `closed` | the change request is closed; ignored: `closed` |
| `pull_request` | `review_requested` | work again, if it is asked of a bot of ours |
| `issue_comment` on a pull request | `created`, `edited` | work by commands |
| any of these | any other | ignored: `action-unwanted` |
| `push` that deletes, `delete` | none | ignored: `ref-deleted` |
| any other | any | ignored: `event-unwanted` |

A draft is what the pull request says it is; where it does not say, its title does. Comments say
nothing of what their authors may do: commands are taken from the repository's owner, and from
anybody who may comment where the repository is private. A review's text has no number that would
tell it from another's, and so holds no commands.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from services.ingress.comments_rules import COMMENT_CHARACTERS_MAX, Comment, read_commands
from services.ingress.fields_rules import Fields
from services.ingress.github_parts_rules import (
    PULL_REQUEST,
    REVIEW_REQUESTED,
    about,
    about_comment,
    action_of,
    author_id_of,
    command_asked,
    is_closed,
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

ISSUE_COMMENT = "issue_comment"
CREATED = "created"
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
    if event == ISSUE_COMMENT:
        return _read_comment(body)
    action = leaf(lambda: body.optional_text("action", ACTION_CHARACTERS_MAX)) or ""
    gone = event == "delete" or (event == "push" and deletes_ref(body))
    reason = IgnoredReason.REF_DELETED if gone else IgnoredReason.EVENT_UNWANTED
    return ignored(action, reason, about(body))


def _read_pull_request(body: Fields) -> Reading:
    action = action_of(body)
    if action == REVIEW_REQUESTED:
        return read_review_request(body)
    transition = TRANSITIONS.get(action)
    if action == EDITED and _was_draft(body) and not _is_draft(body.object("pull_request")):
        transition = Transition.READIED
    if transition is None:
        return ignored(action, IgnoredReason.ACTION_UNWANTED, about(body))
    event = _change_request(body, transition)
    title = body.object("pull_request").optional_text("title") or ""
    return told(action, event, about(body), title=title)


def _read_comment(body: Fields) -> Reading:
    action = action_of(body)
    if action not in (CREATED, EDITED):
        return ignored(action, IgnoredReason.ACTION_UNWANTED, about(body))
    issue, comment = body.object("issue"), body.object("comment")
    found = {**about(body), **about_comment(issue, comment)}
    if not (body.optional_flag("is_pull") or issue.optional_object(PULL_REQUEST)):
        return ignored(action, IgnoredReason.NO_CHANGE_REQUEST, found)
    said = Comment(
        text=comment.optional_text("body", COMMENT_CHARACTERS_MAX) or "",
        author_id=author_id_of(comment),
        trusted=_may_command(body.object("repository"), author_id_of(comment)),
        by_bot=False,
        closed=is_closed(issue),
    )
    return read_commands(action, said, found, partial(command_asked, body, issue, comment))


def _may_command(repository: Fields, author_id: int | None) -> bool:
    owner_id = leaf(lambda: repository.object("owner").optional_number("id"))
    private = leaf(lambda: repository.optional_flag("private")) is True
    return private or (owner_id is not None and owner_id == author_id)


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
