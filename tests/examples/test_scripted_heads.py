"""Each forge that is played tells a head in its own words, and refuses in its own form."""

import httpx
import pytest

from examples.scripted_forge.client import PullFixture, ScriptedForge
from tests.examples.judged import HEAD, NUMBER, JudgedRepo


def repo_id_of(repo: JudgedRepo) -> int:
    pull = repo.call("GET", repo.pull).json()
    return int(pull["base"]["repo"]["id"])


def get(repo: JudgedRepo, path: str) -> httpx.Response:
    return repo.send("GET", path)


@pytest.mark.parametrize("path", ["/repositories", "/api/v1/repositories"])
def test_a_repository_is_found_by_its_id_whatever_it_is_called(repo: JudgedRepo, path: str) -> None:
    repo_id = repo_id_of(repo)
    assert get(repo, f"{path}/{repo_id}").json()["full_name"] == repo.full_name
    repo.forge.rename_repo(repo.full_name, f"Renamed/Repo-{repo_id}")
    renamed = get(repo, f"{path}/{repo_id}").json()
    assert (renamed["id"], renamed["full_name"]) == (repo_id, f"Renamed/Repo-{repo_id}")


def test_gitlab_tells_a_merge_request(repo: JudgedRepo) -> None:
    repo_id = repo_id_of(repo)
    merge = get(repo, f"/api/v4/projects/{repo_id}/merge_requests/{NUMBER}").json()
    assert (merge["project_id"], merge["iid"], merge["sha"]) == (repo_id, NUMBER, HEAD)
    assert (merge["state"], merge["draft"]) == ("opened", False)
    assert merge["references"]["full"] == f"{repo.full_name}!{NUMBER}"


def test_gitea_and_forgejo_tell_a_pull_request(repo: JudgedRepo) -> None:
    pull = get(repo, f"/api/v1/repos/{repo.full_name}/pulls/{NUMBER}").json()
    assert (pull["number"], pull["head"]["sha"], pull["state"]) == (NUMBER, HEAD, "open")
    assert pull["base"]["repo"]["id"] == repo_id_of(repo)


def test_a_draft_is_one_in_every_language(repo: JudgedRepo) -> None:
    repo_id = repo_id_of(repo)
    repo.forge.add_repo(repo.full_name, PullFixture(number=NUMBER, head_sha=HEAD, draft=True))
    for path in (
        repo.pull,
        f"/api/v1{repo.pull}",
        f"/api/v4/projects/{repo_id}/merge_requests/{NUMBER}",
    ):
        assert get(repo, path).json()["draft"] is True


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/repositories/999999", {"message", "documentation_url", "status"}),
        ("/api/v1/repositories/999999", {"message", "url", "errors"}),
        ("/api/v1/repositories/none", {"message", "url", "errors"}),
        ("/api/v1/nothing", {"message", "url", "errors"}),
        ("/api/v4/projects/999999/merge_requests/1", {"message"}),
        ("/api/v4/nothing", {"error"}),
    ],
)
def test_what_is_not_there_is_denied_in_the_forges_own_form(
    repo: JudgedRepo, path: str, form: set[str]
) -> None:
    answer = get(repo, path)
    assert (answer.status_code, set(answer.json())) == (404, form)


@pytest.mark.parametrize("path", ["/repositories/1", "/api/v1/repositories/1", "/api/v4/x"])
def test_a_fault_can_be_scripted_for_any_read(
    repo: JudgedRepo, forge: ScriptedForge, path: str
) -> None:
    forge.fault("status", method="GET", path_regex=path, status=503)
    assert get(repo, path).status_code == 503


@pytest.mark.parametrize(
    ("name", "status"), [("o/taken", 422), ("o/never-made", 404), ("o/free", 200)]
)
def test_only_what_is_there_is_renamed_to_what_is_free(
    forge: ScriptedForge, name: str, status: int
) -> None:
    forge.add_repo("o/taken")
    forge.add_repo("o/old")
    old = "o/never-made" if status == 404 else "o/old"
    url = f"{forge.url}/_script/repos/{old}/rename"
    body = {"owner": "o", "name": name.partition("/")[2]}
    headers = {"authorization": f"Bearer {forge.token}"}
    assert httpx.post(url, json=body, headers=headers, trust_env=False).status_code == status
