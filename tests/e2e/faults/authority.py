"""Be a certificate authority, whose certificates differ in their serial numbers and lives."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files hold them."""

    serial: int
    certificate: bytes
    key: bytes


class Authority:
    """An authority that a client trusts."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name("authority of the tests")
        self._certificate = (
            _builder(name, name, self._key.public_key(), days=30)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def trusting(self) -> ssl.SSLContext:
        """Return what a client is that trusts no other."""
        return ssl.create_default_context(cadata=self._certificate.public_bytes(_PEM).decode())

    def issue(self, *, days: int = 20, kind: str = "ec") -> Pair:
        """Return a certificate for loopback."""
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
        key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65_537, 2048)
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            _builder(_name("signproxy"), self._certificate.subject, key.public_key(), days=days)
            .add_extension(alternative, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Pair(certificate.serial_number, certificate.public_bytes(_PEM), private)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )
