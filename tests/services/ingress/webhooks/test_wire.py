"""The HTTP door of a real process: what each input is answered, and what it leaves behind (X4)."""

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote_plus

import pytest

from services.ingress.settings import IngressSettings
from tests.database_server import DatabaseServer
from tests.services.ingress.pulls import HEAD, SECRET, TENANT, pull, real
from tests.services.ingress.webhooks.posting import LIMIT_BYTES, PATH, Change, Door, opened, signed
from tests.services.ingress.webhooks.raw_posting import head_of, raw
from tests.signing import github_signature
from tests.waiting import until_sync

OPENED = pull()


@pytest.fixture(scope="module")
def door(database_server: DatabaseServer) -> Iterator[Door]:
    with opened(database_server) as door:
        yield door


@dataclass(frozen=True)
class Bad:
    """An input that must be refused."""

    status: int
    reason: str
    where: str = ""
    body: bytes = pull()
    headers: dict[str, Change] = field(default_factory=dict)
    path: str = PATH


_numbers = itertools.count(9000)

DELIVERY, EVENT, SIGNATURE = "x-github-delivery", "x-github-event", "x-hub-signature-256"
FORM = "application/x-www-form-urlencoded"


def unsigned(signature: Change) -> Bad:
    return Bad(401, "SIGNATURE_INVALID", headers={"x_hub_signature_256": signature})


def malformed(where: str, body: bytes | None = None, **headers: Change) -> Bad:
    """With a body of its own, unless one is given: the same one is recorded but once."""
    own = pull(number=next(_numbers)) if body is None else body
    return Bad(400, "FIELD_INVALID", where, body=own, headers=headers)


BAD = {
    "no signature": unsigned(None),
    "empty signature": unsigned(""),
    "signature of another secret": unsigned(github_signature(b"guess", OPENED)),
    "signature of another body": unsigned(github_signature(SECRET.encode(), OPENED + b" ")),
    "signature that is not ASCII": unsigned("sha256=é".encode("latin-1") + b"\xff" * 63),
    "sha1 alone": Bad(
        401,
        "SIGNATURE_INVALID",
        headers={"x_hub_signature_256": None, "x_hub_signature": "sha1=" + "0" * 40},
    ),
    "two signatures": unsigned(
        [github_signature(SECRET.encode(), OPENED).encode(), b"sha256=" + b"0" * 64]
    ),
    "unknown endpoint": Bad(404, "RESOURCE_NOT_FOUND", path="/webhooks/github/other"),
    "unknown forge": Bad(404, "RESOURCE_NOT_FOUND", path="/webhooks/gitlab/github"),
    "unknown forge, bare": Bad(404, "RESOURCE_NOT_FOUND", path="/webhooks/gitlab"),
    "no delivery id": malformed(DELIVERY, x_github_delivery=None),
    "empty delivery id": malformed(DELIVERY, x_github_delivery=""),
    "delivery id with a blank": malformed(DELIVERY, x_github_delivery="a b"),
    "delivery id that is not ASCII": malformed(DELIVERY, x_github_delivery=b"\xe9"),
    "two delivery ids": malformed(DELIVERY, x_github_delivery=[b"d-1", b"d-2"]),
    "the same delivery id twice": malformed(DELIVERY, x_github_delivery=[b"d-1", b"d-1"]),
    "endless delivery id": malformed(DELIVERY, x_github_delivery="d" * 10_000),
    "no event": malformed(EVENT, x_github_event=None),
    "two events": malformed(EVENT, x_github_event=[b"push", b"pull_request"]),
    "compressed body": malformed(
        "content-encoding", gzip.compress(OPENED), content_encoding="gzip"
    ),
    "another media type": malformed("content_type", content_type="text/plain"),
    "two media types": malformed("content-type", content_type=[b"text/plain", FORM.encode()]),
    "not JSON": malformed("body", b"not json"),
    "nothing": malformed("body", b""),
    "not an object": malformed("body", b"[]"),
    "half a document": malformed("body", OPENED[:-1]),
    "NaN": malformed("body", OPENED.replace(b'"draft": false', b'"draft": NaN')),
    "not UTF-8": malformed("body", OPENED.replace(b"Widgets", b"Widg\xffts")),
    "UTF-16": malformed("body", OPENED.decode().encode("utf-16")[:LIMIT_BYTES]),
    "endless nesting": malformed("body", b'{"a":' * 9000 + b"1" + b"}" * 9000),
    "form without payload": malformed("payload", b"other=1", content_type=FORM),
    "form with two payloads": malformed(
        "payload", b"payload=%7B%7D&payload=%7B%7D", content_type=FORM
    ),
    "JSON called a form": malformed("payload", content_type=FORM),
    "no action": malformed("action", b"{}"),
    "short head": malformed("pull_request.head.sha", pull(head_sha="abc")),
    "repository that is a number": malformed(
        "repository", json.dumps({**json.loads(OPENED), "repository": 5}).encode()
    ),
    "number of 5,000 digits": malformed(
        "pull_request.number", OPENED.replace(b'"number": 2', b'"number": ' + b"9" * 5000)
    ),
}


