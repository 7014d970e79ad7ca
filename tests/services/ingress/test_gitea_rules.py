"""Gitea's and Forgejo's events: what makes work, drafts by flag and by title, forks, odd fields."""

from datetime import UTC, datetime
from typing import Any

import pytest

from services.ingress.body_rules import MalformedError
from services.ingress.gitea_rules import TRANSITIONS, read
from services.ingress.rules import ChangeRequestEvent, IgnoredReason, Transition
from shared.schema.states import ChangeRequestState
from tests.services.ingress.gitea_pulls import REPO_ID, URL, gitea_document
from tests.services.ingress.pulls import A


def event_of(document: dict[str, Any]) -> ChangeRequestEvent:
    reading = read("pull_request", document)
    assert reading.event is not None
    return reading.event


def edited(before: object, *, title: str, draft: bool | None) -> dict[str, Any]:
    document = gitea_document("edited", title=title)
    document["changes"] = {"title": {"from": before}}
    document["pull_request"]["draft"] = draft
    return document


@pytest.mark.parametrize("action", TRANSITIONS)
def test_each_wanted_action_tells_of_the_same_change_request(action: str) -> None:
    closed = action == "closed"
    assert event_of(gitea_document(action)) == ChangeRequestEvent(
        transition=TRANSITIONS[action],
        repo_id=REPO_ID,
        repo_name="gadgets/hello-world",
        number=4,
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
    projection = read("pull_request", gitea_document(at=5)).projection
    assert projection == {
        "repo_id": REPO_ID,
        "repo_name": "gadgets/hello-world",
        "sender": "ben",
        "sender_id": 2,
        "number": 4,
        "head_sha": A,
        "base_ref": "main",
        "state": "open",
        "draft": False,
        "updated_at": "2026-05-01T12:00:05+00:00",
        "url": URL,
        "title": "Größer 🎉",
        "from_fork": False,
    }


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize(
    ("event", "document", "ignored"),
    [
        ("push", {"after": "0" * 40}, IgnoredReason.REF_DELETED),
        ("delete", {"ref": "patch-1", "ref_type": "branch"}, IgnoredReason.REF_DELETED),
        ("push", {"before": "0" * 40, "after": A}, IgnoredReason.EVENT_UNWANTED),
        ("create", {"ref": "v1", "ref_type": "tag"}, IgnoredReason.EVENT_UNWANTED),
        ("issue_comment", {"action": "deleted", "is_pull": True}, IgnoredReason.ACTION_UNWANTED),
        ("pull_request_comment", {"action": "reviewed"}, IgnoredReason.EVENT_UNWANTED),
        ("repository", {"action": 7, "sender": "x"}, IgnoredReason.EVENT_UNWANTED),
        ("pull_request", {"action": "label_updated"}, IgnoredReason.ACTION_UNWANTED),
        ("pull_request", {"action": "review_request_removed"}, IgnoredReason.ACTION_UNWANTED),
        ("pull_request", {"action": "edited", "changes": 5}, IgnoredReason.ACTION_UNWANTED),
    ],
)
def test_unwanted_events_are_ignored_whatever_is_in_them(
    event: str, document: dict[str, object], ignored: IgnoredReason
) -> None:
    reading = read(event, document)
    assert (reading.event, reading.ignored) == (None, ignored)


@pytest.mark.parametrize(
    ("title", "flag", "draft"),
    [
        ("WIP: gears", None, True),
        ("[wip] gears", None, True),
        (" wip: gears", None, True),
        ("Gears, no longer WIP:", None, False),
        ("WIP: gears", False, False),
        ("Draft: gears", True, True),
        (None, None, False),
    ],
)
def test_a_draft_is_what_it_says_or_else_what_its_title_says(
    title: str | None, flag: bool | None, draft: bool
) -> None:
    document = gitea_document()
    document["pull_request"] |= {"title": title, "draft": flag}
    assert event_of(document).draft is draft


@pytest.mark.parametrize("flag", [False, None])
def test_a_title_that_stops_saying_draft_makes_it_ready(flag: bool | None) -> None:
    event = event_of(edited("WIP: gears", title="gears", draft=flag))
    assert (event.transition, event.draft) == (Transition.READIED, False)


@pytest.mark.parametrize(
    ("before", "title", "flag"),
    [("gears", "cogs", False), ("WIP: a", "WIP: b", None), ("WIP: a", "b", True), (5, "b", False)],
)
def test_other_edits_make_no_work(before: object, title: str, flag: bool | None) -> None:
    reading = read("pull_request", edited(before, title=title, draft=flag))
    assert reading.ignored is IgnoredReason.ACTION_UNWANTED


@pytest.mark.parametrize(
    ("head_repo", "from_fork"), [({"id": REPO_ID}, False), ({"id": 5}, True), ({}, True)]
)
def test_a_head_of_another_repository_is_a_forks(head_repo: object, from_fork: bool) -> None:
    document = gitea_document()
    document["pull_request"]["head"]["repo"] = head_repo
    assert event_of(document).from_fork is from_fork


@pytest.mark.parametrize("action", ["closed", "synchronized"])
def test_a_fork_that_is_gone_is_still_a_fork(action: str) -> None:
    document = gitea_document(action)
    document["pull_request"]["head"] |= {"repo": None, "repo_id": -1, "label": "unknown"}
    document["pull_request"]["user"] = None
    assert event_of(document).from_fork


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("action", [None, "", 5]),
        ("repository", [None, []]),
        ("repository.id", [None, "1", 0]),
        ("repository.full_name", [None, ""]),
        ("pull_request", [None]),
        ("pull_request.number", [None, 0]),
        ("pull_request.head", [None]),
        ("pull_request.head.sha", [None, "", "abc", "0" * 40]),
        ("pull_request.draft", ["no"]),
        ("pull_request.title", [5]),
        ("pull_request.updated_at", ["yesterday"]),
        ("pull_request.html_url", ["javascript:alert(1)"]),
    ],
)
def test_a_wrong_field_is_named(path: str, wrong: list[object]) -> None:
    *parents, name = path.split(".")
    for value in wrong:
        document = gitea_document()
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[name] = value
        with pytest.raises(MalformedError) as caught:
            read("pull_request", document)
        assert caught.value.field == path, value
