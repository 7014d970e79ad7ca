"""GitHub's checks: re-runs, first runs, merge groups, review requests, and odd fields in them."""

from typing import Any

import pytest

from services.ingress.body_rules import LIST_ITEMS_MAX, MalformedError
from services.ingress.fields_rules import INT64_MAX
from services.ingress.github_checks_rules import pulls_queued
from services.ingress.github_rules import read
from services.ingress.rules import AskKind, GoneGroup, IgnoredReason, Sender, WorkAsked
from tests.services.ingress.published import check_document, published, put

QUEUED = "refs/heads/gh-readonly-queue/main/pr-104-929f8209d40f77f4abc622a499c93a83babdbe64"
GROUP_HEAD = "2ffea6db159f6b6c47a24e778fb9ef40cf6b1c7d"


def asks_of(event: str, document: dict[str, Any]) -> WorkAsked:
    reading = read(event, document)
    assert (reading.event, reading.ignored) == (None, None)
    assert reading.asks is not None
    return reading.asks


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize("pulls", [[], [7], [7, 8], [8, 7, 8]])
@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("check_run", "rerequested"),
        ("check_run", "requested_action"),
        ("check_suite", "rerequested"),
    ],
)
def test_a_check_that_a_person_runs_again_names_its_pull_requests_if_any(
    event: str, action: str, pulls: list[int]
) -> None:
    document = check_document(event, action, pulls)
    document["sender"]["type"] = "User"
    asks = asks_of(event, document)
    assert (asks.kind, asks.number, asks.repo_id) == (
        AskKind.RERUN,
        None,
        document["repository"]["id"],
    )
    assert asks.head_sha == document[event]["head_sha"]
    assert asks.pull_numbers == tuple(dict.fromkeys(pulls))


@pytest.mark.guarantee("I13")
def test_a_new_commit_whose_checks_are_wanted_is_no_re_run() -> None:
    document = published("check_suite", "requested")
    document["sender"]["type"] = "Bot"
    asks = asks_of("check_suite", document)
    assert (asks.kind, asks.head_sha) == (
        AskKind.CHECKS,
        "f95f852bd8fca8fcc58a9a2d6c842781e32a215e",
    )


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize(
    ("event", "action"), [("check_run", "rerequested"), ("check_suite", "rerequested")]
)
def test_only_people_run_checks_again(event: str, action: str) -> None:
    document = published(event, action)
    document["sender"]["type"] = "Bot"
    reading = read(event, document)
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.SENDER_IS_BOT)


@pytest.mark.guarantee("I8")
def test_the_app_of_a_check_is_not_who_runs_it_again() -> None:
    reading = read("check_run", published("check_run", "requested_action"))
    assert reading.sender == Sender(account_id=2036040, login="codebytere", app_id=None)


@pytest.mark.parametrize(
    ("event", "action"),
    [("check_run", "created"), ("check_run", "completed"), ("check_suite", "completed")],
)
@pytest.mark.parametrize("pulls", [[], [7, 8]])
def test_what_checks_report_of_themselves_is_ignored(
    event: str, action: str, pulls: list[int]
) -> None:
    reading = read(event, check_document(event, action, pulls))
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.ACTION_UNWANTED)


def test_pull_requests_of_other_repositories_are_not_meant() -> None:
    document = check_document("check_run", "rerequested", [7, 8, 9])
    first, second, _ = document["check_run"]["pull_requests"]
    first["base"] = {"repo": {"id": 5}}
    del second["base"]
    assert asks_of("check_run", document).pull_numbers == (8, 9)


def test_a_long_list_of_pull_requests_is_looked_at_up_to_a_limit() -> None:
    document = check_document("check_run", "rerequested", list(range(1, 500)))
    assert len(asks_of("check_run", document).pull_numbers) == LIST_ITEMS_MAX


def test_a_merge_group_is_checked_at_its_own_commit() -> None:
    reading = read("merge_group", published("merge_group", "checks_requested"))
    assert reading.asks == WorkAsked(
        kind=AskKind.MERGE_GROUP,
        repo_id=17273051,
        repo_name="octo-org/octo-repo",
        number=None,
        head_sha=GROUP_HEAD,
        url="",
        pull_numbers=(104,),
    )


