"""Parts of bodies that GitHub, Gitea and Forgejo have in common."""

from services.ingress.fields_rules import Fields
from services.ingress.reading_rules import (
    ACTION_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    Projection,
    asked,
    ignored,
    leaf,
    projected,
    web_address,
)
from services.ingress.rules import AskKind, IgnoredReason, Reading, Transition, WorkAsked
from shared.schema.states import ChangeRequestState

PULL_REQUEST = "pull_request"
REVIEW_REQUESTED = "review_requested"

_BOT = "Bot"


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


def about_comment(place: Fields, comment: Fields) -> Projection:
    """Which comment it is and on what; one that an app made for a person is the app's, too."""
    return projected(
        {
            "number": leaf(lambda: place.optional_number("number")),
            "comment_id": leaf(lambda: comment.optional_number("id")),
            "app_id": leaf(lambda: comment.object("performed_via_github_app").number("id")),
        }
    )


def action_of(body: Fields) -> str:
    """The action of an event that is wanted."""
    return body.text("action", ACTION_CHARACTERS_MAX)


def author_id_of(comment: Fields) -> int | None:
    """Who wrote a comment, whoever changed it since; None where that is not said."""
    return leaf(lambda: comment.object("user").optional_number("id"))


def is_by_bot(body: Fields) -> bool:
    """Whether the forge says that a program sent it."""
    return leaf(lambda: body.object("sender").optional_text("type")) == _BOT


def is_closed(place: Fields) -> bool:
    """Whether a pull request, or the issue it is as well, is closed; a merged one is."""
    return place.optional_text("state") == "closed"


def is_from_fork(repository: Fields, head: Fields) -> bool:
    """Whether people without write access may have made the head; unknown counts as yes."""
    origin = head.optional_object("repo")
    return origin is None or origin.optional_number("id") != repository.number("id")


def state_of(pull: Fields, transition: Transition) -> ChangeRequestState:
    """Whether the pull request is open."""
    closed = is_closed(pull) or transition is Transition.CLOSED
    return ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN


def command_asked(
    body: Fields, place: Fields, comment: Fields, commands: tuple[str, ...]
) -> WorkAsked:
    """The work that the commands of a comment ask for; its head is nowhere in the body (I7)."""
    repository = body.object("repository")
    return WorkAsked(
        kind=AskKind.COMMAND,
        repo_id=repository.number("id"),
        repo_name=repository.text("full_name", NAME_CHARACTERS_MAX),
        number=place.number("number"),
        head_sha=None,
        url=web_address(comment, "html_url"),
        comment_id=comment.number("id"),
        commands=commands,
    )


def read_review_request(body: Fields) -> Reading:
    """A review that is asked of somebody, perhaps again: a person's re-run (I13)."""
    action, found = action_of(body), about(body)
    repository, pull = body.object("repository"), body.object(PULL_REQUEST)
    asked_of = [body.optional_object(name) for name in ("requested_reviewer", "requested_team")]
    reviewer_ids = tuple(each.number("id") for each in asked_of if each)
    if not reviewer_ids:
        return ignored(action, IgnoredReason.REVIEW_OF_ANOTHER, found)
    if is_closed(pull):
        return ignored(action, IgnoredReason.CLOSED, found)
    if is_by_bot(body):
        return ignored(action, IgnoredReason.SENDER_IS_BOT, found)
    asks = WorkAsked(
        kind=AskKind.RERUN,
        repo_id=repository.number("id"),
        repo_name=repository.text("full_name", NAME_CHARACTERS_MAX),
        number=pull.number("number"),
        head_sha=pull.object("head").commit("sha"),
        url=web_address(pull, "html_url"),
        reviewer_ids=reviewer_ids,
    )
    return asked(action, asks, found)
