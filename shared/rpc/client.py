"""How one service reaches another, from its settings: the one way, whoever calls whom."""

from pathlib import Path

from fencepost.channel import ChannelSettings, is_plain
from fencepost.tls import TlsFiles

from shared.settings import CallerSettings, host_and_port


def channel_settings(settings: CallerSettings, callee: str, *, deadline_ms: int) -> ChannelSettings:
    """Where the callee is, and what it is shown: this service's key and certificate.

    Raises CertificateUnreadableError, so that a wrong file is told when the service starts.
    """
    address: str = getattr(settings, f"{callee}_address")
    plaintext: bool = getattr(settings, f"{callee}_call_plaintext")
    key, tls = settings.api_key, _tls_files(settings, callee)
    if tls is not None:
        tls.read()
    return ChannelSettings(
        target=address,
        api_key=key.get_secret_value() if key else None,
        tls=tls,
        allow_plaintext=plaintext,
        server_name=host_and_port(address)[0],
        deadline_ms=deadline_ms,
    )


def certificate_hint(settings: CallerSettings, callee: str, reach: ChannelSettings) -> str:
    """What may be missing where a callee hangs up; empty when nothing can be.

    A server that misses a client's certificate says nothing else.
    """
    shown = getattr(settings, f"{callee}_tls_certificate_file") is not None
    if shown or is_plain(reach):
        return ""
    return (
        f"if the {callee} asks callers for a certificate, set "
        f"{settings.variable(f'{callee}_tls_certificate_file')} and "
        f"{settings.variable(f'{callee}_tls_key_file')}"
    )


def _tls_files(settings: CallerSettings, callee: str) -> TlsFiles | None:
    ca, certificate, key = (_file(settings, callee, name) for name in ("ca", "certificate", "key"))
    if ca is None and certificate is None:
        return None
    return TlsFiles(ca=ca, certificate=certificate, key=key)


def _file(settings: CallerSettings, callee: str, name: str) -> Path | None:
    found: Path | None = getattr(settings, f"{callee}_tls_{name}_file")
    return found