@pytest.mark.guarantee("X4", "I5")
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_input_is_answered_by_name_and_leaves_nothing_behind(door: Door, bad: Bad) -> None:
    """But the record of what is authentic, which is in nobody's way."""
    written = door.written()
    response = door.post(bad.body, signed(bad.body, **bad.headers), bad.path)
    answer = response.json()
    assert (response.status_code, answer["reason"], answer["field"]) == (
        bad.status,
        bad.reason,
        bad.where,
    ), answer
    assert answer["message"]
    assert set(answer) == {"reason", "message", "field", "delivery"}
    assert door.written() == written | {"deliveries": written["deliveries"] + (bad.status == 400)}


@pytest.mark.parametrize(
    ("path", "named"),
    [("/webhooks/github/other", "'other'"), ("/webhooks/github/%C3%A9", r"'\xe9'")],
)
def test_an_unknown_endpoint_is_told_in_words_for_who_sends_webhooks(
    door: Door, path: str, named: str
) -> None:
    """No word of a tenant or a key, of which the sender has none."""
    assert door.post(OPENED, signed(OPENED), path).json()["message"] == (
        f"There is no endpoint {named} of this forge: check the webhook's address."
    )


def test_a_refusal_is_told_in_the_log(door: Door) -> None:
    door.post(OPENED, signed(OPENED, x_hub_signature_256=None))

    def told() -> bool:
        entries = [each for each in door.ingress.logs if each["event"] == "a delivery was refused"]
        return any(each["reason"] == "SIGNATURE_INVALID" for each in entries)

    until_sync(told, what="the log to name the refusal")


@pytest.mark.guarantee("I10", "X4")
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused(door: Door, chunked: bool) -> None:
    written = door.written()
    body = OPENED.ljust(LIMIT_BYTES + 1)
    content = iter([body[:1000], body[1000:]]) if chunked else body
    response = door.client.post(
        f"http://{door.ingress.webhooks}{PATH}", content=content, headers=signed(body)
    )
    assert (response.status_code, response.json()["reason"]) == (413, "BODY_TOO_LARGE")
    assert "retry-after" not in response.headers
    assert response.headers["connection"] == "close"
    assert door.written() == written


def test_a_body_at_the_limit_is_taken_in_chunks_too(door: Door) -> None:
    body = pull(number=100).ljust(LIMIT_BYTES)
    headers = signed(body, x_github_delivery="at-the-limit")
    response = door.client.post(
        f"http://{door.ingress.webhooks}{PATH}",
        content=iter([body[:7], body[7:]]),
        headers=headers,
    )
    assert response.status_code == 202


