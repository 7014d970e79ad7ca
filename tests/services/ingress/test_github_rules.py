"""GitHub's events: real payloads, what makes work, and every field that can be wrong."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.ingress.body_rules import JSON, MalformedError, read_document
from services.ingress.fields_rules import INT64_MAX
from services.ingress.github_rules import TRANSITIONS, read
from services.ingress.rules import (
    ChangeRequestEvent,
    IgnoredReason,
    Reading,
    Sender,
    Transition,
)
from shared.schema.states import ChangeRequestState

PAYLOADS = Path(__file__).parents[2] / "payloads" / "github"
HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"


def payload(action: str) -> dict[str, Any]:
    body = (PAYLOADS / f"pull_request.{action}.json").read_bytes()
    return read_document(body, JSON)


def edited(path: str, value: object, *, action: str = "opened") -> dict[str, Any]:
    """The real payload with one field set; DELETED takes it out."""
    document = copy.deepcopy(payload(action))
    *parents, name = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    if value is DELETED:
        del inner[name]
    else:
        inner[name] = value
    return document


DELETED = object()


def event_of(reading: Reading) -> ChangeRequestEvent:
    assert reading.event is not None
    return reading.event


@pytest.mark.parametrize("action", ["opened", "synchronize", "reopened", "closed"])
def test_real_payloads_say_the_same_change_request(action: str) -> None:
    reading = read("pull_request", payload(action))
    event = event_of(reading)
    assert reading.event_action == action
    assert event.transition is TRANSITIONS[action]
    assert (event.repo_id, event.repo_name, event.number) == (
        186853002,
        "Codertocat/Hello-World",
        2,
    )
    assert (event.head_sha, event.base_ref, event.draft) == (HEAD, "master", False)
    assert event.url == "https://github.com/Codertocat/Hello-World/pull/2"
    closed = action == "closed"
    assert event.state is (ChangeRequestState.CLOSED if closed else ChangeRequestState.OPEN)


def test_a_push_says_where_it_came_from() -> None:
    event = event_of(read("pull_request", payload("synchronize")))
    assert event.transition is Transition.PUSHED
    assert event.before_sha == "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
    assert event.updated_at == datetime(2019, 5, 15, 15, 20, 33, tzinfo=UTC)


def test_the_projection_holds_what_people_look_for() -> None:
    assert read("pull_request", payload("opened")).projection == {
        "repo_id": 186853002,
        "repo_name": "Codertocat/Hello-World",
        "sender": "Codertocat",
        "sender_id": 21031067,
        "number": 2,
        "head_sha": HEAD,
        "base_ref": "master",
        "state": "open",
        "draft": False,
        "updated_at": "2019-05-15T15:20:33+00:00",
        "url": "https://github.com/Codertocat/Hello-World/pull/2",
        "title": "Update the README with new information.",
        "from_fork": False,
    }


@pytest.mark.parametrize(
    ("event", "document", "ignored"),
    [
        ("ping", {"zen": "Speak like a human.", "hook_id": 1}, IgnoredReason.PING),
        ("star", {"action": "created"}, IgnoredReason.EVENT_UNWANTED),
        ("push", {"after": "ab" * 20, "deleted": False}, IgnoredReason.EVENT_UNWANTED),
        ("push", {"after": "0" * 40}, IgnoredReason.REF_DELETED),
        ("push", {"after": "0" * 64, "repository": None}, IgnoredReason.REF_DELETED),
        ("push", {"after": 5, "deleted": True}, IgnoredReason.REF_DELETED),
        ("push", {"after": "0" * 41, "deleted": "yes"}, IgnoredReason.EVENT_UNWANTED),
        ("push", {"before": "0" * 40, "after": "ab" * 32}, IgnoredReason.EVENT_UNWANTED),
        ("delete", {"ref": "simple-tag", "ref_type": "tag"}, IgnoredReason.REF_DELETED),
        ("installation", {"action": 7, "repository": 5}, IgnoredReason.EVENT_UNWANTED),
        ("pull_request", {"action": "labeled"}, IgnoredReason.ACTION_UNWANTED),
        (
            "pull_request",
            {"action": "edited", "repository": {"id": "x"}},
            IgnoredReason.ACTION_UNWANTED,
        ),
    ],
)
def test_unwanted_events_are_ignored_whatever_is_in_them(
    event: str, document: dict[str, object], ignored: IgnoredReason
) -> None:
    reading = read(event, document)
    assert (reading.event, reading.ignored) == (None, ignored)


@pytest.mark.parametrize(
    ("head_repo", "from_fork"),
    [({"id": 186853002}, False), ({"id": 5}, True), ({}, True), (None, True), (DELETED, True)],
)
def test_a_head_of_unknown_origin_counts_as_a_fork(head_repo: object, from_fork: bool) -> None:
    document = edited("pull_request.head.repo", head_repo)
    assert read("pull_request", document).projection["from_fork"] is from_fork


@pytest.mark.parametrize(
    "path",
    [
        "pull_request.base",
        "pull_request.base.ref",
        "pull_request.state",
        "pull_request.draft",
        "pull_request.updated_at",
        "pull_request.html_url",
        "pull_request.title",
        "sender",
        "sender.login",
    ],
)
@pytest.mark.parametrize("value", [None, DELETED])
def test_what_nothing_depends_on_may_be_absent(path: str, value: object) -> None:
    event = event_of(read("pull_request", edited(path, value)))
    assert (event.head_sha, event.state) == (HEAD, ChangeRequestState.OPEN)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("action", ["", 5, "x" * 101, DELETED]),
        ("repository", [None, DELETED, [], "x"]),
        ("repository.id", [None, DELETED, "1", 0, -1, True, 1.0, INT64_MAX + 1, 10**30]),
        ("repository.full_name", [None, DELETED, "", 5, "x" * 201]),
        ("pull_request", [None, DELETED, 5]),
        ("pull_request.number", [None, DELETED, "2", 0, False]),
        ("pull_request.head", [None, DELETED, "x"]),
        ("pull_request.head.sha", [None, DELETED, 5, "", "abc", "0" * 40, "0" * 64, HEAD.upper()]),
        ("pull_request.head.sha", [HEAD + "a", HEAD + "\n", "g" * 40]),
        ("pull_request.head.repo", [5]),
        ("pull_request.base", [5]),
        ("pull_request.base.ref", [5]),
        ("pull_request.state", [5]),
        ("pull_request.draft", ["false", 0]),
        ("pull_request.updated_at", [5, "", "yesterday", "2026-05-01T12:00:00"]),
        ("pull_request.updated_at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"]),
        ("pull_request.html_url", [5, "javascript:alert(1)", "https://x/" + "x" * 500]),
        ("pull_request.title", [5]),
    ],
)
def test_a_wrong_field_is_named(path: str, wrong: list[object]) -> None:
    for value in wrong:
        with pytest.raises(MalformedError) as caught:
            read("pull_request", edited(path, value))
        assert caught.value.field == path, value


def test_a_wrong_before_is_named() -> None:
    with pytest.raises(MalformedError) as caught:
        read("pull_request", edited("before", "abc", action="synchronize"))
    assert caught.value.field == "before"


def test_large_ids_and_sha_256_commits_keep_every_digit() -> None:
    document = edited("repository.id", INT64_MAX)
    document["pull_request"]["head"]["sha"] = "ab" * 32
    event = event_of(read("pull_request", document))
    assert (event.repo_id, event.head_sha) == (INT64_MAX, "ab" * 32)


def test_text_is_made_storable_and_cut() -> None:
    document = edited("pull_request.title", "nul \0, half \ud800, " + "x" * 5000)
    title = read("pull_request", document).projection["title"]
    assert isinstance(title, str)
    assert title.startswith("nul \ufffd, half \ufffd, x")
    assert len(title) == 1000


def test_a_projection_is_plain_json() -> None:
    reading = read("pull_request", edited("pull_request.updated_at", None))
    assert json.loads(json.dumps(reading.projection)) == reading.projection


def test_the_sender_is_read_where_the_body_names_one() -> None:
    assert read("pull_request", payload("opened")).sender == Sender(
        account_id=21031067, login="Codertocat"
    )
    assert read("ping", {}).sender is None
