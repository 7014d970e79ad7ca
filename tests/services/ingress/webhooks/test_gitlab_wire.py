"""GitLab's webhooks at the door of a real process: it must never see a refusal of what it signed.

It switches a hook off that is answered 4xx, so an authentic one that cannot be taken in is answered
200, and stands among the deliveries as refused.
"""

import gzip
import hashlib
import itertools
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.database_server import DatabaseServer
from tests.services.ingress.gitlab_merges import HOST, draft_ended, merge, note_document
from tests.services.ingress.pulls import A, B
from tests.services.ingress.webhooks.gitlab_posting import PATH, GitLab, gitlab, signature
from tests.services.ingress.webhooks.posting import LIMIT_BYTES, Change
from tests.services.ingress.webhooks.raw_posting import raw

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module", params=["token", "signature"])
def hook(request: pytest.FixtureRequest, database_server: DatabaseServer) -> Iterator[GitLab]:
    with gitlab(database_server, str(request.param)) as hook:
        yield hook


def with_number(number: int, body: bytes) -> bytes:
    document = json.loads(body)
    document["object_attributes"]["iid"] = number
    return json.dumps(document).encode()


def test_a_merge_request_becomes_work_and_its_repeat_a_duplicate(hook: GitLab) -> None:
    body = merge()
    first = hook.post(body, "d-1")
    again = hook.post(body, "d-1", x_gitlab_event_uuid="another event")
    assert (first.status_code, first.json()["outcome"]) == (202, "accepted")
    assert (again.status_code, again.json()["matched"]) == (200, "delivery-id")
    assert again.json()["intents"] == first.json()["intents"]
    [row] = hook.door.owner.execute(
        "SELECT forge, forge_instance, event, event_action, key_label FROM fencepost.deliveries"
        " WHERE delivery_id = 'd-1'"
    ).fetchall()
    assert row == ("gitlab", HOST, "merge_request", "open", f"group/sub/hello-world#7@{A}")


def test_a_draft_waits_for_the_update_that_ends_it(hook: GitLab) -> None:
    drafted = with_number(20, merge("open", draft=True))
    renamed = with_number(20, merge("update", draft=True, at=1, changes={"title": {}}))
    readied = with_number(20, draft_ended(at=2))
    answers = [hook.post(body, f"draft-{n}") for n, body in enumerate([drafted, renamed, readied])]
    assert [answer.status_code for answer in answers] == [200, 200, 202]
    assert [answer.json()["reason"] for answer in answers] == ["draft", "action-unwanted", ""]


@pytest.mark.guarantee("I8")
@pytest.mark.parametrize("event", ["Wiki Page Hook", "Job Hook", "Pipeline Hook", "New Hook"])
def test_what_is_not_wanted_is_ignored(hook: GitLab, event: str) -> None:
    body = json.dumps(note_document()).encode()
    answer = hook.post(body, event.replace(" ", "-"), x_gitlab_event=event)
    assert (answer.status_code, answer.json()["reason"]) == (200, "event-unwanted")


@pytest.mark.guarantee("I6", "I8")
def test_a_command_that_no_route_takes_is_ignored(hook: GitLab) -> None:
    body = json.dumps(note_document()).encode()
    answer = hook.post(body, "note", x_gitlab_event="Note Hook")
    assert (answer.status_code, answer.json()["reason"]) == (200, "no-route")


_numbers = itertools.count(500)


@dataclass(frozen=True)
class Odd:
    """An authentic hook that cannot be taken in."""

    where: str
    body: bytes = field(default_factory=lambda: with_number(next(_numbers), merge()))
    headers: dict[str, Change] = field(default_factory=dict)


ODD = {
    "no event": Odd("x-gitlab-event", headers={"x_gitlab_event": None}),
    "two events": Odd("x-gitlab-event", headers={"x_gitlab_event": [b"Push Hook", b"Note Hook"]}),
    "an event that is not ASCII": Odd("x-gitlab-event", headers={"x_gitlab_event": b"\xe9 Hook"}),
    "an endless event": Odd("x-gitlab-event", headers={"x_gitlab_event": "x" * 5000}),
    "compressed": Odd("content-encoding", gzip.compress(merge()), {"content_encoding": "gzip"}),
    "another media type": Odd("content_type", headers={"content_type": "text/plain"}),
    "a form without payload": Odd("payload", b"other=1", {"content_type": FORM}),
    "not JSON": Odd("body", b"not json"),
    "nothing": Odd("body", b""),
    "endless nesting": Odd("body", b'{"a":' * 9000 + b"1" + b"}" * 9000),
    "another kind of object": Odd("object_kind", json.dumps(note_document()).encode()),
    "a short commit": Odd("object_attributes.last_commit.id", merge(head_sha="abc")),
}


