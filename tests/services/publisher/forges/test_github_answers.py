"""What GitHub's answers prove, by tables: the closed list of refusals, and doubt for all else."""

import json

import pytest

from services.publisher.forges.answers import DETAIL_LIMIT_CHARACTERS, without_secret
from services.publisher.forges.github_answers import PROVING_STATUSES, judge
from services.publisher.forges.transport import Answer, NeverConnected, NoAnswer, Reply
from services.publisher.model import Refused, Succeeded, Uncertain

MARKER = "<!-- fencepost-review key=k publication=1 attempt=1 -->"
JSON = {"content-type": "application/json; charset=utf-8"}
MADE = {
    "id": 3_000_000_001,
    "node_id": "PRR_1",
    "html_url": "https://github.com/o/r/pull/2#pullrequestreview-1",
    "state": "COMMENTED",
    "commit_id": "ec26c3e57ca3a959ca5aad62de7213c562f8c821",
    "submitted_at": "2026-01-01T00:00:00Z",
    "body": f"{MARKER}\n\nhello",
    "user": {"id": 7, "login": "fencepost[bot]"},
}
ERROR = {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"}
ALL_OTHER_STATUSES = [s for s in range(202, 600) if s not in PROVING_STATUSES]


def answer(status: int, content: object, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {**JSON, **named}, json.dumps(content).encode())


def judged(reply: Reply) -> Succeeded | Refused | Uncertain:
    return judge(reply, evidence=MARKER, strict_uncertain=False)


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize("status", [200, 201])
def test_a_success_is_the_object_we_made(status: int) -> None:
    outcome = judged(answer(status, MADE))
    assert isinstance(outcome, Succeeded)
    assert outcome.remote_id == "3000000001"
    assert outcome.remote_url == MADE["html_url"]
    kept = json.loads(outcome.result)
    assert (kept["author_id"], kept["author_login"]) == (7, "fencepost[bot]")
    assert "body" not in kept


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize(
    "reply",
    [
        Answer(200, JSON, b""),
        Answer(200, JSON, b'{"id": 1'),
        Answer(200, JSON, b"[" * 100_000),
        Answer(200, {"content-type": "text/html"}, json.dumps(MADE).encode()),
        Answer(200, {}, json.dumps(MADE).encode()),
        answer(200, [MADE]),
        answer(200, {}),
        *(answer(200, {**MADE, "id": wrong}) for wrong in (None, "1", 0, -1, 1.5, 2**63)),
        *(answer(201, {**MADE, "html_url": wrong}) for wrong in (None, "", "javascript:1", 1)),
        *(answer(201, {**MADE, "body": wrong}) for wrong in (None, "", "hello", [MARKER])),
    ],
    ids=repr,
)
def test_a_success_that_shows_nothing_of_ours_is_doubt(reply: Reply) -> None:
    assert isinstance(judged(reply), Uncertain)


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize("status", sorted(PROVING_STATUSES))
def test_a_refusal_in_githubs_form_is_proof(status: int) -> None:
    outcome = judged(answer(status, {**ERROR, "errors": ["Body cannot be blank"]}))
    assert isinstance(outcome, Refused)
    assert outcome.detail == f'status {status}: Not Found ["Body cannot be blank"]'


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize("status", sorted(PROVING_STATUSES))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>404</html>",
        b'"Not Found"',
        b'{"message": "Forbidden"}',
        b'{"message": "", "documentation_url": "https://docs.github.com"}',
        b'{"message": "Not Found", "documentation_url": null}',
    ],
)
def test_a_refusal_in_any_other_form_is_doubt(status: int, body: bytes) -> None:
    assert isinstance(judged(Answer(status, JSON, body)), Uncertain)


@pytest.mark.guarantee("P4")
def test_a_page_of_a_proxy_is_doubt() -> None:
    html = {"content-type": "text/html"}
    assert isinstance(judged(Answer(404, html, json.dumps(ERROR).encode())), Uncertain)


@pytest.mark.guarantee("P4")
def test_every_other_status_is_doubt_even_in_githubs_form() -> None:
    for status in ALL_OTHER_STATUSES:
        assert isinstance(judged(answer(status, ERROR)), Uncertain)
        assert isinstance(judged(answer(status, MADE)), Uncertain)


@pytest.mark.guarantee("P4")
def test_rate_limits_are_refusals_that_say_when() -> None:
    secondary = judged(answer(403, {**ERROR, "message": "secondary rate limit"}, retry_after="60"))
    assert secondary == Refused("status 403: secondary rate limit (rate limited, retry after 60 s)")
    primary = judged(answer(429, ERROR, x_ratelimit_remaining="0", x_ratelimit_reset="1767225600"))
    assert primary == Refused("status 429: Not Found (rate limited until 1767225600)")


@pytest.mark.guarantee("P4")
def test_only_a_connection_never_made_proves_anything_by_silence() -> None:
    assert judged(NeverConnected("ConnectError")) == Refused("never connected: ConnectError")
    assert judged(NoAnswer("ReadTimeout")) == Uncertain("no answer: ReadTimeout")


@pytest.mark.guarantee("P4")
@pytest.mark.parametrize(
    "reply", [NeverConnected("ConnectError"), answer(404, ERROR), answer(429, ERROR)], ids=repr
)
def test_the_strict_setting_trusts_no_refusal(reply: Reply) -> None:
    outcome = judge(reply, evidence=MARKER, strict_uncertain=True)
    refused = judged(reply)
    assert isinstance(refused, Refused)
    assert outcome == Uncertain(refused.detail)
    assert isinstance(judge(answer(200, MADE), evidence=MARKER, strict_uncertain=True), Succeeded)


def test_details_are_short_and_printable() -> None:
    outcome = judged(answer(422, {**ERROR, "message": "a\x1b[31m\n\0" + "b" * 10_000}))
    assert isinstance(outcome, Refused)
    assert outcome.detail.startswith("status 422: a [31m  bbb")
    assert len(outcome.detail) == DETAIL_LIMIT_CHARACTERS


def test_a_forge_that_echoes_the_credential_shows_it_to_nobody() -> None:
    secret = "ghs_" + "s" * 36
    message = "x" * (DETAIL_LIMIT_CHARACTERS - 20) + secret
    echoed = answer(401, {**ERROR, "message": message}, retry_after=secret)
    for reply in (echoed, NoAnswer(f"ReadError: {secret}"), NeverConnected(secret)):
        clean = without_secret(reply, secret)
        assert "ghs" not in repr(clean)
        assert type(judged(clean)) is type(judged(reply))
