"""JSON that a database will not take: stored byte for byte, cleaned leaf by leaf, never a 5xx."""

import json
from typing import Any

import pytest

from tests.cases.stored import bodies, projection, refusals
from tests.services.ingress.pulls import pull
from tests.services.ingress.webhooks.posting import Door, signed

BIG = 2**53 + 1


def with_repo_id(body: bytes, repo_id: int) -> bytes:
    document = json.loads(body)
    document["repository"]["id"] = repo_id
    return json.dumps(document).encode()


TAKEN: dict[str, tuple[bytes, dict[str, Any]]] = {
    "nul-in-a-title": (pull(number=1, title="a\0b"), {"title": "a\ufffdb"}),
    "nul-in-a-key": (b'{"\\u0000": 1, ' + pull(number=2)[1:], {"number": 2}),
    "the-text-backslash-u0000": (pull(number=3, title=r"C:\u0000"), {"title": r"C:\u0000"}),
    "half-a-pair": (pull(number=4, title="\ud800"), {"title": "\ufffd"}),
    "beyond-doubles": (b'{"n": 1e999, ' + pull(number=5)[1:], {"number": 5}),
    "5000-digits": (b'{"n": ' + b"9" * 5000 + b", " + pull(number=6)[1:], {"number": 6}),
    "an-id-beyond-doubles": (with_repo_id(pull(number=7), BIG), {"repo_id": BIG}),
    "a-byte-order-mark": (b"\xef\xbb\xbf" + pull(number=8), {"number": 8}),
}


@pytest.mark.guarantee("I10")
@pytest.mark.parametrize("name", TAKEN)
def test_valid_json_is_taken_in_whatever_stands_in_it(github: Door, name: str) -> None:
    body, expected = TAKEN[name]
    answer = github.post(body, signed(body, x_github_delivery=name))
    assert answer.status_code == 202, answer.text
    assert bodies(github, name) == [body]
    assert expected.items() <= projection(github, name).items()


REFUSED = {
    "nan": pull(number=20).replace(b'"draft": false', b'"draft": NaN'),
    "100,000 levels": b'{"a":' + b"[" * 25_000 + b"]" * 25_000 + b"}",
    "utf-16": b"\xff\xfe" + '{"action": "opened"}'.encode("utf-16-le"),
    "half a document": pull(number=21)[:-1],
    "not UTF-8": pull(number=22).replace(b"Widgets", b"Widg\xffts"),
}


@pytest.mark.guarantee("X4")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_json_is_refused_by_name(github: Door, name: str) -> None:
    body, before = REFUSED[name], github.written()
    delivery_id = name.replace(" ", "-")
    answer = github.post(body, signed(body, x_github_delivery=delivery_id))
    assert (answer.status_code, answer.json()["field"]) == (400, "body")
    assert refusals(github, delivery_id) == [("FIELD_INVALID", "body", body)]
    assert github.written() == before | {"deliveries": before["deliveries"] + 1}


@pytest.mark.guarantee("I10")
def test_of_a_key_that_stands_twice_the_last_counts_everywhere(github: Door) -> None:
    opened = pull(number=30)
    twice = opened.replace(b'"action": "opened"', b'"action": "opened", "action": "closed"')
    answer = github.post(twice, signed(twice, x_github_delivery="twice"))
    assert (answer.status_code, answer.json()["reason"]) == (200, "closed")
    assert projection(github, "twice")["state"] == "closed"
    [(action,)] = github.owner.execute(
        "SELECT event_action FROM fencepost.deliveries WHERE delivery_id = 'twice'"
    ).fetchall()
    assert action == "closed"
