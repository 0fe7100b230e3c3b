"""Issue certificates as a certificate authority does, good ones and bad ones."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: Key, passphrase: bytes = b"") -> bytes:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


class Pair(NamedTuple):
    """A certificate with its chain, and its key."""

    chain: bytes
    key: bytes

    def write(self, directory: Path) -> Path:
        """Put both where `tls.cert_file` and `tls.key_file` of the tests are; return the directory."""
        directory.mkdir(exist_ok=True)
        for name, content in (("tls.crt", self.chain), ("tls.key", self.key)):
            # Renamed over the old file, as careful programs do.
            made = directory / f".{name}"
            made.write_bytes(content)
            made.rename(directory / name)
        return directory

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.chain).serial_number


class Authority:
    """A certificate authority of a test."""

    def __init__(self) -> None:
        self._key = ec_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        certificate = self._build(self._name, self._name, self._key, self._key, NOW - DAY, NOW + 3650 * DAY, ())
        self.pem = _pem(certificate).decode()

    def issue(
        self,
        *hosts: str,
        key: Key | None = None,
        begins: timedelta = -DAY,
        ends: timedelta = 90 * DAY,
        passphrase: bytes = b"",
    ) -> Pair:
        """Return a certificate for the hosts, by default loopback's."""
        key = key or ec_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test server")])
        names = hosts or ("localhost", "127.0.0.1")
        certificate = self._build(subject, self._name, key, self._key, NOW + begins, NOW + ends, names)
        return Pair(_pem(certificate), pem_of(key, passphrase))

    def through(self, ends: timedelta) -> Pair:
        """Return a certificate that comes with an intermediate one that ends then."""
        key = ec_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test intermediate")])
        intermediate = self._build(name, self._name, key, self._key, NOW - 2 * DAY, NOW + ends, (), authority=True)
        between = Authority.__new__(Authority)
        between._key, between._name = key, name
        pair = between.issue()
        return Pair(pair.chain + _pem(intermediate), pair.key)

    def trusting(self, *, alpn: Sequence[str] = ()) -> ssl.SSLContext:
        """Return a client's context that trusts this authority alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.pem)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context

    def _build(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: Key,
        signer: Key,
        begins: datetime,
        ends: datetime,
        hosts: Sequence[str],
        *,
        authority: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=authority or subject == issuer, path_length=None), critical=True)
        )
        names = [host for host in hosts if host]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
        return builder.sign(signer, hashes.SHA256())


def swap(volume: Path, pair: Pair) -> None:
    """Replace the files of a volume as kubelet does: a new directory, and one link that is renamed over the old."""
    version = volume / f"..{os.urandom(4).hex()}"
    version.mkdir(parents=True)
    (version / "tls.crt").write_bytes(pair.chain)
    (version / "tls.key").write_bytes(pair.key)
    link = volume / "..data_tmp"
    link.symlink_to(version.name)
    link.rename(volume / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
