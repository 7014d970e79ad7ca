"""Bodies in the shape that Gitea and Forgejo document for pull requests."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from services.ingress.endpoints.model import Endpoint, ForgeKind
from tests.services.ingress.pulls import ENDPOINT, T0, A

REPO_ID = 61
OWNER_ID = REPO_ID + 100
HOST = "git.example.org"
URL = f"https://{HOST}/gadgets/hello-world/pulls/4"


def endpoint(kind: str) -> Endpoint:
    """An endpoint for Gitea or Forgejo, by the name of its kind."""
    return replace(ENDPOINT, name=kind, forge=ForgeKind(kind), forge_instance=HOST)


def _user(number: int, login: str) -> dict[str, Any]:
    email = f"{login}@noreply.{HOST}"
    return {"id": number, "login": login, "username": login, "full_name": "", "email": email}


def _repository(number: int, owner: str) -> dict[str, Any]:
    return {
        "id": number,
        "owner": _user(number + 100, owner),
        "name": "hello-world",
        "full_name": f"{owner}/hello-world",
        "private": False,
        "fork": False,
        "html_url": f"https://{HOST}/{owner}/hello-world",
        "default_branch": "main",
    }


def gitea_document(
    action: str = "opened", *, head_sha: str = A, at: int = 0, title: str = "Größer 🎉"
) -> dict[str, Any]:
    """A pull_request event, dated `at` seconds after T0, as a document to edit."""
    repository = _repository(REPO_ID, "gadgets")
    branch = {"label": "patch-1", "ref": "patch-1", "sha": head_sha, "repo_id": REPO_ID}
    base = {"label": "main", "ref": "main", "sha": "9" * 40, "repo_id": REPO_ID}
    return {
        "action": action,
        "number": 4,
        "pull_request": {
            "id": 1104,
            "number": 4,
            "url": URL,
            "html_url": URL,
            "user": _user(1, "ann"),
            "title": title,
            "body": "",
            "labels": [],
            "milestone": None,
            "assignee": None,
            "requested_reviewers": None,
            "state": "closed" if action == "closed" else "open",
            "draft": False,
            "is_locked": False,
            "mergeable": True,
            "merged": False,
            "merged_at": None,
            "merge_commit_sha": None,
            "head": {**branch, "repo": repository},
            "base": {**base, "repo": repository},
            "merge_base": "9" * 40,
            "created_at": T0.isoformat().replace("+00:00", "Z"),
            "updated_at": (T0 + timedelta(seconds=at)).isoformat().replace("+00:00", "Z"),
        },
        "requested_reviewer": None,
        "repository": repository,
        "sender": _user(2, "ben"),
        "commit_id": "",
        "review": None,
    }


def gitea_comment(
    text: str = "/review", action: str = "created", *, author_id: int = 2
) -> dict[str, Any]:
    """An issue_comment event on the pull request of a private repository."""
    repository = {**_repository(REPO_ID, "gadgets"), "private": True}
    author = _user(author_id, "ben")
    issue = {
        "id": 1104,
        "number": 4,
        "html_url": URL,
        "user": _user(1, "ann"),
        "title": "Größer 🎉",
        "state": "open",
        "pull_request": {"merged": False, "merged_at": None},
    }
    comment = {
        "id": 88,
        "html_url": f"{URL}#issuecomment-88",
        "pull_request_url": URL,
        "issue_url": "",
        "user": author,
        "body": text,
        "created_at": T0.isoformat(),
        "updated_at": T0.isoformat(),
    }
    return {
        "action": action,
        "issue": issue,
        "comment": comment,
        "repository": repository,
        "sender": dict(author),
        "is_pull": True,
    }


def gitea_pull(action: str = "opened", **changes: Any) -> bytes:
    """The same as a body."""
    return json.dumps(gitea_document(action, **changes), ensure_ascii=False).encode()
