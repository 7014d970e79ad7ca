"""Commands in GitLab's notes, reviews that are asked for, and odd fields in either."""

from typing import Any

import pytest

from services.ingress.body_rules import MalformedError
from services.ingress.gitlab_rules import read
from services.ingress.rules import AskKind, IgnoredReason, Transition, WorkAsked
from tests.services.ingress.gitlab_merges import (
    PATH,
    PROJECT_ID,
    URL,
    merge_document,
    note_document,
    reviewer,
)
from tests.services.ingress.published import put
from tests.services.ingress.pulls import A, B

OURS = 4711


def noted(path: str, value: object, **changes: Any) -> dict[str, Any]:
    document = note_document(**changes)
    document["project"] = dict(document["project"])
    return put(document, path, value)


def reviewed(before: object, now: object, **changes: Any) -> dict[str, Any]:
    return merge_document(
        "update", changes={"reviewers": {"previous": before, "current": now}}, **changes
    )


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("action", ["create", "update", None])
def test_a_note_on_a_merge_request_asks_for_its_commands(action: Any) -> None:
    reading = read("note", note_document("/review\n/fix", action))
    assert reading.asks == WorkAsked(
        kind=AskKind.COMMAND,
        repo_id=PROJECT_ID,
        repo_name=PATH,
        number=7,
        head_sha=None,
        url=f"{URL}#note_1244",
        comment_id=1244,
        commands=("review", "fix"),
    )
    assert (reading.event_action, reading.ignored) == (action or "", None)
    assert reading.projection == {
        "repo_id": PROJECT_ID,
        "repo_name": PATH,
        "sender": "zoe",
        "sender_id": 99,
        "comment_id": 1244,
        "number": 7,
        "head_sha": A,
        "asks": "command",
        "url": f"{URL}#note_1244",
        "commands": "review fix",
    }


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("object_attributes.note", "looks odd", IgnoredReason.NO_COMMAND),
        ("object_attributes.note", None, IgnoredReason.NO_COMMAND),
        ("object_attributes.noteable_type", "Issue", IgnoredReason.NO_CHANGE_REQUEST),
        ("object_attributes.noteable_type", None, IgnoredReason.NO_CHANGE_REQUEST),
        ("object_attributes.action", "delete", IgnoredReason.ACTION_UNWANTED),
        ("merge_request.state", "merged", IgnoredReason.CLOSED),
        ("merge_request.state", "closed", IgnoredReason.CLOSED),
        ("user", {"id": 31, "username": "ann"}, IgnoredReason.EDITED_BY_ANOTHER),
        ("user", {"username": "zoe"}, IgnoredReason.EDITED_BY_ANOTHER),
        ("object_attributes.author_id", None, IgnoredReason.EDITED_BY_ANOTHER),
        ("project.visibility_level", 10, IgnoredReason.SENDER_UNTRUSTED),
        ("project.visibility_level", 20, IgnoredReason.SENDER_UNTRUSTED),
        ("project.visibility_level", None, IgnoredReason.SENDER_UNTRUSTED),
        ("project.visibility_level", False, IgnoredReason.SENDER_UNTRUSTED),
        ("project.visibility_level", "0", IgnoredReason.SENDER_UNTRUSTED),
    ],
)
@pytest.mark.parametrize("action", ["create", "update"])
def test_a_note_that_asks_for_nothing_is_ignored_with_its_reason(
    action: str, path: str, value: object, reason: IgnoredReason
) -> None:
    reading = read("note", noted(path, value, action=action))
    assert (reading.asks, reading.ignored) == (None, reason)


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize(
    ("before", "now", "asked_of"),
    [
        ([], [reviewer(OURS)], (OURS,)),
        (None, [reviewer(OURS)], (OURS,)),
        ([reviewer(5)], [reviewer(5), reviewer(OURS), reviewer(6)], (OURS, 6)),
        ([reviewer(OURS)], [reviewer(OURS, again=True)], (OURS,)),
        ([reviewer(OURS), reviewer(5)], [reviewer(OURS, again=True), reviewer(5)], (OURS,)),
    ],
)
def test_a_review_is_asked_of_who_is_new_and_of_who_is_asked_again(
    before: object, now: object, asked_of: tuple[int, ...]
) -> None:
    in_one_list = merge_document("update", changes={"reviewers": [before, now]})
    for document in (reviewed(before, now), in_one_list):
        assert read("merge_request", document).asks == WorkAsked(
            kind=AskKind.RERUN,
            repo_id=PROJECT_ID,
            repo_name=PATH,
            number=7,
            head_sha=A,
            url=URL,
            reviewer_ids=asked_of,
        )


@pytest.mark.parametrize(
    "document",
    [
        reviewed([reviewer(OURS)], []),
        reviewed([reviewer(OURS)], [reviewer(OURS)]),
        merge_document("update", changes={"reviewers": []}),
        merge_document("update", changes={"reviewers": [[reviewer(OURS)]]}),
    ],
)
def test_a_review_that_nobody_is_asked_for_makes_no_work(document: dict[str, Any]) -> None:
    reading = read("merge_request", document)
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.ACTION_UNWANTED)


def test_a_merge_request_that_is_done_is_not_reviewed_again() -> None:
    document = put(reviewed([], [reviewer(OURS)]), "object_attributes.state", "merged")
    reading = read("merge_request", document)
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.CLOSED)


def test_a_push_with_a_new_reviewer_is_a_push() -> None:
    reading = read("merge_request", reviewed([], [reviewer(OURS)], oldrev=B))
    assert reading.asks is None
    assert reading.event is not None
    assert reading.event.transition is Transition.PUSHED


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("object_attributes", [None, 5]),
        ("object_attributes.noteable_type", [5]),
        ("object_attributes.note", [5]),
        ("object_attributes.id", [None, "1244", 0]),
        ("object_attributes.url", ["javascript:alert(1)"]),
        ("merge_request", [None, []]),
        ("merge_request.iid", [None, 0]),
        ("merge_request.state", [5]),
        ("project", [None]),
        ("project.id", [None, "x"]),
        ("project.path_with_namespace", [None, ""]),
    ],
)
def test_a_wrong_field_of_a_note_is_named(path: str, wrong: list[object]) -> None:
    for value in wrong:
        with pytest.raises(MalformedError) as caught:
            read("note", noted(path, value))
        assert caught.value.field == path, value


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("reviewers", "field"),
    [
        (5, "changes.reviewers"),
        ({"current": 5}, "changes.reviewers.current"),
        ([[], 5], "changes.reviewers.current"),
        ([[], [5]], "changes.reviewers.current.0"),
        ([[], [{}]], "changes.reviewers.current.0.id"),
        ([[{"id": "x"}], []], "changes.reviewers.previous.0.id"),
    ],
)
def test_a_wrong_reviewer_is_named_by_its_place(reviewers: object, field: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read("merge_request", merge_document("update", changes={"reviewers": reviewers}))
    assert caught.value.field == field
