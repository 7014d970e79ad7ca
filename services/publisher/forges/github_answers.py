"""What GitHub's answers prove (P4).

Proofs that nothing happened, the whole list:
- no connection was made, so no byte left;
- status 400, 401, 403, 404, 410, 413, 422 or 429 in GitHub's own error form: a JSON object with a
  message and a documentation_url. Rate limits are 403 and 429 in that form.

A success is 200 or 201 with the object we made, our marker in its body. Everything else is doubt:
an HTML page of a proxy, a redirect, 408, 409, 5xx, a broken or missing answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from services.publisher.forges.answers import json_object, shown
from services.publisher.forges.transport import Answer, NeverConnected, NoAnswer, Reply
from services.publisher.model import Outcome, Refused, Succeeded, Uncertain

PROVING_STATUSES = frozenset({400, 401, 403, 404, 410, 413, 422, 429})
SUCCESS_STATUSES = frozenset({200, 201})
LARGEST_ID = 2**63 - 1
KEPT_FIELDS = ("id", "node_id", "html_url", "state", "commit_id", "submitted_at")


def judge(reply: Reply, *, evidence: str, strict_uncertain: bool) -> Outcome:
    """What this reply to a request that carried the evidence proves.

    With `strict_uncertain` no proof of the list counts: what is not a success is doubt.
    """
    outcome = _judged(reply, evidence)
    if strict_uncertain and isinstance(outcome, Refused):
        return Uncertain(outcome.detail)
    return outcome


def _judged(reply: Reply, evidence: str) -> Outcome:
    match reply:
        case NeverConnected(why=why):
            return Refused(shown(f"never connected: {why}"))
        case NoAnswer(why=why):
            return Uncertain(shown(f"no answer: {why}"))
        case Answer(status=status) if status in SUCCESS_STATUSES:
            return _success(reply, evidence)
        case Answer(status=status):
            refusal = _Refusal.read(reply)
            if refusal is None:
                return Uncertain(f"status {status} without GitHub's error form")
            detail = shown(f"status {status}: {refusal}")
            return Refused(detail) if status in PROVING_STATUSES else Uncertain(detail)


def _success(answer: Answer, evidence: str) -> Outcome:
    made = json_object(answer)
    if made is None:
        return Uncertain(f"status {answer.status} without a JSON object")
    remote_id, remote_url, body = made.get("id"), made.get("html_url"), made.get("body")
    if not isinstance(remote_id, int) or not 0 < remote_id <= LARGEST_ID:
        return Uncertain(f"status {answer.status} without the id of what was made")
    if not isinstance(remote_url, str) or urlsplit(remote_url).scheme not in ("http", "https"):
        return Uncertain(f"status {answer.status} without the URL of what was made")
    if not isinstance(body, str) or evidence not in body:
        return Uncertain(f"status {answer.status} for something that is not ours")
    return Succeeded(remote_id=str(remote_id), remote_url=remote_url, result=_result(made))


def _result(made: Mapping[str, object]) -> bytes:
    """What is kept of the forge's answer; the author tells our objects from copies."""
    user = made.get("user")
    author = user if isinstance(user, dict) else {}
    kept = {name: made.get(name) for name in KEPT_FIELDS}
    named = {**kept, "author_id": author.get("id"), "author_login": author.get("login")}
    return json.dumps(named).encode()


@dataclass(frozen=True)
class _Refusal:
    """GitHub's own error form, in words."""

    message: str
    errors: str
    rate_limit: str

    @classmethod
    def read(cls, answer: Answer) -> "_Refusal | None":
        """None: the answer does not have the form, so it may be anybody's."""
        form = json_object(answer) or {}
        message, documentation = form.get("message"), form.get("documentation_url")
        if not isinstance(message, str) or not isinstance(documentation, str):
            return None
        if not message or not documentation:
            return None
        errors = json.dumps(form["errors"]) if "errors" in form else ""
        return cls(message, errors, _rate_limit(answer.headers))

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.errors, self.rate_limit) if part)


def _rate_limit(headers: Mapping[str, str]) -> str:
    if "retry-after" in headers:
        return f"(rate limited, retry after {headers['retry-after']} s)"
    if headers.get("x-ratelimit-remaining") == "0":
        return f"(rate limited until {headers.get('x-ratelimit-reset', 'an unknown time')})"
    return ""
