"""The REST API of Gitea and Forgejo, as far as the suite uses it: the head of a pull request."""

from starlette.responses import Response

from examples.scripted_forge.bodies import RefusedError
from examples.scripted_forge.front import Call, json_answer
from examples.scripted_forge.lookup import NOT_FOUND, pull_by_name, repo_by_id
from examples.scripted_forge.store import Pull, Repo, Store

DOCUMENTATION_URL = "/api/swagger"

Json = dict[str, object]


def form(refusal: RefusedError) -> Json:
    """The body of a refusal."""
    return {"errors": [], "message": refusal.message, "url": DOCUMENTATION_URL}


class Gitea:
    """One handler per operation."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_repo(self, call: Call) -> Response:
        """GET /api/v1/repositories/{id}."""
        return json_answer(_repository(call.base_url, repo_by_id(self._store, call)))

    def get_pull(self, call: Call) -> Response:
        """GET /api/v1/repos/{owner}/{repo}/pulls/{number}."""
        repo, pull = pull_by_name(self._store, call)
        return json_answer(_pull(call.base_url, repo, pull))

    def not_found(self, _call: Call) -> Response:
        """Anything else below /api/v1."""
        raise RefusedError(404, NOT_FOUND)


def _repository(base_url: str, repo: Repo) -> Json:
    full_name = f"{repo.owner}/{repo.name}"
    return {
        "id": repo.id,
        "owner": {"id": 1, "login": repo.owner},
        "name": repo.name,
        "full_name": full_name,
        "private": False,
        "fork": False,
        "archived": False,
        "default_branch": "master",
        "html_url": f"{base_url}/{full_name}",
        "created_at": repo.created_at,
        "updated_at": repo.created_at,
    }


def _pull(base_url: str, repo: Repo, pull: Pull) -> Json:
    content, shown = pull.content, _repository(base_url, repo)
    page = f"{base_url}/{repo.owner}/{repo.name}/pulls/{content.number}"
    return {
        "id": repo.id * 1_000 + content.number,
        "url": page,
        "html_url": page,
        "number": content.number,
        "user": {"id": 1, "login": content.author},
        "title": content.title,
        "body": "",
        "labels": [],
        "state": content.state,
        "draft": content.draft,
        "is_locked": False,
        "comments": pull.comments,
        "mergeable": True,
        "merged": False,
        "base": _branch(content.base_ref, content.base_sha, shown),
        "head": _branch(content.head_ref, content.head_sha, shown),
        "merge_base": content.base_sha,
        "created_at": pull.created_at,
        "updated_at": pull.updated_at,
        "closed_at": pull.updated_at if content.state == "closed" else None,
    }


def _branch(ref: str, sha: str, repository: Json) -> Json:
    return {
        "label": ref,
        "ref": ref,
        "sha": sha,
        "repo_id": repository["id"],
        "repo": repository,
    }
