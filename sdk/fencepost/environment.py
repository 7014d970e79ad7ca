"""Every variable that a worker and the command line read, in one place.

The services' `FENCEPOST_` variables are others: what stands here is no setting of a service.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.tls import TlsFiles

DISPATCHER: Final = "FENCEPOST_DISPATCHER"
PUBLISHER: Final = "FENCEPOST_PUBLISHER"
WATCHDOG: Final = "FENCEPOST_WATCHDOG"
INGRESS: Final = "FENCEPOST_INGRESS"
API_KEY: Final = "FENCEPOST_API_KEY"
API_KEY_FILE: Final = "FENCEPOST_API_KEY_FILE"
TENANT: Final = "FENCEPOST_TENANT"
CA_FILE: Final = "FENCEPOST_CA_FILE"
CERTIFICATE_FILE: Final = "FENCEPOST_CERTIFICATE_FILE"
CERTIFICATE_KEY_FILE: Final = "FENCEPOST_CERTIFICATE_KEY_FILE"
CALL_PLAINTEXT: Final = "FENCEPOST_CALL_PLAINTEXT"

DEFAULT_ADDRESSES: Final = {
    WATCHDOG: "127.0.0.1:7104",
    INGRESS: "127.0.0.1:7101",
    PUBLISHER: "127.0.0.1:7103",
}
TRUE: Final = ("1", "true", "t", "yes", "y", "on")
FALSE: Final = ("", "0", "false", "f", "no", "n", "off")
"""What the command line takes, too."""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One variable, as people are told of it; `option` is the command line's, where it reads it."""

    name: str
    worker: bool = False
    command_line: bool = False
    option: str = ""
    default: str = ""
    meaning: str


VARIABLES: Final = (
    Variable(
        name=DISPATCHER, worker=True, default="must be set", meaning="host:port of the dispatcher."
    ),
    Variable(
        name=PUBLISHER,
        worker=True,
        command_line=True,
        option="--address of connections",
        meaning="host:port of the publisher; without it a worker can publish nothing, and the "
        f"command line calls {DEFAULT_ADDRESSES[PUBLISHER]}.",
    ),
    Variable(
        name=WATCHDOG,
        command_line=True,
        option="--address",
        default=DEFAULT_ADDRESSES[WATCHDOG],
        meaning="host:port of the watchdog.",
    ),
    Variable(
        name=INGRESS,
        command_line=True,
        option="--address of submit",
        default=DEFAULT_ADDRESSES[INGRESS],
        meaning="host:port of ingress.",
    ),
    Variable(
        name=API_KEY,
        worker=True,
        command_line=True,
        meaning="The API key itself; never an option, which other users of the machine could see. "
        "A worker's has the scopes work and publish.",
    ),
    Variable(
        name=API_KEY_FILE,
        worker=True,
        command_line=True,
        option="--key-file",
        meaning="File that holds the API key.",
    ),
    Variable(
        name=TENANT,
        command_line=True,
        option="--tenant",
        meaning="Tenant to act for; only with an operator's key, which belongs to none.",
    ),
    Variable(
        name=CA_FILE,
        worker=True,
        command_line=True,
        option="--ca-file",
        meaning="PEM authorities of the servers' certificates; else the public ones.",
    ),
    Variable(
        name=CERTIFICATE_FILE,
        worker=True,
        command_line=True,
        option="--certificate-file",
        meaning="PEM certificate chain to show to servers that ask for one; a worker reads it "
        "again when it changes.",
    ),
    Variable(
        name=CERTIFICATE_KEY_FILE,
        worker=True,
        command_line=True,
        option="--certificate-key-file",
        meaning="PEM private key of that certificate; a worker reads it again when it changes.",
    ),
    Variable(
        name=CALL_PLAINTEXT,
        worker=True,
        command_line=True,
        option="--plaintext",
        default="false",
        meaning="Whether servers that are not of this machine are called without TLS.",
    ),
)


def tls_files(environment: Mapping[str, str]) -> TlsFiles | None:
    """The files that the environment names; None without any. Raises ValueError for half a pair."""
    ca, certificate, key = (
        Path(environment[name]) if environment.get(name) else None
        for name in (CA_FILE, CERTIFICATE_FILE, CERTIFICATE_KEY_FILE)
    )
    return tls_files_of(ca=ca, certificate=certificate, key=key)


def tls_files_of(*, ca: Path | None, certificate: Path | None, key: Path | None) -> TlsFiles | None:
    """These files; None without any. Raises ValueError, which names the variables of a pair."""
    if (certificate is None) != (key is None):
        raise ValueError(f"{CERTIFICATE_FILE} and {CERTIFICATE_KEY_FILE} belong together: set both")
    if ca is None and certificate is None:
        return None
    return TlsFiles(ca=ca, certificate=certificate, key=key)


def calls_plaintext(environment: Mapping[str, str]) -> bool:
    """Whether TLS is left out off loopback; raises ValueError for what is neither yes nor no."""
    said = environment.get(CALL_PLAINTEXT, "")
    if said.lower() not in (*TRUE, *FALSE):
        raise ValueError(f"{CALL_PLAINTEXT} is {said!r}, but must be true or false")
    return said.lower() in TRUE
