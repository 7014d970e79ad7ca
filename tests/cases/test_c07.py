"""Events with nothing to review are recorded and ignored with a reason; none makes work."""

import json

import pytest

from tests.cases.stored import bodies, intents
from tests.services.ingress.gitlab_merges import push_document
from tests.services.ingress.pulls import A, pull
from tests.services.ingress.webhooks.gitlab_posting import GitLab
from tests.services.ingress.webhooks.posting import Door, signed
from tools.docs.github_events import Example, examples

EVENTS = ("push", "ping", "installation", "delete")
PUBLISHED = [
    pytest.param(example, id=f"{example.event}-{n}")
    for n, example in enumerate(each for each in examples() if each.event in EVENTS)
]


def expected(example: Example) -> str:
    """The reason that the published payload is ignored for."""
    document = json.loads(example.body)
    gone = example.event == "delete" or document.get("deleted") is True
    return "ping" if example.event == "ping" else "ref-deleted" if gone else "event-unwanted"


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("example", PUBLISHED)
def test_a_published_payload_without_work(
    github: Door, example: Example, request: pytest.FixtureRequest
) -> None:
    delivery_id, before = request.node.callspec.id, intents(github)
    headers = signed(example.body, x_github_delivery=delivery_id, x_github_event=example.event)
    answer = github.post(example.body, headers)
    assert (answer.status_code, answer.json()["reason"]) == (200, expected(example))
    assert bodies(github, delivery_id) == [example.body]
    assert intents(github) == before


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("zeros", ["0" * 40, "0" * 64])
@pytest.mark.parametrize(("gone", "reason"), [(True, "ref-deleted"), (False, "event-unwanted")])
def test_gitlab_says_a_deletion_with_zeros_alone(
    merges: GitLab, zeros: str, gone: bool, reason: str
) -> None:
    document = push_document(
        before=A if gone else zeros, after=zeros if gone else A.ljust(len(zeros), "a")
    )
    answer = merges.post(
        json.dumps(document).encode(), f"{gone}-{len(zeros)}", x_gitlab_event="Push Hook"
    )
    assert (answer.status_code, answer.json()["reason"]) == (200, reason)
    assert intents(merges.door) == 0


def test_a_commit_of_64_digits_is_as_good_as_one_of_40(github: Door) -> None:
    body = pull(number=64, head_sha="ab" * 32)
    answer = github.post(body, signed(body, x_github_delivery="sha-256"))
    assert answer.status_code == 202
