"""What a publisher can be told about its forge, and what it refuses to be told."""

from pathlib import Path

import pytest

from services.publisher.settings import PublisherSettings
from shared.sealing import new_key_line
from shared.settings import SettingsError, read

DATABASE = {"PUBLISHER_DATABASE_URL": "postgresql://p:p@127.0.0.1/fencepost"}


def settings(**variables: str) -> PublisherSettings:
    return read(PublisherSettings, {**DATABASE, **variables})


def test_a_token_stands_in_a_variable_or_a_file_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ghs_secret\n")
    for given in (
        settings(PUBLISHER_FORGE_TOKEN="ghs_secret"),
        settings(PUBLISHER_FORGE_TOKEN_FILE=str(file)),
    ):
        assert given.forge_token is not None
        assert given.forge_token.get_secret_value() == "ghs_secret"
        assert "ghs_secret" not in repr(given)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://api.github.com", "https://api.github.com"),
        ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3"),
        ("http://127.0.0.1:7120", "http://127.0.0.1:7120"),
        ("http://localhost", "http://localhost"),
        ("http://[::1]:7120", "http://[::1]:7120"),
    ],
)
def test_a_forge_has_a_base_url(url: str, kept: str) -> None:
    assert settings(PUBLISHER_FORGE_URL=url).forge_url == kept


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("api.github.com", "must be http"),
        ("ftp://api.github.com", "must be http"),
        ("https://user:secret@api.github.com", "must hold no credential"),
        ("https://api.github.com?token=x", "must hold no credential"),
        ("http://api.github.com", "would travel in clear"),
    ],
)
def test_a_url_that_would_give_the_token_away_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(PUBLISHER_FORGE_URL=url)


def test_a_mesh_may_carry_the_token_in_clear() -> None:
    url = "http://forge.internal:7120"
    given = settings(PUBLISHER_FORGE_URL=url, PUBLISHER_FORGE_CALL_PLAINTEXT="true")
    assert given.forge_url == url


def test_sealing_keys_are_read_whole_or_refused_without_being_shown(tmp_path: Path) -> None:
    file = tmp_path / "sealing.keys"
    file.write_text(f"{new_key_line('k2')}\n{new_key_line('k1')}\n")
    keyring = settings(PUBLISHER_SEALING_KEYS_FILE=str(file)).keyring
    assert keyring is not None
    assert (keyring.active_id, keyring.key_ids) == ("k2", ("k2", "k1"))
    assert settings().keyring is None
    with pytest.raises(SettingsError, match="PUBLISHER_SEALING_KEYS") as refused:
        settings(PUBLISHER_SEALING_KEYS="k1:not-a-key")
    assert "not-a-key" not in str(refused.value)
