"""Calls one repository of a scripted forge; GitHub's own description judges call and answer."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from examples.scripted_forge.client import LoggedRequest, PullFixture, ScriptedForge
from tests.published.github.validator import validate_request, validate_response

HEAD = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
BASE = "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"
NUMBER = 2

_repo_numbers = itertools.count(1)


@dataclass(frozen=True)
class JudgedRepo:
    """A repository with one pull request."""

    forge: ScriptedForge
    full_name: str
    http: httpx.Client

    @property
    def pull(self) -> str:
        """The path of its pull request."""
        return f"/repos/{self.full_name}/pulls/{NUMBER}"

    @property
    def comments(self) -> str:
        """The path of its pull request's comments."""
        return f"/repos/{self.full_name}/issues/{NUMBER}/comments"

    def call(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """Sends this, as JSON unless it is bytes, and returns the judged answer."""
        response = self.send(method, path, body, **headers)
        answer = list(response.headers.items())
        assert validate_response(method, path, response.status_code, answer, response.content) == []
        return response

    def send(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """The same without judging, for answers scripted to be wrong."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        typed = {"content-type": "application/json", **headers}
        return self.http.request(method, path, content=content if body else b"", headers=typed)

    def review(self, body: str = "Looks right.", event: str = "COMMENT") -> httpx.Response:
        """Posts a plain review for the head."""
        fields = {"body": body, "event": event, "commit_id": HEAD}
        return self.call("POST", f"{self.pull}/reviews", fields)

    def posted(self) -> list[str]:
        """The texts of its reviews, as the forge lists them."""
        return [review.body for review in self.forge.reviews(self.full_name, NUMBER)]

    def logged(self, method: str | None = None) -> list[LoggedRequest]:
        """What the forge logged for this repository."""
        start = f"/repos/{self.full_name}/"
        return [one for one in self.forge.requests(method=method) if one.raw_path.startswith(start)]

    def misdescribed(self) -> list[str]:
        """What GitHub's description finds wrong in the requests logged for this repository."""
        return [
            violation
            for one in self.logged()
            for violation in validate_request(one.method, one.raw_path, one.headers, one.body)
        ]


@contextmanager
def judged_repo(forge: ScriptedForge) -> Iterator[JudgedRepo]:
    """A fresh repository on this forge."""
    full_name = f"Codertocat/Hello-World-{next(_repo_numbers)}"
    forge.add_repo(full_name, PullFixture(number=NUMBER, head_sha=HEAD, base_sha=BASE))
    headers = {"authorization": f"Bearer {forge.token}", "user-agent": "tests"}
    with httpx.Client(base_url=forge.url, headers=headers, trust_env=False) as http:
        yield JudgedRepo(forge, full_name, http)
