"""What GitLab's bodies ask for by hand: commands in notes, and reviews.

A note says nothing of what its author may do. Commands are taken where the project is private: then
only its members can write notes.
"""

from functools import partial

from services.ingress.comments_rules import COMMENT_CHARACTERS_MAX, Comment, read_commands
from services.ingress.fields_rules import Fields
from services.ingress.gitlab_parts_rules import about, action_of, is_closed
from services.ingress.reading_rules import (
    NAME_CHARACTERS_MAX,
    Projection,
    asked,
    ignored,
    leaf,
    projected,
    web_address,
)
from services.ingress.rules import AskKind, IgnoredReason, Reading, WorkAsked

NOTED = ("create", "update", "")
"""What is done to a note that is there afterwards; older installations do not say."""

MERGE_REQUEST_NOTE = "MergeRequest"
PRIVATE = 0


def read_note(body: Fields) -> Reading:
    """A note on a merge request, which may hold commands."""
    action = action_of(body)
    if action not in NOTED:
        return ignored(action, IgnoredReason.ACTION_UNWANTED, _about_note(body))
    note = body.object("object_attributes")
    if note.optional_text("noteable_type") != MERGE_REQUEST_NOTE:
        return ignored(action, IgnoredReason.NO_CHANGE_REQUEST, _about_note(body))
    project, merge = body.object("project"), body.object("merge_request")
    said = Comment(
        text=note.optional_text("note", COMMENT_CHARACTERS_MAX) or "",
        author_id=leaf(lambda: note.optional_number("author_id")),
        trusted=leaf(lambda: project.optional_level("visibility_level")) == PRIVATE,
        by_bot=False,
        closed=is_closed(merge),
    )
    return read_commands(action, said, _about_note(body), partial(_command, project, merge, note))


def read_review_request(body: Fields, merge: Fields) -> Reading | None:
    """A review that is asked of somebody, perhaps again: a person's re-run (I13)."""
    reviewer_ids = _reviewers_asked(body)
    if not reviewer_ids:
        return None
    if is_closed(merge):
        return ignored(action_of(body), IgnoredReason.CLOSED, about(body))
    project = body.object("project")
    asks = WorkAsked(
        kind=AskKind.RERUN,
        repo_id=project.number("id"),
        repo_name=project.text("path_with_namespace", NAME_CHARACTERS_MAX),
        number=merge.number("iid"),
        head_sha=merge.object("last_commit").commit("id"),
        url=web_address(merge, "url"),
        reviewer_ids=reviewer_ids,
    )
    return asked(action_of(body), asks, about(body))


def _reviewers_asked(body: Fields) -> tuple[int, ...]:
    """Reviewers that are new, and those that are asked again."""
    changes = body.optional_object("changes") or Fields({})
    before, now = changes.before_and_now("reviewers")
    known = {each.number("id") for each in before}
    asked_of = (
        each.number("id")
        for each in now
        if each.number("id") not in known or each.optional_flag("re_requested")
    )
    return tuple(dict.fromkeys(asked_of))


def _command(project: Fields, merge: Fields, note: Fields, commands: tuple[str, ...]) -> WorkAsked:
    return WorkAsked(
        kind=AskKind.COMMAND,
        repo_id=project.number("id"),
        repo_name=project.text("path_with_namespace", NAME_CHARACTERS_MAX),
        number=merge.number("iid"),
        head_sha=None,
        url=web_address(note, "url"),
        comment_id=note.number("id"),
        commands=commands,
    )


def _about_note(body: Fields) -> Projection:
    """Which note it is and on which merge request; the sender is who wrote or edited it."""
    note = leaf(lambda: body.optional_object("object_attributes")) or Fields({})
    merge = leaf(lambda: body.optional_object("merge_request")) or Fields({})
    found = {
        "comment_id": leaf(lambda: note.optional_number("id")),
        "number": leaf(lambda: merge.optional_number("iid")),
        "head_sha": leaf(lambda: merge.object("last_commit").optional_commit("id")),
    }
    return {**about(body), **projected(found)}
