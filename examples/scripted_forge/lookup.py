"""Finds what a path speaks of; what is not there is refused."""

import re

from examples.scripted_forge.bodies import RefusedError
from examples.scripted_forge.front import Call
from examples.scripted_forge.store import Pull, Repo, Store

NOT_FOUND = "Not Found"


def pull_by_name(store: Store, call: Call) -> tuple[Repo, Pull]:
    """The pull request of .../{owner}/{repo}/.../{number}."""
    repo = repo_by_name(store, call)
    return repo, pull_of(store, repo, call)


def repo_by_name(store: Store, call: Call) -> Repo:
    """The repository of .../{owner}/{repo}."""
    repo = store.find_repo(call.path["owner"], call.path["repo"])
    if repo is None:
        raise RefusedError(404, NOT_FOUND)
    return repo


def repo_by_id(store: Store, call: Call) -> Repo:
    """The repository of .../{id}."""
    repo_id = _number(call.path["id"])
    repo = None if repo_id is None else store.find_repo_by_id(repo_id)
    if repo is None:
        raise RefusedError(404, NOT_FOUND)
    return repo


def pull_of(store: Store, repo: Repo, call: Call) -> Pull:
    """The pull request of .../{number} in this repository."""
    number = _number(call.path["number"])
    pull = None if number is None else store.find_pull(repo, number)
    if pull is None:
        raise RefusedError(404, NOT_FOUND)
    return pull


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9]\d{0,17}", text, re.ASCII) else None
