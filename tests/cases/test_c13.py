"""A merge queue tests a commit of its own: its work is for that commit, beside the pull request's.

Once the group is gone nothing of it is worked on, and so nothing is posted for it: whose lease has
ended is refused by the publisher.
"""

import pytest

from tests.cases.asking import keys, post
from tests.services.ingress.published import group_document as group
from tests.services.ingress.pulls import A, B, pull
from tests.services.ingress.webhooks.posting import Door, signed

GROUP_HEAD, BATCH_HEAD, LATE_HEAD = "d" * 40, "e" * 40, "f" * 40


def works(door: Door, head_sha: str) -> list[tuple[str, str]]:
    """The status of the work for a commit, and why."""
    said = "SELECT status, reason FROM fencepost.intents WHERE head_sha = %s ORDER BY intent_id"
    return [(str(row[0]), str(row[1])) for row in door.owner.execute(said, [head_sha]).fetchall()]


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
    assert keys(queued) == [*before, f"7@{GROUP_HEAD}:merge-group"]
    again = {**wanted, "organization": None}
    assert post(queued, "merge_group", again, "again") == (200, "duplicate by key")
    heads = "SELECT head_sha, generation FROM fencepost.change_requests WHERE number IN (7, 8)"
    assert queued.owner.execute(heads).fetchall() == [(A, 1), (A, 1)]


def test_a_batch_gets_work_for_each_pull_request_that_its_branch_names(queued: Door) -> None:
    before = len(keys(queued))
    batch = group("checks_requested", "pr-7-pr-8", BATCH_HEAD)
    assert post(queued, "merge_group", batch, "batch") == (202, "")
    made = [f"{number}@{BATCH_HEAD}:merge-group" for number in (7, 8)]
    assert keys(queued)[before:] == made


@pytest.mark.guarantee("I9")
def test_a_newer_head_of_a_pull_request_leaves_the_groups_work_alone(queued: Door) -> None:
    head_sha, before_sha = "1" * 40, "2" * 40
    opened = pull(number=9, head_sha=before_sha)
    push = pull("synchronize", number=9, before=before_sha, head_sha=B, at=1)
    assert queued.post(opened, signed(opened, x_github_delivery="opened")).status_code == 202
    wanted = group("checks_requested", "pr-9", head_sha)
    assert post(queued, "merge_group", wanted, "before-push") == (202, "")
    assert queued.post(push, signed(push, x_github_delivery="push")).status_code == 202
    assert works(queued, before_sha) == [("superseded", "a newer head is current")]
    assert works(queued, head_sha) == [("open", "")]


@pytest.mark.guarantee("I9")
def test_the_work_of_a_group_ends_with_it_and_no_other_does(queued: Door) -> None:
    ended, other = "3" * 40, "4" * 40
    for head_sha in (ended, other):
        wanted = group("checks_requested", "pr-7-pr-8", head_sha)
        assert post(queued, "merge_group", wanted, f"of-{head_sha}") == (202, "")
    before = keys(queued)
    gone = group("destroyed", "pr-7-pr-8", ended)
    assert post(queued, "merge_group", gone, "gone") == (200, "group-gone")
    assert keys(queued) == before
    assert works(queued, ended) == [("abandoned", "the merge group is gone")] * 2
    assert works(queued, other) == [("open", "")] * 2


@pytest.mark.guarantee("I9")
def test_checks_that_are_wanted_after_the_end_of_their_group_make_no_work(queued: Door) -> None:
    before = keys(queued)
    gone = group("destroyed", "pr-7", LATE_HEAD)
    assert post(queued, "merge_group", gone, "early") == (200, "group-gone")
    late = group("checks_requested", "pr-7", LATE_HEAD)
    assert post(queued, "merge_group", late, "late") == (200, "group-gone")
    assert keys(queued) == before
    stored = "SELECT outcome, reason FROM fencepost.deliveries WHERE delivery_id = 'late'"
    assert queued.owner.execute(stored).fetchall() == [("ignored", "group-gone")]
