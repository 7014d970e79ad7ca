"""GitHub's comments, comments in reviews and reviews, each of which may hold commands."""

from functools import partial

from services.ingress.comments_rules import COMMENT_CHARACTERS_MAX, Comment, read_commands
from services.ingress.fields_rules import Fields
from services.ingress.github_parts_rules import (
    PULL_REQUEST,
    about,
    about_comment,
    action_of,
    author_id_of,
    command_asked,
    is_by_bot,
    is_closed,
)
from services.ingress.reading_rules import ignored, leaf
from services.ingress.rules import IgnoredReason, Reading

COMMENTED = frozenset({"created", "edited"})
REVIEWED = frozenset({"submitted", "edited"})

TRUSTED_ASSOCIATIONS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""How authors belong to a repository who may give commands there."""


def read_issue_comment(body: Fields) -> Reading:
    """A comment on an issue, or on the pull request that this issue is as well."""
    if action_of(body) not in COMMENTED:
        return ignored(action_of(body), IgnoredReason.ACTION_UNWANTED, about(body))
    issue, comment = body.object("issue"), body.object("comment")
    if issue.optional_object(PULL_REQUEST) is None:
        found = {**about(body), **about_comment(issue, comment)}
        return ignored(action_of(body), IgnoredReason.NO_CHANGE_REQUEST, found)
    return _read(body, issue, comment)


def read_review_comment(body: Fields) -> Reading:
    """A comment on lines of a pull request."""
    if action_of(body) not in COMMENTED:
        return ignored(action_of(body), IgnoredReason.ACTION_UNWANTED, about(body))
    return _read(body, body.object(PULL_REQUEST), body.object("comment"))


def read_review(body: Fields) -> Reading:
    """A review, whose summary is a comment; the comments inside it come by themselves."""
    if action_of(body) not in REVIEWED:
        return ignored(action_of(body), IgnoredReason.ACTION_UNWANTED, about(body))
    return _read(body, body.object(PULL_REQUEST), body.object("review"))


def _read(body: Fields, place: Fields, comment: Fields) -> Reading:
    association = leaf(lambda: comment.optional_text("author_association"))
    said = Comment(
        text=comment.optional_text("body", COMMENT_CHARACTERS_MAX) or "",
        author_id=author_id_of(comment),
        trusted=association in TRUSTED_ASSOCIATIONS,
        by_bot=is_by_bot(body),
        closed=is_closed(place),
    )
    found = {**about(body), **about_comment(place, comment)}
    return read_commands(action_of(body), said, found, partial(command_asked, body, place, comment))
