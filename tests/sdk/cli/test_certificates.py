"""The command line at a watchdog that asks every caller for a certificate."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.database_server import as_service
from tests.sdk.cli.conftest import Place
from tests.sdk.cli.terminal import Shell
from tests.services.watchdog.served import served
from tests.shared.rpc.certificates import Authority


@dataclass(frozen=True)
class Guarded:
    """Where that watchdog is, and files of a caller whom it knows."""

    address: str
    ca: Path
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def guarded(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, authority = tmp_path_factory.mktemp("tls"), Authority()
    ca = folder / "ca.pem"
    ca.write_bytes(authority.certificate)
    for name in ("server", "client"):
        signed = authority.sign(name)
        (folder / f"{name}.pem").write_bytes(signed.certificate)
        (folder / f"{name}.key").write_bytes(signed.key)
    asked = {
        "WATCHDOG_TLS_CERTIFICATE_FILE": str(folder / "server.pem"),
        "WATCHDOG_TLS_KEY_FILE": str(folder / "server.key"),
        "WATCHDOG_TLS_CLIENT_CA_FILE": str(ca),
    }
    with served(as_service(place.owner_url, "watchdog"), asked) as watchdog:
        yield Guarded(watchdog.grpc, ca, folder / "client.pem", folder / "client.key")


@pytest.mark.guarantee("X2")
def test_a_certificate_is_shown_by_option_or_by_variable(shell: Shell, guarded: Guarded) -> None:
    shell = shell.having(FENCEPOST_WATCHDOG=guarded.address, FENCEPOST_CA_FILE=str(guarded.ca))
    files = (str(guarded.certificate), str(guarded.key))
    options = ("--certificate-file", files[0], "--certificate-key-file", files[1])
    by_option = shell.run("keys", "list", "--json", *options)
    by_variable = shell.having(
        FENCEPOST_CERTIFICATE_FILE=files[0], FENCEPOST_CERTIFICATE_KEY_FILE=files[1]
    ).run("keys", "list", "--json")
    assert (by_option.code, by_variable.code) == (0, 0), by_option.out + by_variable.out


@pytest.mark.guarantee("X2")
def test_without_one_nothing_is_answered_and_what_to_set_is_named(
    shell: Shell, guarded: Guarded
) -> None:
    shell = shell.having(FENCEPOST_WATCHDOG=guarded.address, FENCEPOST_CA_FILE=str(guarded.ca))
    told = shell.run("keys", "list")
    assert (told.code, told.out) == (3, "")
    assert "name one with --certificate-file or FENCEPOST_CERTIFICATE_FILE." in told.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--certificate-file", "x"), "CERTIFICATE_FILE and FENCEPOST_CERTIFICATE_KEY_FILE belong"),
        (("--certificate-file", "x", "--certificate-key-file", "y"), "y cannot be read"),
    ],
)
def test_half_a_pair_and_a_missing_file_are_wrong_usage(
    shell: Shell, options: tuple[str, ...], sentence: str
) -> None:
    told = shell.run("status", *options)
    assert told.code == 2
    assert sentence in told.err


def test_where_nobody_listens_without_tls_no_certificate_is_spoken_of(shell: Shell) -> None:
    told = shell.having(FENCEPOST_WATCHDOG="127.0.0.1:9").run("status")
    assert "Nobody answers" in told.err
    assert "certificate" not in told.err
