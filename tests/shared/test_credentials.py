"""Credentials: made, parsed, and what is kept of the secret."""

import hashlib

import pytest

from shared.credentials import Credential, new_credential, parse, secret_digest


@pytest.mark.guarantee("X2")
def test_a_new_credential_parses_into_its_parts() -> None:
    credential = new_credential()

    assert parse(credential.text) == (credential.key_id, credential.secret)
    assert credential.secret_sha256 == hashlib.sha256(credential.secret.encode()).digest()
    assert credential.secret_sha256 == secret_digest(credential.secret)


def test_no_two_credentials_share_a_part() -> None:
    made = [new_credential() for _ in range(100)]

    assert len({credential.key_id for credential in made}) == 100
    assert len({credential.secret for credential in made}) == 100


def test_a_credential_shown_by_accident_does_not_show_its_secret() -> None:
    credential = Credential(key_id="abcdefgh12345678", secret="s" * 43)

    assert "s" * 43 not in repr(credential)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fp_",
        "fp_abcdefgh12345678",
        "fp_abcdefgh12345678_",
        "fp_abcdefgh12345678_short",
        "FP_abcdefgh12345678_" + "a" * 43,
        "fp_ABCDEFGH12345678_" + "a" * 43,
        "fp_abcdefgh12345678_" + "a" * 129,
        "fp_abcdefgh12345678_" + "ü" * 43,
        "fp_abcdefgh12345678_" + "a" * 43 + "\n",
        " fp_abcdefgh12345678_" + "a" * 43,
        "fp_abc'; --abcd_" + "a" * 43,
    ],
)
def test_anything_else_is_no_credential(text: str) -> None:
    assert parse(text) is None
