"""Certificates made for one test: an authority, and what it signs."""

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_FROM = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
VALID_UNTIL = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        builder = _builder(self._name, self._name, self._key.public_key())
        authority = x509.BasicConstraints(ca=True, path_length=None)
        certificate = builder.add_extension(authority, critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, common_name: str) -> Signed:
        """A new certificate of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            _builder(_name(common_name), self._name, key.public_key())
            .add_extension(address, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Signed(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_FROM)
        .not_valid_after(VALID_UNTIL)
    )
