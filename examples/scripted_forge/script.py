"""The side door for tests and demos: make repositories, script faults, read what was asked."""

import re
import sqlite3
from base64 import b64encode
from dataclasses import asdict

from starlette.responses import Response

from examples.scripted_forge.bodies import Fields, RefusedError
from examples.scripted_forge.front import Call, json_answer, now
from examples.scripted_forge.journal import Fault, FaultKind, Journal, LoggedRequest
from examples.scripted_forge.store import PullContent, Store

DELAY_MAX_MS = 60_000
TIMES_MAX = 1_000


class Script:
    """One handler per direction."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    def put_repo(self, call: Call) -> Response:
        """PUT /_script/repos/{owner}/{repo}: makes it, and makes or moves its pulls."""
        fields = Fields.parse(call.body)
        pulls = [_pull(pull) for pull in fields.objects("pulls")]
        owner, name = call.path["owner"], call.path["repo"]
        try:
            repo = self._store.put_repo(owner, name, repo_id=fields.number("id"), at=now())
        except sqlite3.IntegrityError as error:
            raise RefusedError(422, "another repository has this id") from error
        for pull in pulls:
            self._store.put_pull(repo, pull, at=now())
        return json_answer({"id": repo.id, "full_name": f"{repo.owner}/{repo.name}"})

    def rename_repo(self, call: Call) -> Response:
        """POST /_script/repos/{owner}/{repo}/rename: to another owner or name."""
        repo = self._store.find_repo(call.path["owner"], call.path["repo"])
        if repo is None:
            raise RefusedError(404, "Not Found")
        fields = Fields.parse(call.body)
        try:
            self._store.rename_repo(repo, fields.required("owner"), fields.required("name"))
        except sqlite3.IntegrityError as error:
            raise RefusedError(422, "another repository has this name") from error
        return json_answer({})

    def add_fault(self, call: Call) -> Response:
        """POST /_script/faults."""
        self._journal.add_fault(_fault(Fields.parse(call.body)))
        return json_answer({}, 201)

    def list_faults(self, _call: Call) -> Response:
        """GET /_script/faults: those still to come."""
        return json_answer([asdict(fault) for fault in self._journal.list_faults()])

    def clear_faults(self, _call: Call) -> Response:
        """DELETE /_script/faults."""
        self._journal.clear_faults()
        return json_answer({})

    def list_requests(self, call: Call) -> Response:
        """GET /_script/requests[?after=NUMBER]."""
        after = call.query.get("after", "0")
        if not re.fullmatch(r"\d{1,18}", after, re.ASCII):
            raise RefusedError(422, "after is no request number")
        return json_answer([_shown(one) for one in self._journal.list_requests(after=int(after))])


def _pull(fields: Fields) -> PullContent:
    number = fields.number("number")
    if number is None or number < 1:
        raise RefusedError(422, "a pull needs a number")
    return PullContent(
        number=number,
        title=fields.text("title") or f"Pull request {number}",
        state=_one_of(fields.text("state") or "open", "state", ("open", "closed")),
        author=fields.text("author") or "octocat",
        head_ref=fields.text("head_ref") or "changes",
        head_sha=_sha(fields.required("head_sha")),
        base_ref=fields.text("base_ref") or "master",
        base_sha=_sha(fields.text("base_sha") or "0" * 40),
        draft=fields.flag("draft"),
    )


def _fault(fields: Fields) -> Fault:
    kind = FaultKind(_one_of(fields.text("fault"), "fault", tuple(FaultKind)))
    match = fields.object("match")
    path_regex = match.text("path_regex") or ""
    try:
        re.compile(path_regex)
    except re.error as error:
        raise RefusedError(422, f"path_regex: {error}") from error
    return Fault(
        method=(match.text("method") or "POST").upper(),
        path_regex=path_regex,
        kind=kind,
        status=_status(kind, fields.number("status")),
        headers=fields.texts("headers"),
        body=fields.text("body"),
        delay_ms=_bounded(fields, "delay_ms", 0, 0, DELAY_MAX_MS),
        remaining=_bounded(fields, "times", 1, 1, TIMES_MAX),
    )


def _status(kind: FaultKind, status: int | None) -> int:
    if kind is not FaultKind.STATUS:
        return 502
    if status is None or not 200 <= status <= 599:
        raise RefusedError(422, "fault status needs a status from 200 to 599")
    return status


def _bounded(fields: Fields, name: str, default: int, least: int, most: int) -> int:
    value = fields.number(name)
    if value is None:
        return default
    if not least <= value <= most:
        raise RefusedError(422, f"{name} is not from {least} to {most}")
    return value


def _one_of(value: str | None, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise RefusedError(422, f"{name} is none of {', '.join(allowed)}")
    return value


def _sha(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", value):
        raise RefusedError(422, "a sha is 40 lower-case hex digits")
    return value


def _shown(logged: LoggedRequest) -> dict[str, object]:
    shown = asdict(logged)
    request = shown.pop("request")
    body_base64 = b64encode(request.pop("body")).decode()
    return {**shown, **request, "body_base64": body_base64}
