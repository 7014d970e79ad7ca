"""Bodies in the shape that GitLab documents for merge requests, notes and pushes."""

import json
from datetime import timedelta
from typing import Any

from tests.services.ingress.pulls import T0, A

HOST = "gitlab.example.org"
PROJECT_ID = 4861503
PATH = "group/sub/hello-world"
URL = f"https://{HOST}/{PATH}/-/merge_requests/7"
AT_FORMAT = "%Y-%m-%d %H:%M:%S UTC"

USER = {"id": 31, "name": "Ann Ünal", "username": "ann", "avatar_url": None}
PROJECT = {
    "id": PROJECT_ID,
    "name": "hello-world",
    "description": "",
    "web_url": f"https://{HOST}/{PATH}",
    "namespace": "sub",
    "visibility_level": 0,
    "path_with_namespace": PATH,
    "default_branch": "main",
    "ci_config_path": None,
}


def commit(sha: str) -> dict[str, Any]:
    author = {"name": "Ann Ünal", "email": f"ann@{HOST}"}
    return {"id": sha, "message": "Füge an\n", "timestamp": T0.isoformat(), "author": author}


def merge_document(
    action: str = "open",
    *,
    head_sha: str = A,
    at: int = 0,
    draft: bool = False,
    oldrev: str | None = None,
    changes: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A merge request hook, dated `at` seconds after T0, as a document to edit."""
    states = {"close": "closed", "merge": "merged"}
    attributes = {
        "id": 6632669,
        "iid": 7,
        "assignee_id": None,
        "author_id": 31,
        "title": "Draft: Füge 🎉 an" if draft else "Füge 🎉 an",
        "description": "",
        "source_branch": "feature",
        "source_project_id": PROJECT_ID,
        "target_branch": "main",
        "target_project_id": PROJECT_ID,
        "state": states.get(action, "opened"),
        "draft": draft,
        "work_in_progress": draft,
        "created_at": T0.strftime(AT_FORMAT),
        "updated_at": (T0 + timedelta(seconds=at)).strftime(AT_FORMAT),
        "url": URL,
        "source": PROJECT,
        "target": PROJECT,
        "last_commit": commit(head_sha),
        "action": action,
    }
    return {
        "object_kind": "merge_request",
        "event_type": "merge_request",
        "user": USER,
        "project": PROJECT,
        "object_attributes": attributes | ({"oldrev": oldrev} if oldrev else {}),
        "labels": [],
        "changes": changes or {},
        "repository": {"name": "hello-world", "homepage": f"https://{HOST}/{PATH}"},
    }


def merge(action: str = "open", **changes: Any) -> bytes:
    """The same as a body."""
    return json.dumps(merge_document(action, **changes), ensure_ascii=False).encode()


def draft_ended(**changes: Any) -> bytes:
    """The only sign of a draft that is ready: an update whose flag went from true to false."""
    flag = {"previous": True, "current": False}
    return merge("update", changes={"draft": flag, "title": {}}, **changes)


def note_document(text: str = "/review", action: str = "create") -> dict[str, Any]:
    """A note on the merge request, written by somebody else than the author of that."""
    document = merge_document()
    attributes = {
        "id": 1244,
        "note": text,
        "noteable_type": "MergeRequest",
        "author_id": 99,
        "project_id": PROJECT_ID,
        "noteable_id": 6632669,
        "system": False,
        "action": action,
        "url": f"{URL}#note_1244",
    }
    return {
        "object_kind": "note",
        "event_type": "note",
        "user": {**USER, "id": 99, "username": "zoe"},
        "project_id": PROJECT_ID,
        "project": PROJECT,
        "object_attributes": attributes,
        "merge_request": document["object_attributes"],
    }


def reviewer(number: int, *, again: bool = False) -> dict[str, Any]:
    """A reviewer of a merge request; `again` says that this review was asked for once more."""
    login = f"reviewer-{number}"
    state = "unreviewed" if again else "approved"
    return {"id": number, "username": login, "state": state, "re_requested": again}


def push_document(*, before: str, after: str) -> dict[str, Any]:
    """A push; where it deletes, only the zeros and a null say so."""
    gone = set(after) == {"0"}
    return {
        "object_kind": "push",
        "event_name": "push",
        "before": before,
        "after": after,
        "ref": "refs/heads/feature",
        "ref_protected": False,
        "checkout_sha": None if gone else after,
        "user_id": 31,
        "user_name": "Ann Ünal",
        "user_username": "ann",
        "project_id": PROJECT_ID,
        "project": PROJECT,
        "commits": [] if gone else [commit(after)],
        "total_commits_count": 0 if gone else 1,
    }
