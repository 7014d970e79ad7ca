"""No secret is written, wherever it stands and whatever form it has (K2)."""

import base64
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from shared.redaction import MASK, redactor, secrets_of
from shared.sealing import new_key_line
from shared.settings import CallerSettings

CANARY = "canary/Secret+1234"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("key fp_abcdefgh1234_" + "A" * 43, "key fp_abcdefgh1234_[redacted]"),
        ("authorization: Bearer abc.DEF-123456", "authorization: Bearer [redacted]"),
        ("postgresql://role:pw-canary@db:5432/x", "postgresql://role:[redacted]@db:5432/x"),
        ("host=db password=pw-canary user=x", "host=db password=[redacted] user=x"),
        ("password = 'two words'", "password = [redacted]"),
        (
            "git clone https://x-access-token:ghs_abc@github.com/o/r",
            "git clone https://x-access-token:[redacted]@github.com/o/r",
        ),
        ("ghs_" + "a" * 36, "ghs_[redacted]"),
        ("glpat-" + "b" * 20, "glpat-[redacted]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----!",
            "-----BEGIN RSA PRIVATE KEY-----[redacted]!",
        ),
    ],
)
def test_a_secret_is_known_by_its_form(text: str, written: str) -> None:
    assert redactor()(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "octo-org/widgets#7@40bd001563085fc35165329ea1ff5c5ecbdbbeef",
        "https://github.com/o/r/pull/7",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "the token of the lease",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redactor()(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "api_key",
        "webhook_secret",
        "Authorization",
        "tokens",
        "database_url",
        "private_key",
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert redactor()({name: "x", "deep": [{name: b"y"}]}) == {name: MASK, "deep": [{name: MASK}]}


@pytest.mark.parametrize("name", ["key", "key_id", "key_label", "secret_sha256", "token_count"])
def test_other_names_are_left_alone(name: str) -> None:
    assert redactor()({name: "x"}) == {name: "x"}


def test_numbers_are_no_secrets() -> None:
    assert redactor()({"tokens": 5, "cookies": True, "secret": None}) == {
        "tokens": 5,
        "cookies": True,
        "secret": None,
    }


@pytest.mark.parametrize(
    "form",
    [CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()],
)
def test_a_configured_secret_is_known_by_content_in_every_form(form: str) -> None:
    clean = redactor([CANARY])
    assert clean(f"before {form} after") == f"before {MASK} after"
    assert clean({"note": [form.encode()]}) == {"note": [MASK]}
    assert clean(ValueError(form)) == MASK


def test_a_short_secret_masks_no_words() -> None:
    assert redactor(["test"])("the test passed") == "the test passed"


def test_settings_know_their_secrets() -> None:
    settings = CallerSettings(
        database_url=SecretStr("postgresql://role:pw-canary@db/x"),
        api_key=SecretStr("fp_id_canary"),
        grpc_address="127.0.0.1:0",
        admin_address="127.0.0.1:0",
    )
    assert set(secrets_of(settings)) == {
        "postgresql://role:pw-canary@db/x",
        "pw-canary",
        "fp_id_canary",
    }


def test_each_key_of_a_keyring_is_a_secret() -> None:
    lines = [new_key_line("k1"), new_key_line("k2")]
    settings = CallerSettings(
        database_url=SecretStr("postgresql://role@db/x"),
        api_key=SecretStr("\n".join(lines)),
        grpc_address="127.0.0.1:0",
        admin_address="127.0.0.1:0",
    )
    clean = redactor(secrets_of(settings))
    assert [clean(line.partition(":")[2]) for line in lines] == [MASK, MASK]
