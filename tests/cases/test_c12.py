"""Checks whose forge names no pull request, as for forks: they are found by their commit."""

from typing import Any

import pytest

from tests.cases.asking import MAINTAINER, keys, post
from tests.services.ingress.published import REPO_ID, check_document, published
from tests.services.ingress.pulls import A, B, C, pull
from tests.services.ingress.webhooks.posting import Door, signed


def of_ours(event: str, action: str, pulls: list[int], head_sha: str, turn: int = 0) -> Any:
    """The published payload, of this repository and at a commit, sent by a person."""
    document = check_document(event, action, pulls, turn)
    document["repository"]["id"] = REPO_ID
    document[event]["head_sha"] = head_sha
    for each in document[event]["pull_requests"]:
        each["base"]["repo"]["id"] = REPO_ID
    return {**document, "sender": MAINTAINER}


@pytest.fixture(scope="module")
def known(bots: Door) -> Door:
    """Four pull requests, of which two share a head and one of them is closed."""
    for number, head_sha, action in ((2, A, "opened"), (3, B, "opened"), (4, B, "opened")):
        body = pull(action, number=number, head_sha=head_sha)
        answer = bots.post(body, signed(body, x_github_delivery=f"opened-{number}"))
        assert answer.status_code == 202
    closed = pull("closed", number=5, head_sha=A)
    assert bots.post(closed, signed(closed, x_github_delivery="closed")).status_code == 200
    return bots


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize("turn", [0, 1])
def test_a_check_without_pull_requests_is_found_by_its_commit(known: Door, turn: int) -> None:
    before = len(keys(known))
    check = of_ours("check_run", "rerequested", [], A, turn)
    assert published("check_run", "rerequested", turn)["check_run"]["pull_requests"] == []
    assert post(known, "check_run", check, f"again-{turn}") == (202, "")
    [key] = keys(known)[before:]
    assert key.startswith(f"2@{A}:rerun-")


@pytest.mark.guarantee("I13")
@pytest.mark.parametrize("named", [[], [3, 4]])
def test_two_pull_requests_of_one_commit_get_their_work_each(known: Door, named: list[int]) -> None:
    before = len(keys(known))
    suite = of_ours("check_suite", "rerequested", named, B)
    suite["check_suite"]["head_branch"] = None
    delivery_id = f"suite-{len(named)}"
    assert post(known, "check_suite", suite, delivery_id) == (202, "")
    found = keys(known)[before:]
    assert [key.partition(":")[0] for key in found] == [f"3@{B}", f"4@{B}"]
    assert post(known, "check_suite", suite, delivery_id) == (200, "duplicate by delivery-id")
    assert keys(known)[before:] == found


def test_a_commit_that_nobody_knows_is_ignored_with_a_reason(known: Door) -> None:
    before = keys(known)
    check = of_ours("check_run", "rerequested", [], C)
    assert post(known, "check_run", check, "unknown") == (200, "head-unknown")
    suite = of_ours("check_suite", "requested", [], C)
    assert post(known, "check_suite", suite, "unknown-suite") == (200, "head-unknown")
    assert keys(known) == before


@pytest.mark.parametrize("named", [[], [3, 4]])
def test_a_suite_that_is_done_is_no_accident_and_no_work(known: Door, named: list[int]) -> None:
    before = keys(known)
    done = of_ours("check_suite", "completed", named, B)
    delivery_id = f"done-{len(named)}"
    assert post(known, "check_suite", done, delivery_id) == (200, "action-unwanted")
    assert keys(known) == before


def test_a_new_commits_checks_are_the_work_that_its_head_has_already(known: Door) -> None:
    before = keys(known)
    suite = of_ours("check_suite", "requested", [], A)
    assert post(known, "check_suite", suite, "requested") == (200, "duplicate by key")
    assert keys(known) == before
