"""Commands in comments of Gitea and Forgejo, reviews that are asked for, and odd fields."""

from typing import Any

import pytest

from services.ingress.body_rules import MalformedError
from services.ingress.gitea_rules import read
from services.ingress.rules import AskKind, IgnoredReason, WorkAsked
from tests.services.ingress.gitea_pulls import (
    OWNER_ID,
    REPO_ID,
    URL,
    gitea_comment,
    gitea_document,
)
from tests.services.ingress.published import put
from tests.services.ingress.pulls import A


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("action", ["created", "edited"])
def test_a_comment_on_a_pull_request_asks_for_its_commands(action: str) -> None:
    reading = read("issue_comment", gitea_comment("/review\n/fix", action))
    assert reading.asks == WorkAsked(
        kind=AskKind.COMMAND,
        repo_id=REPO_ID,
        repo_name="gadgets/hello-world",
        number=4,
        head_sha=None,
        url=f"{URL}#issuecomment-88",
        comment_id=88,
        commands=("review", "fix"),
    )
    assert (reading.event_action, reading.ignored) == (action, None)


@pytest.mark.parametrize("is_pull", [False, None])
def test_an_installation_that_says_no_flag_shows_the_pull_request(is_pull: object) -> None:
    document = put(gitea_comment(), "is_pull", is_pull)
    assert read("issue_comment", document).asks is not None
    reading = read("issue_comment", put(document, "issue.pull_request", None))
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.NO_CHANGE_REQUEST)


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("comment.body", "> /review", IgnoredReason.NO_COMMAND),
        ("action", "deleted", IgnoredReason.ACTION_UNWANTED),
        ("issue.state", "closed", IgnoredReason.CLOSED),
        ("sender.id", OWNER_ID, IgnoredReason.EDITED_BY_ANOTHER),
        ("sender", None, IgnoredReason.EDITED_BY_ANOTHER),
        ("comment.user", None, IgnoredReason.EDITED_BY_ANOTHER),
        ("repository.private", False, IgnoredReason.SENDER_UNTRUSTED),
        ("repository.private", None, IgnoredReason.SENDER_UNTRUSTED),
        ("repository.private", "yes", IgnoredReason.SENDER_UNTRUSTED),
    ],
)
def test_a_comment_that_asks_for_nothing_is_ignored_with_its_reason(
    path: str, value: object, reason: IgnoredReason
) -> None:
    reading = read("issue_comment", put(gitea_comment(), path, value))
    assert (reading.asks, reading.ignored) == (None, reason)


@pytest.mark.guarantee("I6")
def test_the_owner_of_a_public_repository_may_command() -> None:
    document = put(gitea_comment(author_id=OWNER_ID), "repository.private", False)
    assert read("issue_comment", document).asks is not None
    unowned = put(document, "repository.owner", None)
    assert read("issue_comment", unowned).ignored is IgnoredReason.SENDER_UNTRUSTED


@pytest.mark.guarantee("I13")
def test_a_review_is_asked_of_whom_the_body_names() -> None:
    document = gitea_document("review_requested")
    nobody = read("pull_request", document)
    assert (nobody.asks, nobody.ignored) == (None, IgnoredReason.REVIEW_OF_ANOTHER)
    reading = read("pull_request", {**document, "requested_reviewer": {"id": 4711}})
    assert reading.asks == WorkAsked(
        kind=AskKind.RERUN,
        repo_id=REPO_ID,
        repo_name="gadgets/hello-world",
        number=4,
        head_sha=A,
        url=URL,
        reviewer_ids=(4711,),
    )


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("action", [None, "", 5]),
        ("issue", [None, 5]),
        ("issue.number", [None, "4"]),
        ("issue.state", [5]),
        ("is_pull", ["true"]),
        ("comment", [None]),
        ("comment.id", [None, 0]),
        ("comment.body", [5]),
        ("repository", [None, 5]),
        ("repository.id", [None]),
        ("repository.full_name", [None]),
    ],
)
def test_a_wrong_field_of_a_comment_is_named(path: str, wrong: list[object]) -> None:
    for value in wrong:
        document: dict[str, Any] = put(gitea_comment(), path, value)
        with pytest.raises(MalformedError) as caught:
            read("issue_comment", document)
        assert caught.value.field == path, value
