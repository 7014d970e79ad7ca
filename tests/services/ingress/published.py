"""Payloads that GitHub's events are published with, to be edited as a test needs them."""

import copy
import json
from functools import cache
from typing import Any

from tools.docs.github_events import examples

REPO_ID = 186853002
CODERTOCAT = 21031067


@cache
def _documents(event: str, action: str) -> list[dict[str, Any]]:
    found = [json.loads(each.body) for each in examples() if each.event == event]
    return [each for each in found if (each.get("action") or "") == action]


def published(event: str, action: str, turn: int = 0) -> dict[str, Any]:
    """One of the payloads of an event with an action, for the test alone."""
    return copy.deepcopy(_documents(event, action)[turn])


def put(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The document, one of its fields set."""
    *parents, name = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    return document


def comment_document(
    text: str = "/review", action: str = "created", **changes: Any
) -> dict[str, Any]:
    """A comment on a pull request: the published ones are all on issues that are none."""
    document = published("issue_comment", action)
    document["issue"]["pull_request"] = {"url": document["issue"]["url"]}
    document["comment"] |= {"body": text, **changes}
    return document


def check_document(event: str, action: str, pulls: list[int], turn: int = 0) -> dict[str, Any]:
    """A check of this repository with so many pull requests."""
    document = published(event, action, turn)
    base = {"ref": "main", "repo": {"id": document["repository"]["id"]}}
    document[event]["pull_requests"] = [
        {"id": number + 1000, "number": number, "base": base} for number in pulls
    ]
    return document


def group_document(
    action: str, named: str, head_sha: str, *, repo_id: int = REPO_ID
) -> dict[str, Any]:
    """A merge group of this repository whose branch names pull requests, as "pr-7-pr-8"."""
    document = published("merge_group", "checks_requested")
    document["action"] = action
    document["repository"]["id"] = repo_id
    head_ref = f"refs/heads/gh-readonly-queue/main/{named}-{'a' * 40}"
    document["merge_group"] |= {"head_ref": head_ref, "head_sha": head_sha}
    return document
