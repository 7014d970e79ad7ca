"""Starts, directs and questions a scripted forge, for tests and demos."""

import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx

from examples.child_process import ChildProcess

FaultName = Literal[
    "store_then_502", "store_then_reset", "reset_before_store", "status", "slow_answer"
]


@dataclass(frozen=True, kw_only=True)
class PullFixture:
    """A pull request to make, or to move: another head_sha is a push."""

    number: int
    head_sha: str
    base_sha: str = "0" * 40
    title: str = "A change"
    state: Literal["open", "closed"] = "open"
    author: str = "octocat"
    head_ref: str = "changes"
    base_ref: str = "master"
    draft: bool = False


@dataclass(frozen=True)
class PostedReview:
    """A review as the forge's own API lists it."""

    id: int
    author: str
    state: str
    body: str
    commit_id: str
    html_url: str


@dataclass(frozen=True)
class PostedComment:
    """An issue comment as the forge's own API lists it."""

    id: int
    author: str
    body: str
    html_url: str


@dataclass(frozen=True)
class LoggedRequest:
    """A request as it reached the forge; answered_status is None where no answer was sent."""

    number: int
    received_at: str
    method: str
    raw_path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    answered_status: int | None
    fault: str | None


class ScriptedForge:
    """One forge, running elsewhere or as a child of this process; also a context manager."""

    def __init__(self, url: str, token: str, process: ChildProcess | None = None) -> None:
        self.url = url
        self.token = token
        self._process = process
        self._http = httpx.Client(
            base_url=url,
            timeout=30.0,
            trust_env=False,
            headers={
                "authorization": f"Bearer {token}",
                "accept": "application/vnd.github+json",
                "user-agent": "scripted-forge-client",
            },
        )

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        token: str | None = None,
        address: str = "127.0.0.1:0",
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a forge on this folder; the same folder and token find the same state again."""
        token = token or secrets.token_urlsafe(24)
        process = ChildProcess(
            "examples.scripted_forge",
            ["--data", str(folder.resolve()), "--address", address],
            {"FORGE_TOKEN": token, **(environment or {})},
        )
        return cls(process.ready_line.rpartition(" ")[2], token, process)

    def stop(self) -> int:
        """Ends the child with SIGTERM; returns its exit status, 0 where it was not ours."""
        self._http.close()
        return self._process.stop() if self._process else 0

    def kill(self) -> None:
        """Ends the child as a crash would."""
        self._http.close()
        if self._process:
            self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_repo(self, full_name: str, *pulls: PullFixture, repo_id: int | None = None) -> None:
        """Makes owner/repo, and makes or moves its pull requests."""
        content = {"id": repo_id, "pulls": [asdict(pull) for pull in pulls]}
        self._ok(self._http.put(f"/_script/repos/{full_name}", json=content))

    def rename_repo(self, full_name: str, new_full_name: str) -> None:
        """Gives a repository another name; its id stays."""
        owner, _, name = new_full_name.partition("/")
        renamed = {"owner": owner, "name": name}
        self._ok(self._http.post(f"/_script/repos/{full_name}/rename", json=renamed))

    def fault(
        self,
        kind: FaultName,
        *,
        method: str = "POST",
        path_regex: str = "",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        delay_ms: int = 0,
        times: int = 1,
    ) -> None:
        """Scripts what happens to the next matching requests (regex over path and query)."""
        content = {
            "match": {"method": method, "path_regex": path_regex},
            "fault": kind,
            "status": status,
            "headers": dict(headers or {}),
            "body": body,
            "delay_ms": delay_ms,
            "times": times,
        }
        self._ok(self._http.post("/_script/faults", json=content))

    def pending_faults(self) -> int:
        """How many scripted faults are still to come."""
        faults = self._ok(self._http.get("/_script/faults")).json()
        return sum(int(fault["remaining"]) for fault in faults)

    def clear_faults(self) -> None:
        """Forgets every scripted fault."""
        self._ok(self._http.delete("/_script/faults"))

    def requests(self, *, after: int = 0, method: str | None = None) -> list[LoggedRequest]:
        """What reached the forge after this number, this client's own readings included."""
        logged = self._ok(self._http.get("/_script/requests", params={"after": after})).json()
        return [_logged(one) for one in logged if method in (None, one["method"])]

    def reviews(self, full_name: str, number: int) -> list[PostedReview]:
        """Every review of a pull request, read page by page from the forge's own API."""
        return [
            PostedReview(
                review["id"],
                review["user"]["login"],
                *(review[name] for name in ("state", "body", "commit_id", "html_url")),
            )
            for review in self._listed(f"/repos/{full_name}/pulls/{number}/reviews")
        ]

    def comments(self, full_name: str, number: int) -> list[PostedComment]:
        """Every comment of a pull request, read page by page from the forge's own API."""
        return [
            PostedComment(one["id"], one["user"]["login"], one["body"], one["html_url"])
            for one in self._listed(f"/repos/{full_name}/issues/{number}/comments")
        ]

    def _listed(self, path: str) -> Sequence[Any]:
        found: list[Any] = []
        target: str | None = f"{path}?per_page=100"
        while target:
            response = self._ok(self._http.get(target))
            found += response.json()
            target = response.links.get("next", {}).get("url")
        return found

    @staticmethod
    def _ok(response: httpx.Response) -> httpx.Response:
        if not response.is_success:
            raise ValueError(f"the forge answered {response.status_code}: {response.text}")
        return response


def _logged(shown: dict[str, Any]) -> LoggedRequest:
    return LoggedRequest(
        number=shown["number"],
        received_at=shown["received_at"],
        method=shown["method"],
        raw_path=shown["raw_path"],
        headers=tuple((name, value) for name, value in shown["headers"]),
        body=b64decode(shown["body_base64"]),
        answered_status=shown["answered_status"],
        fault=shown["fault"],
    )