@pytest.mark.parametrize(
    ("head_ref", "numbers"),
    [
        (QUEUED, (104,)),
        (QUEUED.replace("/main/", "/release/pr-9-old/"), (104,)),
        ("refs/heads/gh-readonly-queue/main/pr-7-pr-8-929f8209", (7, 8)),
        ("refs/heads/gh-readonly-queue/main/pr-7-929f8209-pr-8-03cafe", (7, 8)),
        ("refs/heads/gh-readonly-queue/main/pr-7-pr-7-929f8209", (7,)),
        ("pr-7-929f8209", (7,)),
        (f"pr-{INT64_MAX}-a", (INT64_MAX,)),
        (f"pr-{INT64_MAX + 1}-a", ()),
        (f"pr-1{INT64_MAX}-a", ()),
        ("pr-0-a", ()),
        ("pr-07-a", ()),
        ("spr-7-a", ()),
        ("pr-7", ()),
        ("pr-\u0667-a", ()),
        ("refs/heads/main", ()),
        ("", ()),
    ],
)
def test_the_branch_of_a_merge_group_names_its_pull_requests(
    head_ref: str, numbers: tuple[int, ...]
) -> None:
    assert pulls_queued(head_ref) == numbers


def test_the_end_of_a_merge_group_is_recorded_with_its_commit() -> None:
    document = {**published("merge_group", "checks_requested"), "action": "destroyed"}
    reading = read("merge_group", document)
    assert (reading.asks, reading.ignored) == (None, IgnoredReason.GROUP_GONE)
    assert reading.projection["head_sha"] == GROUP_HEAD
    assert reading.gone == GoneGroup(repo_id=17273051, head_sha=GROUP_HEAD, numbers=(104,))


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("field", ["merge_group.head_sha", "repository.id"])
def test_the_end_of_a_merge_group_names_it(field: str) -> None:
    document = {**published("merge_group", "checks_requested"), "action": "destroyed"}
    with pytest.raises(MalformedError) as refused:
        read("merge_group", put(document, field, None))
    assert refused.value.field == field


@pytest.mark.guarantee("I13")
def test_a_review_is_asked_of_whom_the_body_names() -> None:
    document = published("pull_request", "review_requested")
    asks = asks_of("pull_request", document)
    pull = document["pull_request"]
    assert (asks.kind, asks.number, asks.head_sha) == (
        AskKind.RERUN,
        pull["number"],
        pull["head"]["sha"],
    )
    assert asks.reviewer_ids == (5346,)
    document["requested_team"] = {"id": 77}
    document["requested_reviewer"] = None
    assert asks_of("pull_request", document).reviewer_ids == (77,)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("requested_reviewer", None, IgnoredReason.REVIEW_OF_ANOTHER),
        ("pull_request.state", "closed", IgnoredReason.CLOSED),
        ("sender.type", "Bot", IgnoredReason.SENDER_IS_BOT),
    ],
)
def test_a_review_that_nobody_is_to_give_again_is_ignored(
    path: str, value: object, reason: IgnoredReason
) -> None:
    document = published("pull_request", "review_requested")
    reading = read("pull_request", put(document, path, value))
    assert (reading.asks, reading.ignored) == (None, reason)


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize(
    ("event", "action", "path", "wrong"),
    [
        ("check_run", "rerequested", "action", ["", None, 5]),
        ("check_run", "rerequested", "check_run", [None, 5]),
        ("check_run", "rerequested", "check_run.head_sha", [None, "abc", "0" * 40]),
        ("check_run", "rerequested", "check_run.pull_requests", [5, {}]),
        ("check_run", "rerequested", "check_run.html_url", ["javascript:alert(1)"]),
        ("check_suite", "requested", "check_suite.head_sha", [None, 5]),
        ("check_suite", "requested", "repository.full_name", [None, ""]),
        ("check_suite", "requested", "repository.id", [None, "x"]),
        ("merge_group", "checks_requested", "merge_group", [None, 5]),
        ("merge_group", "checks_requested", "merge_group.head_sha", [None, "0" * 40]),
        ("merge_group", "checks_requested", "merge_group.head_ref", [5]),
        ("pull_request", "review_requested", "requested_reviewer", [5]),
        ("pull_request", "review_requested", "requested_reviewer.id", [None, "x"]),
        ("pull_request", "review_requested", "requested_team", [5]),
        ("pull_request", "review_requested", "pull_request.number", [None]),
        ("pull_request", "review_requested", "pull_request.head.sha", [None]),
    ],
)
def test_a_wrong_field_is_named(event: str, action: str, path: str, wrong: list[object]) -> None:
    for value in wrong:
        with pytest.raises(MalformedError) as caught:
            read(event, put(published(event, action), path, value))
        assert caught.value.field == path, value


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("wrong", [5, None, {"number": "7"}])
def test_a_wrong_pull_request_of_a_check_is_named_by_its_place(wrong: object) -> None:
    document = check_document("check_run", "rerequested", [7, 8])
    document["check_run"]["pull_requests"][1] = wrong
    with pytest.raises(MalformedError) as caught:
        read("check_run", document)
    assert caught.value.field.startswith("check_run.pull_requests.1")
