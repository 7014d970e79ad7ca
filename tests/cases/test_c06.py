"""A pull request whose fork was deleted is taken in, and its head counts as a stranger's."""

import json

import pytest

from tests.cases.stored import projection
from tests.services.ingress.pulls import real
from tests.services.ingress.webhooks.posting import Door, signed


def orphaned(action: str) -> bytes:
    """The real payload as it comes when the fork is gone."""
    document = json.loads(real(action))
    document["pull_request"]["head"] |= {"repo": None, "user": None, "label": "unknown:patch-1"}
    return json.dumps(document).encode()


@pytest.mark.guarantee("I8", "X4")
@pytest.mark.parametrize(("action", "status"), [("synchronize", 202), ("closed", 200)])
def test_a_fork_that_is_gone_is_not_trusted(github: Door, action: str, status: int) -> None:
    body = orphaned(action)
    answer = github.post(body, signed(body, x_github_delivery=action))
    assert answer.status_code == status, answer.text
    assert projection(github, action)["from_fork"] is True


def test_a_fork_that_is_there_is_told_from_the_repository_itself(github: Door) -> None:
    body = real("reopened")
    github.post(body, signed(body, x_github_delivery="own"))
    assert projection(github, "own")["from_fork"] is False
