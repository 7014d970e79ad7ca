"""Certificates from files, for either side of a connection, read again when the files change."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path


class CertificateUnreadableError(Exception):
    """A TLS file cannot be read or does not fit; says which and why."""


@dataclass(frozen=True, kw_only=True)
class Tls:
    """What one side trusts and shows; all PEM. Without a CA a client trusts the public ones."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The files of a `Tls`, followed while they change; a certificate and its key come together."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for half a pair."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate and its key belong together: name both files")

    def read(self) -> Tls:
        """The files as they are now; raises CertificateUnreadableError."""
        tls = Tls(key=_read(self.key), certificate=_read(self.certificate), ca=_read(self.ca))
        self._require_fit()
        return tls

    def version(self) -> tuple[object, ...]:
        """Changes when a file does."""
        return tuple(_stamp(path) for path in (self.ca, self.certificate, self.key) if path)

    def _require_fit(self) -> None:
        """gRPC itself takes anything, and then fails at each handshake without a reason.

        Raises CertificateUnreadableError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Only whether they fit: how strong a key must be is for the other side to say.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        try:
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateUnreadableError(
                f"{self.certificate} and {self.key} are not a certificate chain and its key, in "
                f"PEM and not encrypted ({error})"
            ) from error
        try:
            if self.ca is not None:
                context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            raise CertificateUnreadableError(
                f"{self.ca} holds no authorities in PEM ({error})"
            ) from error


class TlsWatch:
    """What the files held last, and whether they have changed since."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads them; raises CertificateUnreadableError."""
        self._files = files
        self._version = files.version()
        self.first = files.read()

    def changed(self) -> Tls | None:
        """What they hold since the last look; None: the same as then.

        Raises CertificateUnreadableError, once for each change.
        """
        version = self._files.version()
        if version == self._version:
            return None
        self._version = version
        return self._files.read()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        # Reading it says why.
        return (0, 0)
    return (found.st_ctime_ns, found.st_ino)


def _no_password() -> bytes:
    """Answers where OpenSSL would ask the terminal."""
    return b""


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateUnreadableError(f"{path} cannot be read: {error.strerror}") from error
