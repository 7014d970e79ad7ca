"""A refusal that may pass is no record: whoever sends comes again."""

from collections.abc import Iterator

import pytest
from fencepost.errors import DatabaseUnavailable, Overloaded, Refusal

from services.ingress.batched import BatchedIntake
from services.ingress.submissions import Submission
from tests.database_server import DatabaseServer
from tests.services.ingress.gitlab_merges import merge
from tests.services.ingress.pulls import pull
from tests.services.ingress.webhooks.gitlab_posting import TOKEN
from tests.services.ingress.webhooks.in_process import InProcess, in_process
from tests.services.ingress.webhooks.posting import as_sent, signed

SENT = {
    "github": (pull(), signed(pull())),
    "token": (
        merge(),
        as_sent({"x-gitlab-token": TOKEN, "x-gitlab-event": "Merge Request Hook"}),
    ),
}


@pytest.fixture(scope="module")
def door(database_server: DatabaseServer) -> Iterator[InProcess]:
    with in_process(database_server) as door:
        yield door


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("refusal", [Overloaded(), DatabaseUnavailable()], ids=repr)
def test_what_may_pass_is_answered_503_and_not_recorded(
    door: InProcess, name: str, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_batched: BatchedIntake, _submission: Submission) -> Refusal:
        return refusal

    monkeypatch.setattr(BatchedIntake, "submit", refused)
    before = door.written()
    body, headers = SENT[name]
    assert door.post(name, headers, [body]) == 503
    assert door.written() == before
