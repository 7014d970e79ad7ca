"""GitLab's REST API, as far as the suite uses it: the head of a merge request."""

from starlette.responses import Response

from examples.scripted_forge.bodies import RefusedError
from examples.scripted_forge.front import Call, json_answer
from examples.scripted_forge.lookup import NOT_FOUND, pull_of, repo_by_id
from examples.scripted_forge.store import Pull, Repo, Store

STATES = {"open": "opened", "closed": "closed"}


def form(refusal: RefusedError) -> dict[str, object]:
    """The body of a refusal."""
    return {"message": f"{refusal.status} {refusal.message}"}


class GitLab:
    """One handler per operation."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_merge_request(self, call: Call) -> Response:
        """GET /api/v4/projects/{id}/merge_requests/{number}."""
        repo = repo_by_id(self._store, call)
        pull = pull_of(self._store, repo, call)
        return json_answer(_merge_request(call.base_url, repo, pull))

    def not_found(self, _call: Call) -> Response:
        """Anything else below /api/v4: what is no resource at all is answered in another form."""
        return json_answer({"error": f"404 {NOT_FOUND}"}, 404)


def _merge_request(base_url: str, repo: Repo, pull: Pull) -> dict[str, object]:
    content, full_name = pull.content, f"{repo.owner}/{repo.name}"
    return {
        "id": repo.id * 1_000 + content.number,
        "iid": content.number,
        "project_id": repo.id,
        "title": content.title,
        "description": None,
        "state": STATES[content.state],
        "created_at": pull.created_at,
        "updated_at": pull.updated_at,
        "closed_at": pull.updated_at if content.state == "closed" else None,
        "target_branch": content.base_ref,
        "source_branch": content.head_ref,
        "source_project_id": repo.id,
        "target_project_id": repo.id,
        "author": {"id": 1, "username": content.author, "name": content.author},
        "draft": content.draft,
        "work_in_progress": content.draft,
        "sha": content.head_sha,
        "merge_commit_sha": None,
        "references": {
            "short": f"!{content.number}",
            "relative": f"!{content.number}",
            "full": f"{full_name}!{content.number}",
        },
        "web_url": f"{base_url}/{full_name}/-/merge_requests/{content.number}",
    }
