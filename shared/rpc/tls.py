"""The server's certificate, read again when its files change: no restart for a new one."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from shared.settings import RuntimeSettings

log = structlog.get_logger(__name__)


class CertificateUnreadableError(Exception):
    """A TLS file cannot be read or does not fit; says which and why."""


@dataclass(frozen=True, kw_only=True)
class CertificateFiles:
    """Where the chain, its key and, for mutual TLS, the clients' authorities stand."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def read(self) -> "grpc.ServerCertificateConfiguration":
        """The files as they are now; raises CertificateUnreadableError."""
        key, chain = _read(self.key), _read(self.certificate)
        client_ca = _read(self.client_ca) if self.client_ca else None
        self._require_fit()
        return grpc.ssl_server_certificate_configuration([(key, chain)], client_ca)

    def version(self) -> tuple[tuple[int, int], ...]:
        """Changes when a file does."""
        files = [path.stat() for path in (self.certificate, self.key, self.client_ca) if path]
        return tuple((each.st_mtime_ns, each.st_ino) for each in files)

    def _require_fit(self) -> None:
        """gRPC itself takes anything, and serves what it had before, or says that no port is free.

        Raises CertificateUnreadableError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Only whether they fit: how strong a key must be is for the clients to say.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateUnreadableError(
                f"{self.certificate} and {self.key} are not a certificate chain and its key, in "
                f"PEM and not encrypted ({error})"
            ) from error
        try:
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except ssl.SSLError as error:
            raise CertificateUnreadableError(
                f"{self.client_ca} holds no authorities in PEM ({error})"
            ) from error


def server_credentials(settings: RuntimeSettings) -> grpc.ServerCredentials | None:
    """Credentials that follow the files; None when the settings name none."""
    if settings.tls_certificate_file is None or settings.tls_key_file is None:
        return None
    files = CertificateFiles(
        certificate=settings.tls_certificate_file,
        key=settings.tls_key_file,
        client_ca=settings.tls_client_ca_file,
    )
    return grpc.dynamic_ssl_server_credentials(
        files.read(),
        _Reloader(files).changed,  # type: ignore[arg-type]  # None says that nothing changed
        require_client_authentication=files.client_ca is not None,
    )


class _Reloader:
    """Asked by gRPC before each handshake."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._version = files.version()

    def changed(self) -> "grpc.ServerCertificateConfiguration | None":
        try:
            version = self._files.version()
            if version == self._version:
                return None
            configuration = self._files.read()
        except (OSError, CertificateUnreadableError) as error:
            log.error("the new certificate cannot be read, the old one stays", why=str(error))
            return None
        self._version = version
        log.info("a new certificate is served")
        return configuration


def _no_password() -> bytes:
    """Answers where OpenSSL would ask the terminal."""
    return b""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateUnreadableError(f"{path} cannot be read: {error.strerror}") from error
