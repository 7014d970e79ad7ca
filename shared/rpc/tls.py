"""The server's certificate, read again when its files change: no restart for a new one."""

import grpc
import structlog
from fencepost.tls import CertificateUnreadableError, Tls, TlsFiles, TlsWatch

from shared.settings import RuntimeSettings

log = structlog.get_logger(__name__)


def server_credentials(settings: RuntimeSettings) -> grpc.ServerCredentials | None:
    """Credentials that follow the files; None when the settings name none.

    Raises CertificateUnreadableError.
    """
    if settings.tls_certificate_file is None:
        return None
    watch = TlsWatch(
        TlsFiles(
            certificate=settings.tls_certificate_file,
            key=settings.tls_key_file,
            ca=settings.tls_client_ca_file,
        )
    )
    return grpc.dynamic_ssl_server_credentials(
        _configuration(watch.first),
        _Reloader(watch).changed,  # type: ignore[arg-type]  # None says that nothing changed
        require_client_authentication=settings.tls_client_ca_file is not None,
    )


class _Reloader:
    """Asked by gRPC before each handshake."""

    def __init__(self, watch: TlsWatch) -> None:
        self._watch = watch

    def changed(self) -> "grpc.ServerCertificateConfiguration | None":
        try:
            tls = self._watch.changed()
        except CertificateUnreadableError as error:
            log.error("the new certificate cannot be read, the old one stays", why=str(error))
            return None
        if tls is None:
            return None
        log.info("a new certificate is served")
        return _configuration(tls)


def _configuration(tls: Tls) -> "grpc.ServerCertificateConfiguration":
    assert tls.key is not None
    assert tls.certificate is not None
    return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.ca)
