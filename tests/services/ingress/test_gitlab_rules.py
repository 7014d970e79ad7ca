"""GitLab's events: what makes work, drafts, pushes, forks, and every field that is wrong."""

from datetime import UTC, datetime
from typing import Any

import pytest

from services.ingress.body_rules import MalformedError
from services.ingress.gitlab_rules import TRANSITIONS, read
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Transition
from shared.schema.states import ChangeRequestState
from tests.services.ingress.gitlab_merges import (
    PATH,
    PROJECT_ID,
    URL,
    merge_document,
    push_document,
)
from tests.services.ingress.pulls import A, B

ENDED = {"previous": True, "current": False}
BEGUN = {"previous": False, "current": True}


def event_of(document: dict[str, Any]) -> ChangeRequestEvent:
    reading = read("merge_request", document)
    assert reading.event is not None, reading
    return reading.event


def edited(path: str, value: object) -> dict[str, Any]:
    document = merge_document()
    *parents, name = path.split(".")
    inner = document
    for parent in parents:
        inner[parent] = dict(inner[parent])
        inner = inner[parent]
    inner[name] = value
    return document


@pytest.mark.parametrize("action", TRANSITIONS)
def test_each_wanted_action_tells_of_the_same_change_request(action: str) -> None:
    closed = action in ("close", "merge")
    assert event_of(merge_document(action)) == ChangeRequestEvent(
        transition=TRANSITIONS[action],
        repo_id=PROJECT_ID,
        repo_name=PATH,
        number=7,
        head_sha=A,
        before_sha=None,
        base_ref="main",
        state=ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN,
        draft=False,
        updated_at=datetime(2026, 5, 1, 12, 0, tzinfo=UTC),
        url=URL,
        from_fork=False,
    )


def test_the_projection_holds_what_people_look_for() -> None:
    assert read("merge_request", merge_document(at=5)).projection == {
        "repo_id": PROJECT_ID,
        "repo_name": PATH,
        "sender": "ann",
        "sender_id": 31,
        "number": 7,
        "head_sha": A,
        "base_ref": "main",
        "state": "open",
        "draft": False,
        "updated_at": "2026-05-01T12:00:05+00:00",
        "url": URL,
        "title": "Füge 🎉 an",
        "from_fork": False,
    }


@pytest.mark.parametrize("updated_at", ["2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000+00:00"])
def test_times_are_read_as_newer_installations_write_them_too(updated_at: str) -> None:
    event = event_of(edited("object_attributes.updated_at", updated_at))
    assert event.updated_at == datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("document", "transition", "before"),
    [
        (merge_document("update", oldrev=B), Transition.PUSHED, B),
        (merge_document("update", oldrev=B, changes={"draft": ENDED}), Transition.PUSHED, B),
        (merge_document("update", changes={"draft": ENDED}), Transition.READIED, None),
        (merge_document("update", changes={"work_in_progress": ENDED}), Transition.READIED, None),
    ],
)
def test_an_update_that_matters_says_what_changed(
    document: dict[str, Any], transition: Transition, before: str | None
) -> None:
    event = event_of(document)
    assert (event.transition, event.before_sha) == (transition, before)


@pytest.mark.parametrize(
    "document",
    [
        merge_document("update"),
        merge_document("update", changes={"labels": {"previous": [], "current": []}}),
        merge_document("update", draft=True, changes={"draft": BEGUN}),
        merge_document("update", changes={"draft": {"previous": True, "current": None}}),
        merge_document("approved"),
        edited("object_attributes.action", None),
    ],
)
def test_other_updates_make_no_work(document: dict[str, Any]) -> None:
    reading = read("merge_request", document)
    assert (reading.event, reading.ignored) == (None, IgnoredReason.ACTION_UNWANTED)


@pytest.mark.parametrize("flags", [(True, True), (True, None), (None, True)])
def test_either_flag_says_draft(flags: tuple[bool | None, bool | None]) -> None:
    document = merge_document()
    names = ("draft", "work_in_progress")
    document["object_attributes"] |= dict(zip(names, flags, strict=True))
    assert event_of(document).draft


@pytest.mark.parametrize(
    ("source", "from_fork"), [(PROJECT_ID, False), (5, True), (None, True), ("x", True), (0, True)]
)
def test_a_source_of_unknown_origin_counts_as_a_fork(source: object, from_fork: bool) -> None:
    event = event_of(edited("object_attributes.source_project_id", source))
    assert event.from_fork is from_fork


def test_a_merge_request_without_a_commit_is_ignored() -> None:
    reading = read("merge_request", edited("object_attributes.last_commit", None))
    assert reading.ignored is IgnoredReason.NO_COMMITS


@pytest.mark.parametrize("zeros", ["0" * 40, "0" * 64])
@pytest.mark.parametrize("event", ["push", "tag_push"])
def test_the_end_of_a_branch_is_ignored_as_such(event: str, zeros: str) -> None:
    gone = read(event, push_document(before=A, after=zeros))
    begun = read(event, push_document(before=zeros, after=A))
    assert gone.ignored is IgnoredReason.REF_DELETED
    assert begun.ignored is IgnoredReason.EVENT_UNWANTED
    about = {"repo_id": PROJECT_ID, "repo_name": PATH, "sender": "ann", "sender_id": 31}
    assert gone.projection == begun.projection == about


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("event", ["push", "pipeline", "feature_flag", "of-tomorrow"])
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"user": 5, "project": [], "object_attributes": "x", "merge_request": 0, "after": 7},
        {"user": {"id": "x"}, "object_attributes": {"action": 5}, "merge_request": {"iid": 0}},
    ],
)
def test_unwanted_events_are_ignored_whatever_is_in_them(
    event: str, document: dict[str, object]
) -> None:
    reading = read(event, document)
    assert (reading.event, reading.ignored) == (None, IgnoredReason.EVENT_UNWANTED)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("object_kind", [None, "", 5, "note"]),
        ("project", [None, []]),
        ("project.id", [None, "1", 0, True, 2**63]),
        ("project.path_with_namespace", [None, "", 5]),
        ("object_attributes", [None, "x"]),
        ("object_attributes.action", [5]),
        ("object_attributes.iid", [None, 0, "7"]),
        ("object_attributes.last_commit", [5]),
        ("object_attributes.last_commit.id", [None, "abc", "0" * 40, A.upper()]),
        ("object_attributes.draft", ["no"]),
        ("object_attributes.work_in_progress", [0]),
        ("object_attributes.title", [5]),
        ("object_attributes.state", [5]),
        ("object_attributes.updated_at", ["yesterday", "2026-05-01 12:00:00", " UTC"]),
        ("object_attributes.url", ["javascript:alert(1)"]),
    ],
)
def test_a_wrong_field_is_named(path: str, wrong: list[object]) -> None:
    for value in wrong:
        with pytest.raises(MalformedError) as caught:
            read("merge_request", edited(path, value))
        assert caught.value.field == path, value


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (merge_document("update", oldrev="abc"), "object_attributes.oldrev"),
        (merge_document("update", changes={"draft": 5}), "changes.draft"),
        (merge_document("update", changes={"draft": {"previous": 1}}), "changes.draft.previous"),
    ],
)
def test_a_wrong_change_is_named(document: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read("merge_request", document)
    assert caught.value.field == field