@pytest.mark.guarantee("I8", "X4")
@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_taken_in_is_answered_200_and_kept(hook: GitLab, name: str) -> None:
    odd, delivery_id = ODD[name], f"odd-{name.replace(' ', '-')}"
    before = hook.door.written()
    answer = hook.post(odd.body, delivery_id, **odd.headers)
    told = answer.json()
    assert (answer.status_code, told["reason"], told["field"]) == (200, "FIELD_INVALID", odd.where)
    assert hook.stored(delivery_id) == [("refused", "FIELD_INVALID", odd.body, odd.where)]
    assert hook.door.written() == before | {"deliveries": before["deliveries"] + 1}


def test_a_refused_id_may_still_be_taken_in(hook: GitLab) -> None:
    body = with_number(30, merge())
    assert hook.post(b"half of it", "mended").json()["reason"] == "FIELD_INVALID"
    assert hook.post(body, "mended").status_code == 202
    assert hook.post(b"half of it", "mended").json()["reason"] == "FIELD_INVALID"
    again = hook.post(body, "mended").json()
    assert (again["matched"], len(again["intents"])) == ("delivery-id", 1)
    outcomes = [outcome for outcome, *_ in hook.stored("mended")]
    assert outcomes == ["refused", "accepted"], "the same refusal is recorded once an hour"


@pytest.mark.guarantee("I4", "I8")
def test_a_conflict_is_answered_200_and_kept_beside_the_first(hook: GitLab) -> None:
    first, other = with_number(40, merge()), with_number(40, merge(head_sha=B))
    assert hook.post(first, "conflict").status_code == 202
    answer = hook.post(other, "conflict")
    assert (answer.status_code, answer.json()["reason"]) == (200, "DELIVERY_CONFLICT")
    assert hook.stored("conflict") == [
        ("accepted", "", first, None),
        ("refused", "DELIVERY_CONFLICT", other, ""),
    ]
    assert hook.post(first, "conflict").json()["matched"] == "delivery-id"


@pytest.mark.guarantee("I8")
def test_what_the_database_refuses_is_answered_200_and_kept(hook: GitLab) -> None:
    hook.door.owner.execute(
        "ALTER TABLE fencepost.deliveries ADD CONSTRAINT poison CHECK (number <> 666)"
    )
    body = with_number(666, merge())
    for _ in range(2):
        answer = hook.post(body, "poison")
        assert (answer.status_code, answer.json()["reason"]) == (200, "INTERNAL")
    assert hook.stored("poison") == [("refused", "INTERNAL", body, "")]


@pytest.mark.guarantee("I8", "I10")
@pytest.mark.parametrize("chunked", [False, True])
def test_one_over_the_limit_is_answered_200_and_kept_without_its_body(
    hook: GitLab, chunked: bool
) -> None:
    delivery_id, body = f"large-{chunked}", merge().ljust(3 * LIMIT_BYTES)
    pieces = [body[n : n + 10_000] for n in range(0, len(body), 10_000)]
    answer = hook.door.client.post(
        f"http://{hook.door.ingress.webhooks}{PATH}",
        content=iter(pieces) if chunked else body,
        headers=hook.headers(body, delivery_id),
    )
    assert (answer.status_code, answer.json()["reason"]) == (200, "BODY_TOO_LARGE")
    assert hook.stored(delivery_id) == [("refused", "BODY_TOO_LARGE", b"", "")]


def wrong(hook: GitLab, body: bytes) -> dict[str, Change]:
    if hook.proof == "token":
        return {"x_gitlab_token": "a guess"}
    other = dict(hook.headers(body + b" ", "unsigned"))
    return {"webhook_signature": other[b"webhook-signature"]}


@pytest.mark.guarantee("I5", "I8")
@pytest.mark.parametrize("body", [merge(), b"not json", merge().ljust(2 * LIMIT_BYTES)])
def test_what_is_not_authentic_is_answered_401_and_leaves_nothing(
    hook: GitLab, body: bytes
) -> None:
    before = hook.door.written()
    answer = hook.post(body, "unsigned", **wrong(hook, body))
    assert (answer.status_code, answer.json()["reason"]) == (401, "SIGNATURE_INVALID")
    assert hook.door.written() == before


