"""GitHub's signature: over raw bytes, one header, any live secret, and nothing raises."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingress.webhooks.forge import Answer
from services.ingress.webhooks.github import FORGE, SIGNATURE
from tests.services.ingress.webhooks.checking import is_authentic_to
from tests.signing import github_signature

LATIN_1 = st.characters(codec="latin-1")
PATIENT = settings(deadline=None, max_examples=60)

SECRET, OLD_SECRET = b"It's a Secret to Everybody", b"yesterday's"
BODY = b'{"action":"opened"}'


def is_authentic(values: list[str], body: bytes, secrets: list[bytes]) -> bool:
    return is_authentic_to(FORGE, [(SIGNATURE, value) for value in values], body, secrets)


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET])
def test_each_live_secret_counts(secret: bytes) -> None:
    assert is_authentic([github_signature(secret, BODY)], BODY, [SECRET, OLD_SECRET])


def test_the_example_of_githubs_documentation() -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_authentic([signature], b"Hello, World!", [SECRET])


def test_hex_may_be_upper_case() -> None:
    assert is_authentic([github_signature(SECRET, BODY).upper()], BODY, [SECRET])


def _sha1(body: bytes) -> str:
    return "sha1=" + hmac.new(SECRET, body, hashlib.sha1).hexdigest()


@pytest.mark.guarantee("I5")
@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["sha256="],
        ["é" * 64],
        ["sha256=" + "é" * 64],
        ["\x00\xff"],
        [_sha1(BODY)],
        [github_signature(SECRET, BODY).removeprefix("sha256=")],
        [github_signature(b"another", BODY)],
        [github_signature(SECRET, BODY + b"\n")],
        [github_signature(SECRET, BODY)] * 2,
        [github_signature(SECRET, BODY), github_signature(b"another", BODY)],
        [", ".join([github_signature(SECRET, BODY)] * 2)],
    ],
)
def test_anything_else_is_not_authentic(values: list[str]) -> None:
    assert not is_authentic(values, BODY, [SECRET, OLD_SECRET])


def test_without_a_secret_nothing_is_authentic() -> None:
    assert not is_authentic([github_signature(b"", BODY)], BODY, [])


@PATIENT
@given(st.lists(st.text(LATIN_1), max_size=3), st.binary(max_size=50))
def test_no_header_raises(values: list[str], body: bytes) -> None:
    assert not is_authentic(values, body, [SECRET])


def test_the_table_answers_everything() -> None:
    assert set(FORGE.statuses) == set(Answer)
