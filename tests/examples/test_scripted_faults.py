"""Scripted faults: what the caller sees, what the forge did, and that each is used up once."""

import json
import time

import httpx
import pytest

from examples.scripted_forge.client import FaultName, ScriptedForge
from tests.examples.judged import NUMBER, JudgedRepo

REVIEW = {"event": "COMMENT", "body": "Looks right."}


def _fault(repo: JudgedRepo, kind: FaultName, *, times: int = 1, delay_ms: int = 0) -> None:
    pattern = f"^{repo.pull}/reviews$"
    repo.forge.fault(kind, path_regex=pattern, times=times, delay_ms=delay_ms)


def _post(repo: JudgedRepo) -> httpx.Response:
    return repo.send("POST", f"{repo.pull}/reviews", REVIEW)


def test_store_then_502_has_done_what_it_denies(repo: JudgedRepo) -> None:
    _fault(repo, "store_then_502")

    assert _post(repo).status_code == 502

    assert repo.posted() == ["Looks right."]
    assert [(one.answered_status, one.fault) for one in repo.logged("POST")] == [
        (502, "store_then_502")
    ]


@pytest.mark.parametrize(
    ("kind", "posted"),
    [("store_then_reset", ["Looks right."]), ("reset_before_store", [])],
)
def test_a_reset_leaves_no_answer(repo: JudgedRepo, kind: FaultName, posted: list[str]) -> None:
    _fault(repo, kind)

    with pytest.raises(httpx.ReadError, match="reset by peer"):
        _post(repo)

    assert repo.posted() == posted
    assert [(one.answered_status, one.fault) for one in repo.logged("POST")] == [(None, kind)]
    assert _post(repo).status_code == 200


def test_a_status_is_answered_with_its_headers_and_body_and_nothing_is_stored(
    repo: JudgedRepo,
) -> None:
    body = {
        "message": "You have exceeded a secondary rate limit.",
        "documentation_url": "https://docs.github.com/rest",
        "status": "403",
    }
    repo.forge.fault(
        "status",
        path_regex=repo.full_name,
        status=403,
        headers={"retry-after": "60", "x-ratelimit-remaining": "0"},
        body=json.dumps(body),
    )

    response = repo.call("POST", f"{repo.pull}/reviews", REVIEW)

    assert (response.status_code, response.json()) == (403, body)
    assert response.headers["retry-after"] == "60"
    assert response.headers["x-ratelimit-remaining"] == "0"
    assert repo.posted() == []


def test_a_status_without_a_body_has_githubs_form(repo: JudgedRepo) -> None:
    repo.forge.fault("status", path_regex=repo.full_name, status=404)

    assert repo.call("POST", f"{repo.pull}/reviews", REVIEW).status_code == 404


def test_a_body_that_is_no_json_comes_as_html(repo: JudgedRepo) -> None:
    repo.forge.fault("status", path_regex=repo.full_name, status=503, body="<h1>Unicorn</h1>")

    response = _post(repo)

    assert response.headers["content-type"].startswith("text/html")
    assert response.text == "<h1>Unicorn</h1>"


def test_a_slow_answer_comes_after_its_caller_has_left(repo: JudgedRepo) -> None:
    _fault(repo, "slow_answer", delay_ms=1_000)

    with pytest.raises(httpx.ReadTimeout):
        repo.http.post(f"{repo.pull}/reviews", json=REVIEW, timeout=0.2)

    assert repo.posted() == ["Looks right."]


def test_a_delay_precedes_the_answer(repo: JudgedRepo) -> None:
    _fault(repo, "slow_answer", delay_ms=150)

    started = time.monotonic()
    assert _post(repo).status_code == 200
    assert time.monotonic() - started >= 0.15


def test_a_fault_is_used_so_many_times_and_in_the_order_scripted(repo: JudgedRepo) -> None:
    for status, times in ((500, 2), (503, 1)):
        repo.forge.fault("status", path_regex=repo.full_name, status=status, times=times)

    assert [_post(repo).status_code for _ in range(4)] == [500, 500, 503, 200]


def test_a_fault_meets_only_the_requests_it_names(repo: JudgedRepo) -> None:
    repo.forge.fault("status", method="GET", path_regex=f"^{repo.pull}$", status=500)

    assert repo.review().status_code == 200
    assert repo.call("GET", f"{repo.pull}/reviews").status_code == 200
    assert repo.send("GET", repo.pull).status_code == 500


def test_a_stranger_uses_up_no_fault(repo: JudgedRepo) -> None:
    _fault(repo, "reset_before_store")

    assert repo.send("POST", f"{repo.pull}/reviews", REVIEW, authorization="").status_code == 401
    with pytest.raises(httpx.ReadError):
        _post(repo)


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"fault": "explode"},
        {"fault": "status"},
        {"fault": "status", "status": 99},
        {"fault": "store_then_502", "times": 0},
        {"fault": "store_then_502", "delay_ms": -1},
        {"fault": "store_then_502", "match": {"path_regex": "("}},
        {"fault": "store_then_502", "headers": {"a": 1}},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(repo: JudgedRepo, fault: object) -> None:
    assert repo.send("POST", "/_script/faults", fault or b"{}").status_code == 422


@pytest.mark.parametrize(
    "pull",
    [{"number": 0}, {"number": 1}, {"number": 1, "head_sha": "x"}, {"number": "1"}],
)
def test_a_fixture_that_makes_no_sense_is_refused(forge: ScriptedForge, pull: object) -> None:
    headers = {"authorization": f"Bearer {forge.token}"}
    response = httpx.put(
        f"{forge.url}/_script/repos/a/b", json={"pulls": [pull]}, headers=headers, trust_env=False
    )

    assert response.status_code == 422


def test_a_repository_id_stands_for_one_repository(repo: JudgedRepo) -> None:
    repo.forge.add_repo(f"{repo.full_name}-a", repo_id=186_853_002)

    with pytest.raises(ValueError, match="another repository has this id"):
        repo.forge.add_repo(f"{repo.full_name}-b", repo_id=186_853_002)


def test_faults_are_counted_down_and_can_be_cleared(forge: ScriptedForge, repo: JudgedRepo) -> None:
    before = forge.pending_faults()
    forge.fault("store_then_502", path_regex=f"{repo.full_name}/pulls/{NUMBER}", times=3)
    _post(repo)

    assert forge.pending_faults() == before + 2
    forge.clear_faults()
    assert forge.pending_faults() == 0