@pytest.mark.guarantee("I5", "X4")
def test_a_wrong_token_is_refused_before_the_body_comes(tokens: GitLab) -> None:
    body = merge()
    lines = [f"POST {PATH} HTTP/1.1", "host: x", f"content-length: {len(body)}"]
    sent = tokens.headers(body, "unread", x_gitlab_token="a guess")
    lines += [f"{name.decode()}: {value.decode()}" for name, value in sent]
    answer = raw(tokens.door, "\r\n".join([*lines, "", ""]), b"", close=False)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer.lower()
    assert b'"SIGNATURE_INVALID"' in answer


@pytest.mark.guarantee("I5")
def test_the_other_proof_is_not_believed(hook: GitLab) -> None:
    other = GitLab("signature" if hook.proof == "token" else "token", hook.door)
    assert other.post(merge(), "other-proof").status_code == 401


def test_an_unknown_endpoint_is_answered_404(hook: GitLab) -> None:
    body = merge()
    answer = hook.door.post(body, hook.headers(body, "unknown"), "/webhooks/gitlab/other")
    assert answer.status_code == 404


@pytest.mark.guarantee("I8")
def test_a_body_that_stays_away_is_told_to_come_again(hook: GitLab) -> None:
    before = hook.door.written()
    body = merge()
    lines = [f"POST {PATH} HTTP/1.1", "host: x", f"content-length: {len(body) + 1}"]
    sent = hook.headers(body, "slow")
    lines += [f"{name.decode()}: {value.decode()}" for name, value in sent]
    host, port = hook.door.ingress.webhooks.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")
    assert hook.door.written() == before


@pytest.fixture(scope="module")
def tokens(database_server: DatabaseServer) -> Iterator[GitLab]:
    with gitlab(database_server, "token") as hook:
        yield hook


def test_without_an_id_the_same_body_is_the_same_delivery(tokens: GitLab) -> None:
    bodies = [with_number(number, merge()) for number in (50, 50, 51)]
    answers = [tokens.post(body, "", idempotency_key=None).json() for body in bodies]
    assert [each["outcome"] for each in answers] == ["accepted", "duplicate", "accepted"]
    assert answers[1]["matched"] == "delivery-id"
    digest = hashlib.sha256(bodies[0]).hexdigest()
    assert answers[0]["first_delivery"] == f"body-{digest}"


@pytest.mark.parametrize(
    "key", ["", "a b", "k" * 10_000, [b"k-1", b"k-2"]], ids=["empty", "blank", "endless", "two"]
)
def test_an_id_that_is_none_is_kept_as_refused(tokens: GitLab, key: Change) -> None:
    body = with_number(60, merge(at=len(str(key))))
    answer = tokens.post(body, "", idempotency_key=key)
    assert (answer.status_code, answer.json()["field"]) == (200, "idempotency-key")
    kept = "k-1" if isinstance(key, list) else f"body-{hashlib.sha256(body).hexdigest()}"
    assert tokens.stored(kept) == [("refused", "FIELD_INVALID", body, "idempotency-key")]


@pytest.fixture(scope="module")
def signatures(database_server: DatabaseServer) -> Iterator[GitLab]:
    with gitlab(database_server, "signature") as hook:
        yield hook


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(("age_s", "status"), [(250, 202), (-250, 202), (360, 401), (-360, 401)])
def test_a_signature_counts_only_near_its_time(signatures: GitLab, age_s: int, status: int) -> None:
    body = with_number(1000 + age_s, merge())
    before = signatures.door.written()
    signed = signature(body, f"aged-{age_s}", signatures.now_s() - age_s)
    assert signatures.post(body, f"aged-{age_s}", **signed).status_code == status
    assert (signatures.door.written() == before) is (status == 401)


def test_the_signed_id_counts_and_not_the_one_beside_it(signatures: GitLab) -> None:
    body = with_number(70, merge())
    answers = [
        signatures.post(body, "signed-id", idempotency_key=key).json() for key in ("k-1", "k-2")
    ]
    assert [each["first_delivery"] for each in answers] == ["signed-id", "signed-id"]
    assert answers[1]["matched"] == "delivery-id"
