"""Commands in GitHub's comments and reviews: where they stand, who sent them, odd fields."""

from typing import Any

import pytest

from services.ingress.body_rules import MalformedError
from services.ingress.github_rules import read
from services.ingress.rules import AskKind, IgnoredReason, Sender, WorkAsked
from tests.services.ingress.published import (
    CODERTOCAT,
    REPO_ID,
    comment_document,
    published,
    put,
)

REPO_NAME = "Codertocat/Hello-World"
MALLORY = {"id": 666, "login": "mallory", "type": "User"}


def review_comment(action: str = "created", text: str = "/review") -> dict[str, Any]:
    document = published("pull_request_review_comment", action)
    document["comment"]["body"] = text
    return document


def review(text: str | None = "/review", action: str = "submitted") -> dict[str, Any]:
    document = published("pull_request_review", "submitted")
    document["action"] = action
    document["review"]["body"] = text
    return document


def ignored(event: str, document: dict[str, Any]) -> IgnoredReason | None:
    reading = read(event, document)
    assert (reading.event, reading.asks) == (None, None)
    return reading.ignored


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("action", ["created", "edited"])
def test_a_comment_on_a_pull_request_asks_for_its_commands(action: str) -> None:
    document = comment_document("Well.\r\n/review\r\n/fix", action)
    reading = read("issue_comment", document)
    assert reading.asks == WorkAsked(
        kind=AskKind.COMMAND,
        repo_id=REPO_ID,
        repo_name=REPO_NAME,
        number=1,
        head_sha=None,
        url="https://github.com/Codertocat/Hello-World/issues/1#issuecomment-492700400",
        comment_id=492700400,
        commands=("review", "fix"),
    )
    assert (reading.event_action, reading.event, reading.ignored) == (action, None, None)
    assert reading.sender == Sender(account_id=CODERTOCAT, login="Codertocat")
    assert reading.projection == {
        "repo_id": REPO_ID,
        "repo_name": REPO_NAME,
        "sender": "Codertocat",
        "sender_id": CODERTOCAT,
        "number": 1,
        "comment_id": 492700400,
        "asks": "command",
        "url": reading.asks.url,
        "commands": "review fix",
    }


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("event", "document", "comment_id"),
    [
        ("pull_request_review_comment", review_comment(), 284312630),
        ("pull_request_review_comment", review_comment("edited"), 284312630),
        ("pull_request_review", review(), 237895671),
        ("pull_request_review", review(action="edited"), 237895671),
    ],
)
def test_reviews_and_the_comments_in_them_hold_commands_as_well(
    event: str, document: dict[str, Any], comment_id: int
) -> None:
    asks = read(event, document).asks
    assert asks is not None
    assert (asks.comment_id, asks.number, asks.commands) == (comment_id, 2, ("review",))


@pytest.mark.parametrize(
    ("event", "document", "reason"),
    [
        ("issue_comment", comment_document(action="deleted"), IgnoredReason.ACTION_UNWANTED),
        (
            "pull_request_review_comment",
            review_comment("deleted"),
            IgnoredReason.ACTION_UNWANTED,
        ),
        ("pull_request_review", review(action="dismissed"), IgnoredReason.ACTION_UNWANTED),
        ("pull_request_review", review(None), IgnoredReason.NO_COMMAND),
        ("issue_comment", comment_document("> /review"), IgnoredReason.NO_COMMAND),
        ("issue_comment", published("issue_comment", "created"), IgnoredReason.NO_CHANGE_REQUEST),
    ],
)
def test_what_asks_for_nothing_is_ignored_with_its_reason(
    event: str, document: dict[str, Any], reason: IgnoredReason
) -> None:
    assert ignored(event, document) is reason


def test_a_closed_pull_request_takes_no_commands() -> None:
    on_issue, in_review = comment_document(), review()
    on_issue["issue"]["state"] = in_review["pull_request"]["state"] = "closed"
    assert ignored("issue_comment", on_issue) is IgnoredReason.CLOSED
    assert ignored("pull_request_review", in_review) is IgnoredReason.CLOSED


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize("association", ["OWNER", "MEMBER", "COLLABORATOR"])
def test_people_of_the_repository_may_command(association: str) -> None:
    document = comment_document(author_association=association)
    assert read("issue_comment", document).asks is not None


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    "association",
    ["CONTRIBUTOR", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "NONE", "owner", "", 5, None],
)
def test_nobody_else_may(association: object) -> None:
    document = comment_document(author_association=association)
    assert ignored("issue_comment", document) is IgnoredReason.SENDER_UNTRUSTED


@pytest.mark.guarantee("I6")
@pytest.mark.parametrize(
    ("event", "document"),
    [
        ("issue_comment", comment_document(action="edited")),
        ("issue_comment", comment_document()),
        ("pull_request_review_comment", review_comment("edited")),
        ("pull_request_review", review(action="edited")),
    ],
)
@pytest.mark.parametrize("sender", [MALLORY, {"login": "Codertocat"}, None])
def test_the_authors_word_is_not_what_another_made_of_it(
    event: str, document: dict[str, Any], sender: object
) -> None:
    edited = {**document, "sender": sender}
    assert ignored(event, edited) is IgnoredReason.EDITED_BY_ANOTHER


@pytest.mark.guarantee("I8")
def test_a_program_gives_no_commands() -> None:
    document = comment_document()
    document["sender"]["type"] = "Bot"
    assert ignored("issue_comment", document) is IgnoredReason.SENDER_IS_BOT


@pytest.mark.guarantee("I8")
def test_what_an_app_said_for_a_person_is_the_apps_as_well() -> None:
    document = comment_document(performed_via_github_app={"id": 29310, "slug": "octocoders"})
    sender = read("issue_comment", document).sender
    assert sender == Sender(account_id=CODERTOCAT, login="Codertocat", app_id=29310)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("action", ["", 5, None]),
        ("issue", [None, 5]),
        ("issue.pull_request", [5]),
        ("issue.number", [None, "1", 0]),
        ("issue.state", [5]),
        ("comment", [None, "x"]),
        ("comment.body", [5, ["/review"]]),
        ("comment.id", [None, "492700400", 2**63]),
        ("comment.html_url", ["javascript:alert(1)"]),
        ("repository", [None, 5]),
        ("repository.id", [None, 1.5]),
        ("repository.full_name", [None, ""]),
    ],
)
def test_a_wrong_field_of_a_command_is_named(path: str, wrong: list[object]) -> None:
    for value in wrong:
        document = put(comment_document(), path, value)
        with pytest.raises(MalformedError) as caught:
            read("issue_comment", document)
        assert caught.value.field == path, value


def test_ids_of_comments_keep_every_digit() -> None:
    asks = read("issue_comment", comment_document(id=2**63 - 1)).asks
    assert asks is not None
    assert asks.comment_id == 2**63 - 1
