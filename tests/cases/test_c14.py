"""Many events for one commit make one piece of work, and a draft waits for what ends it.

What becomes of the work for an older commit is the dispatcher's part.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.stored import intents
from tests.database_server import DatabaseServer
from tests.services.ingress.gitea_pulls import endpoint, gitea_document
from tests.services.ingress.gitlab_merges import draft_ended, merge
from tests.services.ingress.pulls import SECRET, A, B, pull
from tests.services.ingress.webhooks.gitlab_posting import GitLab
from tests.services.ingress.webhooks.posting import Door, as_sent, opened, signed
from tests.signing import bare_signature


def post(door: Door, delivery_id: str, body: bytes) -> tuple[int, str]:
    answer = door.post(body, signed(body, x_github_delivery=delivery_id))
    return answer.status_code, answer.json()["reason"]


@pytest.mark.guarantee("I13")
def test_github_one_piece_of_work_for_each_commit(github: Door) -> None:
    assert post(github, "opened", pull("opened", at=0, draft=True)) == (200, "draft")
    burst = {
        "ready": pull("ready_for_review", at=1),
        "requested": pull("review_requested", at=1),
        "labeled": pull("labeled", at=1),
        "again": pull("ready_for_review", at=2),
    }
    with ThreadPoolExecutor(len(burst)) as at_once:
        answers = list(at_once.map(lambda name: post(github, name, burst[name]), burst))
    assert sorted(status for status, _ in answers) == [200, 200, 200, 202]
    assert intents(github) == 1

    assert post(github, "pushed", pull("synchronize", head_sha=B, before=A, at=3)) == (202, "")
    back = pull("converted_to_draft", head_sha=B, at=4, draft=True)
    assert post(github, "draft-again", back) == (200, "action-unwanted")
    assert intents(github) == 2


@pytest.mark.guarantee("I13")
def test_gitlab_one_piece_of_work_for_each_commit(merges: GitLab) -> None:
    label: dict[str, object] = {"labels": {"previous": [], "current": []}}
    bodies = [
        merge("open", draft=True),
        merge("update", draft=True, at=1, changes=label),
        draft_ended(at=2),
        merge("update", at=3, changes=label),
        merge("update", at=4, oldrev=A, head_sha=B),
        merge("update", at=5, head_sha=B, draft=True, changes={"draft": {"current": True}}),
    ]
    answers = [merges.post(body, f"merge-{n}") for n, body in enumerate(bodies)]
    assert [answer.json()["reason"] or answer.json()["outcome"] for answer in answers] == [
        "draft",
        "action-unwanted",
        "accepted",
        "action-unwanted",
        "accepted",
        "action-unwanted",
    ]
    assert intents(merges.door) == 2


def test_gitea_a_title_that_stops_saying_draft(database_server: DatabaseServer) -> None:
    drafted = gitea_document("opened", title="WIP: gears")
    readied = gitea_document("edited", title="gears", at=1)
    readied["changes"] = {"title": {"from": "WIP: gears"}}
    del drafted["pull_request"]["draft"], readied["pull_request"]["draft"]
    found = []
    with opened(database_server, endpoint=endpoint("gitea")) as door:
        for n, document in enumerate([drafted, readied]):
            body = json.dumps(document).encode()
            headers = {
                "x-gitea-event": "pull_request",
                "x-gitea-delivery": f"gears-{n}",
                "x-gitea-signature": bare_signature(SECRET.encode(), body),
            }
            answer = door.post(body, as_sent(headers), "/webhooks/gitea/gitea").json()
            found.append(answer["reason"] or answer["outcome"])
    assert found == ["draft", "accepted"]
