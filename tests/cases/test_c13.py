"""A merge queue tests a commit of its own: its work is for that commit, beside the pull request's.

That a check is posted for it, and nothing more once it is gone, is the publisher's part.
"""

from typing import Any

import pytest

from tests.cases.asking import keys, post
from tests.services.ingress.published import REPO_ID, published
from tests.services.ingress.pulls import A, pull
from tests.services.ingress.webhooks.posting import Door, signed

GROUP_HEAD, BATCH_HEAD = "d" * 40, "e" * 40
QUEUE = "refs/heads/gh-readonly-queue/main/"


def group(action: str, named: str, head_sha: str) -> dict[str, Any]:
    """A merge group of this repository."""
    document = published("merge_group", "checks_requested")
    document["action"] = action
    document["repository"]["id"] = REPO_ID
    document["merge_group"] |= {"head_ref": f"{QUEUE}{named}-{A}", "head_sha": head_sha}
    return document


@pytest.fixture(scope="module")
def queued(bots: Door) -> Door:
    """Two pull requests whose heads have their work."""
    for number in (7, 8):
        body = pull(number=number, head_sha=A)
        assert bots.post(body, signed(body, x_github_delivery=f"d-{number}")).status_code == 202
    return bots


def test_a_merge_group_gets_work_for_its_own_commit(queued: Door) -> None:
    before = keys(queued)
    wanted = group("checks_requested", "pr-7", GROUP_HEAD)
    assert post(queued, "merge_group", wanted, "group") == (202, "")
    assert keys(queued) == [*before, f"7@{GROUP_HEAD}"]
    again = {**wanted, "organization": None}
    assert post(queued, "merge_group", again, "again") == (200, "duplicate by key")
    heads = "SELECT head_sha, generation FROM fencepost.change_requests ORDER BY number"
    assert queued.owner.execute(heads).fetchall() == [(A, 1), (A, 1)]


def test_a_batch_gets_work_for_each_pull_request_that_its_branch_names(queued: Door) -> None:
    before = len(keys(queued))
    batch = group("checks_requested", "pr-7-pr-8", BATCH_HEAD)
    assert post(queued, "merge_group", batch, "batch") == (202, "")
    assert keys(queued)[before:] == [f"7@{BATCH_HEAD}", f"8@{BATCH_HEAD}"]


def test_a_group_that_is_gone_makes_no_work(queued: Door) -> None:
    before = keys(queued)
    gone = group("destroyed", "pr-7", GROUP_HEAD)
    assert post(queued, "merge_group", gone, "gone") == (200, "group-gone")
    assert keys(queued) == before
