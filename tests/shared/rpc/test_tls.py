"""Goal: TLS from files, changed without a restart; and no plaintext off loopback by accident.

Method: certificates made for the test, calls over real connections.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fencepost.dispatcher.v1.intents_pb2 import GetIntentRequest
from fencepost.errors import FencepostError
from fencepost.tls import CertificateUnreadableError, Tls
from pydantic import ValidationError
from structlog.testing import capture_logs

from tests.shared.rpc.certificates import Authority, Signed
from tests.shared.rpc.served import Served, serving, settings_for

REQUEST = GetIntentRequest(intent_id=1)


class Files:
    """The files that the settings name."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.client_ca = folder / "clients.pem"

    def hold(self, signed: Signed) -> None:
        self.certificate.write_bytes(signed.certificate)
        self.key.write_bytes(signed.key)

    def settings(self, *, mutual: bool = False) -> dict[str, Any]:
        named = {"tls_certificate_file": self.certificate, "tls_key_file": self.key}
        return named | ({"tls_client_ca_file": self.client_ca} if mutual else {})


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def call(served: Served, tls: Tls | None) -> None:
    await served.intent_stub(tls=tls).GetIntent(REQUEST, timeout=10.0)


def shown(authority: Authority, own: Signed) -> Tls:
    return Tls(ca=authority.certificate, certificate=own.certificate, key=own.key)


async def test_a_client_that_trusts_the_authority_is_served_and_no_other(files: Files) -> None:
    authority, stranger = Authority(), Authority()
    files.hold(authority.sign("server"))
    async with serving(**files.settings()) as served:
        await call(served, Tls(ca=authority.certificate))
        for wrong in (Tls(ca=stranger.certificate), None):
            with pytest.raises(FencepostError):
                await call(served, wrong)
        assert served.intents.calls == 1


async def test_mutual_tls_asks_for_a_certificate_of_the_named_authority(files: Files) -> None:
    authority, clients = Authority(), Authority()
    files.hold(authority.sign("server"))
    files.client_ca.write_bytes(clients.certificate)
    trusted, untrusted = clients.sign("client"), authority.sign("client")
    async with serving(**files.settings(mutual=True)) as served:
        await call(served, shown(authority, trusted))
        for wrong in (Tls(ca=authority.certificate), shown(authority, untrusted)):
            with pytest.raises(FencepostError):
                await call(served, wrong)
        assert served.intents.calls == 1


async def test_a_new_certificate_is_served_without_a_restart(files: Files) -> None:
    old, new = Authority(), Authority()
    files.hold(old.sign("server"))
    async with serving(**files.settings()) as served:
        await call(served, Tls(ca=old.certificate))
        files.hold(new.sign("server"))
        await call(served, Tls(ca=new.certificate))


async def test_a_new_certificate_that_cannot_be_read_leaves_the_old_one(files: Files) -> None:
    authority = Authority()
    files.hold(authority.sign("server"))
    async with serving(**files.settings()) as served:
        files.key.unlink()
        await call(served, Tls(ca=authority.certificate))


async def test_a_file_that_is_missing_at_the_start_is_named(files: Files) -> None:
    with pytest.raises(CertificateUnreadableError, match=r"server\.key cannot be read"):
        async with serving(**files.settings()):
            pass


def spoil_certificate(files: Files) -> None:
    files.certificate.write_bytes(b"no certificate")


def spoil_key(files: Files) -> None:
    files.key.write_bytes(Authority().sign("another").key)


def spoil_authorities(files: Files) -> None:
    files.client_ca.write_bytes(b"no authorities")


NOT_A_PAIR = r"server\.pem and .*server\.key are not a certificate chain and its key"
SPOILT = pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (spoil_certificate, NOT_A_PAIR),
        (spoil_key, NOT_A_PAIR),
        (spoil_authorities, r"clients\.pem holds no authorities"),
    ],
)


@SPOILT
async def test_files_that_do_not_fit_at_the_start_are_named(
    files: Files, spoil: Callable[[Files], None], named: str
) -> None:
    authority = Authority()
    files.hold(authority.sign("server"))
    files.client_ca.write_bytes(authority.certificate)
    spoil(files)
    with pytest.raises(CertificateUnreadableError, match=named):
        async with serving(**files.settings(mutual=True)):
            pass


@SPOILT
async def test_files_that_do_not_fit_later_leave_the_old_ones_and_are_told(
    files: Files, spoil: Callable[[Files], None], named: str
) -> None:
    authority = Authority()
    files.hold(authority.sign("server"))
    files.client_ca.write_bytes(authority.certificate)
    own = shown(authority, authority.sign("client"))
    async with serving(**files.settings(mutual=True)) as served:
        spoil(files)
        with capture_logs() as logs:
            await call(served, own)
    assert [re.search(named, entry["why"]) is not None for entry in logs] == [True]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7101"])
def test_plaintext_off_loopback_is_refused_with_a_sentence_unless_allowed(address: str) -> None:
    with pytest.raises(ValidationError, match="other machines can reach, and there is no TLS"):
        settings_for(grpc_address=address)
    assert settings_for(grpc_address=address, serve_plaintext=True).serves_plaintext
