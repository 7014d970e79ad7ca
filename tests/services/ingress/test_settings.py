"""Settings: what belongs together, and what a secret's file may hold."""

from pathlib import Path

import pytest

from services.ingress.settings import IngressSettings
from shared.sealing import Keyring, new_key_line
from shared.settings import SettingsError, read
from tests.services.ingress.registered import KEYRING_TEXT

DATABASE = {"INGRESS_DATABASE_URL": "postgresql://ingress:x@127.0.0.1:5432/fencepost"}
NEEDED = DATABASE | {"INGRESS_SEALING_KEYS": KEYRING_TEXT}


def test_the_keyring_stands_in_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{new_key_line('k2')}\n{KEYRING_TEXT}\n")
    settings = read(IngressSettings, {**DATABASE, "INGRESS_SEALING_KEYS_FILE": str(file)})
    assert Keyring.parse(settings.sealing_keys.get_secret_value()).key_ids == ("k2", "test")
    assert KEYRING_TEXT.partition(":")[2] not in repr(settings)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (DATABASE, "INGRESS_SEALING_KEYS or INGRESS_SEALING_KEYS_FILE must be set"),
        (DATABASE | {"INGRESS_SEALING_KEYS": "k1:short"}, "line 1 must be id:key"),
        (NEEDED | {"INGRESS_MESSAGE_LIMIT_BYTES": "26214400"}, "INGRESS_MESSAGE_LIMIT_BYTES"),
        (NEEDED | {"DEDUPE_TTL_SECONDS": "0"}, "DEDUPE_TTL_SECONDS"),
        (
            {"INGRESS_DISPATCHER_TLS_CA_FILE": "/nowhere/ca.pem"},
            "INGRESS_DISPATCHER_TLS_CA_FILE",
        ),
    ],
)
def test_what_does_not_fit_is_said(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        read(IngressSettings, variables)


@pytest.mark.parametrize("variable", ["DEDUPE_TTL_SECONDS", "INGRESS_DEDUPE_TTL_SECONDS"])
def test_the_life_of_markers_has_two_names(variable: str) -> None:
    assert read(IngressSettings, NEEDED).dedupe_ttl_seconds == 604_800
    assert read(IngressSettings, NEEDED | {variable: "60"}).dedupe_ttl_seconds == 60
