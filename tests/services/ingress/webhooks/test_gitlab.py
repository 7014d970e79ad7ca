"""GitLab's two proofs: a token, or a MAC over id, time and body; and how its events are named."""

import base64

import pytest
import starlette.datastructures

from services.ingress.signing_tokens import signing_key
from services.ingress.webhooks.forge import Answer
from services.ingress.webhooks.gitlab import (
    BY_SIGNATURE,
    BY_TOKEN,
    STATUSES,
    SignedCheck,
    event_named,
)
from tests.services.ingress.webhooks.checking import is_authentic_to
from tests.signing import gitlab_signature

KEY, OLD_KEY = b"k" * 32, b"o" * 32
TOKENS = [b"whsec_" + base64.b64encode(key) for key in (KEY, OLD_KEY)]
BODY = '{"title":"Füge 🎉 an"}'.encode()
ID, AT = "f5e5f430-f57b-4e6e-9fac-d9128cd7232f", "1714564800"

Headers = list[tuple[str, str]]


def signed(key: bytes = KEY, *, body: bytes = BODY, signed_id: str = ID) -> Headers:
    return headers(gitlab_signature(key, signed_id, AT, body))


def headers(signature: str, *, message_id: str = ID, timestamp: str = AT) -> Headers:
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ]


GOOD = gitlab_signature(KEY, ID, AT, BODY)


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize("key", [KEY, OLD_KEY])
def test_each_live_signing_token_counts(key: bytes) -> None:
    assert is_authentic_to(BY_SIGNATURE, signed(key), BODY, TOKENS)


def test_one_of_several_signatures_is_enough() -> None:
    several = headers(f"v1,{'A' * 43}= v1a,xyz {GOOD}")
    assert is_authentic_to(BY_SIGNATURE, several, BODY, TOKENS)


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(
    "wrong",
    [
        [],
        signed(b"another" * 4),
        signed(body=BODY + b"\n"),
        signed(signed_id="another"),
        headers(GOOD, message_id="another"),
        headers(GOOD, message_id=""),
        headers(GOOD, timestamp="1714564801"),
        headers(GOOD, timestamp="soon"),
        headers(GOOD, timestamp="-1"),
        headers(GOOD, timestamp="1" * 5000),
        headers(GOOD.removeprefix("v1,")),
        headers(GOOD.replace("v1,", "v2,")),
        headers("é" * 44),
        headers(""),
        headers(" ".join([f"v1,{'A' * 43}="] * 50 + [GOOD])),
        [*headers(GOOD), ("webhook-id", ID)],
        [*headers(GOOD), ("webhook-signature", GOOD)],
        headers(GOOD)[1:],
        [headers(GOOD)[0], headers(GOOD)[2]],
        [("x-gitlab-token", TOKENS[0].decode())],
        [("x-gitlab-token", KEY.decode())],
    ],
)
def test_anything_else_is_not_authentic(wrong: Headers) -> None:
    assert not is_authentic_to(BY_SIGNATURE, wrong, BODY, TOKENS)


def test_without_a_key_nothing_is_authentic() -> None:
    empty = headers(gitlab_signature(b"", ID, AT, BODY))
    for secrets in ([], [b"whsec_"], [b"whsec_?"], [b""], [base64.b64encode(KEY)]):
        assert not is_authentic_to(BY_SIGNATURE, empty, BODY, secrets)


@pytest.mark.parametrize(
    ("sent", "signed_at_s"), [(signed(), int(AT)), (headers(GOOD, timestamp="soon"), None)]
)
def test_a_check_says_when_it_was_signed(sent: Headers, signed_at_s: int | None) -> None:
    raw = [(name.encode(), value.encode()) for name, value in sent]
    assert SignedCheck(starlette.datastructures.Headers(raw=raw), TOKENS).signed_at_s == signed_at_s


@pytest.mark.parametrize(
    ("token", "key"),
    [
        (TOKENS[0], KEY),
        (b"whsec_", None),
        (b"whsec_a", None),
        (b"whsec_" + b"\xff", None),
        (b"k" * 32, None),
        (b"", None),
    ],
)
def test_a_signing_token_holds_a_key(token: bytes, key: bytes | None) -> None:
    assert signing_key(token) == key


@pytest.mark.parametrize("token", ["geheim-é", "the one before"])
def test_each_live_token_counts(token: str) -> None:
    secrets = ["geheim-é".encode("latin-1"), b"the one before"]
    assert is_authentic_to(BY_TOKEN, [("x-gitlab-token", token)], BODY, secrets)


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(
    "values", [[], [""], ["secre"], ["secret "], ["SECRET"], ["secret", "secret"], ["é"]]
)
def test_any_other_token_is_not_authentic(values: list[str]) -> None:
    sent = [("x-gitlab-token", value) for value in values]
    assert not is_authentic_to(BY_TOKEN, [*sent, *signed()], BODY, [b"secret"])


@pytest.mark.parametrize(
    ("header", "event"),
    [
        ("Merge Request Hook", "merge_request"),
        ("Push Hook", "push"),
        ("Tag Push Hook", "tag_push"),
        ("Note Hook", "note"),
        ("Confidential Note Hook", "confidential_note"),
        ("System Hook", "system"),
        ("", ""),
        (" Hook", "hook"),
        ("merge_request", "merge_request"),
    ],
)
def test_events_are_named_as_bodies_name_them(header: str, event: str) -> None:
    assert event_named(header) == event


@pytest.mark.guarantee("I8")
def test_only_what_is_not_believed_is_answered_4xx() -> None:
    refused = {answer: status for answer, status in STATUSES.items() if status >= 400}
    assert refused == {Answer.UNAUTHENTIC: 401, Answer.TOO_SLOW: 503, Answer.AWAY: 503}