@pytest.mark.guarantee("X4")
def test_a_body_that_stays_away_is_not_waited_for(door: Door) -> None:
    written = door.written()
    answer = raw(door, head_of(OPENED, len(OPENED) + 1), OPENED, close=False)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"BODY_TOO_SLOW"' in answer
    assert door.written() == written


@pytest.mark.guarantee("X4")
def test_a_body_shorter_than_it_says_leaves_nothing_behind(door: Door) -> None:
    written = door.written()
    raw(door, head_of(OPENED, len(OPENED) + 1), OPENED, close=True)
    assert door.written() == written


@pytest.mark.guarantee("X4")
def test_a_body_longer_than_it_says_is_another_body(door: Door) -> None:
    written = door.written()
    head = head_of(OPENED, len(OPENED) - 1).replace("host: x", "host: x\r\nconnection: close")
    assert raw(door, head, OPENED, close=True).startswith(b"HTTP/1.1 401 ")
    assert door.written() == written


@pytest.mark.guarantee("I10")
def test_a_length_over_the_limit_is_refused_before_the_body_comes(door: Door) -> None:
    head = head_of(OPENED, 10**12).replace("host: x", "host: x\r\nexpect: 100-continue")
    answer = raw(door, head, b"", close=False)
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.guarantee("X4")
def test_a_delivery_id_of_blanks_is_none(door: Door) -> None:
    written = door.written()
    head = head_of(OPENED, len(OPENED), x_github_delivery="  \t ", connection="close")
    answer = raw(door, head, OPENED, close=False)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"field":"x-github-delivery"' in answer
    assert door.written() == written | {"deliveries": written["deliveries"] + 1}


@pytest.mark.guarantee("I10")
def test_a_body_without_end_is_refused_at_the_limit(door: Door) -> None:
    written = door.written()
    head = head_of(OPENED, 0).replace("content-length: 0", "transfer-encoding: chunked")
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    answer = raw(door, head, chunk * (LIMIT_BYTES // 0x1000 + 1), close=False)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert door.written() == written


def test_other_methods_are_not_webhooks(door: Door) -> None:
    assert door.client.get(f"http://{door.ingress.webhooks}{PATH}").status_code == 405


@pytest.mark.parametrize(
    "path", ["/webhooks/github", "/api/v1/webhooks/github", f"/webhooks/github/{TENANT}/github"]
)
def test_the_only_endpoint_has_shorter_and_longer_addresses(door: Door, path: str) -> None:
    ping = signed(b"{}", x_github_delivery=path, x_github_event="ping")
    assert door.post(b"{}", ping, path).status_code == 200
    assert door.post(b"{}", ping, path.replace("github", "gitea")).status_code == 404


@pytest.mark.guarantee("I1", "I4", "I12")
def test_each_outcome_has_its_answer(door: Door) -> None:
    body = real("opened")
    responses = [
        door.post(body, signed(body, x_github_delivery="first")),
        door.post(body, signed(body, x_github_delivery="first")),
        door.post(body, signed(body, x_github_delivery="second"), "/webhooks/github"),
        door.post(OPENED, signed(OPENED, x_github_delivery="first")),
        door.post(b"{}", signed(b"{}", x_github_delivery="third", x_github_event="ping")),
    ]
    assert [response.status_code for response in responses] == [202, 200, 200, 409, 200]
    accepted, again, same_body, conflict, ping = [response.json() for response in responses]
    assert len(accepted["intents"]) == 1
    assert accepted == {
        "outcome": "accepted",
        "delivery": "first",
        "first_delivery": "first",
        "matched": "none",
        "intents": accepted["intents"],
        "reason": "",
    }
    assert again == {**accepted, "outcome": "duplicate", "matched": "delivery-id"}
    assert same_body == {
        **accepted,
        "outcome": "duplicate",
        "matched": "body",
        "delivery": "second",
    }
    assert (conflict["reason"], conflict["delivery"]) == ("DELIVERY_CONFLICT", "first")
    assert (ping["outcome"], ping["reason"]) == ("ignored", "ping")
    [(head_sha,)] = door.owner.execute(
        "SELECT head_sha FROM fencepost.intents WHERE intent_id = %s", accepted["intents"]
    ).fetchall()
    assert head_sha == HEAD


@pytest.mark.guarantee("I10")
def test_a_form_is_taken_like_its_json_twin(door: Door) -> None:
    twin = pull(number=500, title="1 + 1 & 100% café")
    form = b"payload=" + quote_plus(twin).encode()
    content_type = FORM + "; charset=utf-8"
    headers = signed(form, x_github_delivery="form", content_type=content_type)
    assert door.post(form, headers).status_code == 202
    assert door.post(twin, signed(twin, x_github_delivery="twin")).json()["matched"] == "key"
    stored = door.owner.execute(
        "SELECT d.projection, d.body, d.content_type, i.content_type FROM fencepost.deliveries d"
        " LEFT JOIN fencepost.intents i USING (delivery_seq)"
        " WHERE d.delivery_id IN ('form', 'twin') ORDER BY d.delivery_id"
    ).fetchall()
    (form_projection, body, *content_types), (twin_projection, *_) = stored
    assert form_projection == twin_projection
    assert (body, content_types) == (form, [content_type, content_type])


@pytest.mark.guarantee("I5")
def test_the_secret_before_still_counts(door: Door) -> None:
    signature = github_signature(b"the secret before", b"{}")
    headers = signed(
        b"{}", x_github_delivery="rotated", x_github_event="ping", x_hub_signature_256=signature
    )
    assert door.post(b"{}", headers).status_code == 200


@pytest.mark.guarantee("I5")
def test_other_forges_headers_change_nothing(door: Door) -> None:
    headers = signed(
        b"{}",
        x_github_delivery="families",
        x_github_event="ping",
        x_gitea_signature="0" * 64,
        x_gitea_event="push",
        x_gitea_delivery="other",
        x_hub_signature="sha1=" + "0" * 40,
    )
    assert door.post(b"{}", headers).json()["reason"] == "ping"


ODD = {
    "NUL in a title": pull(number=200, title="a\0b"),
    "half a surrogate pair": pull(number=201, title="\ud800"),
    "a literal backslash u": pull(number=202, title=r"C:\u0000"),
    "a key twice, the last counts": b'{"action": "closed", ' + pull(number=203)[1:],
    "a number of 5,000 digits": b'{"n": ' + b"9" * 5000 + b", " + pull(number=204)[1:],
    "a number beyond doubles": b'{"n": 1e999, ' + pull(number=205)[1:],
    "a byte order mark": b"\xef\xbb\xbf" + pull(number=206),
    "200 levels": b'{"n": ' + b"[" * 200 + b"]" * 200 + b", " + pull(number=207)[1:],
    "NUL in a key": b'{"\\u0000": 1, ' + pull(number=208)[1:],
    "literal UTF-8": json.dumps(
        json.loads(pull(number=209, title="café \U0001f389")), ensure_ascii=False
    ).encode(),
    "spaces and a newline": json.dumps(json.loads(pull(number=210)), indent=3).encode() + b"\n",
}


@pytest.mark.guarantee("I10", "I5")
@pytest.mark.parametrize("name", ODD)
def test_every_valid_json_is_stored_byte_for_byte(door: Door, name: str) -> None:
    body = ODD[name]
    delivery_id = name.replace(" ", "-")
    response = door.post(body, signed(body, x_github_delivery=delivery_id))
    assert response.status_code == 202, response.text
    [(stored,)] = door.owner.execute(
        "SELECT body FROM fencepost.deliveries WHERE delivery_id = %s", [delivery_id]
    ).fetchall()
    assert stored == body


def test_the_default_limit_is_what_forges_send_at_most() -> None:
    assert IngressSettings.model_fields["body_limit_bytes"].default == 25 * 1024 * 1024
