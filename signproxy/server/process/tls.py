"""Hold a listener's certificate: checked before it is used, and replaced while connections are open.

A context that serves is never loaded anew. OpenSSL keeps one certificate for each type of key, so that after a change
from RSA to ECDSA some clients would still be shown the old one; and a new certificate that meets the old key leaves a
context with which every handshake fails. Each certificate gets a context of its own instead, and the one that listens
has none: it looks up the current one for every handshake.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NoReturn

import msgspec

from signproxy.config.fields import TlsSettings
from signproxy.diagnosis import Diagnosis, advised
from signproxy.documents.files import read_together
from signproxy.errors import Finding, SettingsInvalid
from signproxy.server.status.report import CertificateReport, ends_soon
from signproxy.telemetry import log

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

MAX_PEM_BYTES = 256 * 1024
"""Ten times a long chain of large keys; a wrong path must not read a disk image into memory."""

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secret and authenticated. Java 8 and all that is newer speak them; TLS 1.3 has its own."""

_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type:[^\n]*ENCRYPTED", re.MULTILINE)
_MISMATCHES = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""The last is what OpenSSL says where the key is of another type than the certificate."""


_log = log.get_logger("signproxy.tls")


class PreparedCertificate(msgspec.Struct, frozen=True):
    """A checked certificate with its key, ready to be served."""

    context: ssl.SSLContext
    digest: str
    """Of both files, to know them again."""
    expires_at: float
    """Unix time at which the first certificate of the chain ends; roots do not count, for clients bring their own."""
    names: tuple[str, ...]
    """The hosts that it is good for."""
    warnings: tuple[Diagnosis, ...]

    def covers(self, host: str) -> bool:
        """Whether a client that asks for this host accepts the certificate."""
        host = host.lower().rstrip(".")
        _, _, parent = host.partition(".")
        return host in self.names or (bool(parent) and f"*.{parent}" in self.names)


class CertificateHolder:
    """The certificate that a listener serves now. `section` names the listener's settings in findings."""

    def __init__(self, tls: TlsSettings, *, section: str = "listen") -> None:
        """Load the first certificate; raise SettingsInvalid."""
        self._section = section
        self._current: PreparedCertificate | None = None
        self._loaded_at = 0.0
        self.commit(self.prepare(tls))
        self.context = _bare_context()
        """What the listener is opened with."""
        self.context.sni_callback = self._choose

    @property
    def current(self) -> PreparedCertificate:
        """The certificate in force."""
        assert self._current is not None  # noqa: S101 - the constructor commits one
        return self._current

    def prepare(self, tls: TlsSettings) -> PreparedCertificate:
        """Read and check the files as they are now; what is served does not change. Raise SettingsInvalid.

        Files that are served already are not judged again: a certificate that has ended meanwhile must not keep a
        reload from revoking a grant.
        """
        return load_certificate(tls, self._section, self._current)

    def commit(self, prepared: PreparedCertificate) -> None:
        """Serve what was prepared, from the next handshake on; connections that are open go on as they are."""
        if prepared is self._current:
            return
        self._current = prepared
        self._loaded_at = time()
        expires_at = datetime.fromtimestamp(prepared.expires_at, UTC).isoformat()
        _log.info("certificate in force", listener=self._section, expires_at=expires_at)
        for warning in prepared.warnings:
            _log.warning("certificate", listener=self._section, finding=str(warning))

    def report(self, listener: str) -> CertificateReport:
        """Tell what is served, and since when."""
        return CertificateReport(listener, self.current.expires_at, self._loaded_at)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self.current.context


def load_certificate(tls: TlsSettings, section: str, served: PreparedCertificate | None = None) -> PreparedCertificate:
    """Read and check certificate and key; return `served` where the files are still the same."""
    chain, key = _read(tls, section)
    digest = hashlib.sha256(b"%d\n" % len(chain) + chain + key).hexdigest()
    if served is not None and digest == served.digest:
        return served
    return _prepared(chain, key, digest, tls, section)


def _bare_context() -> ssl.SSLContext:
    """Return a context without certificate, to which the system's authorities mean nothing: no client shows one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(tls: TlsSettings, section: str) -> tuple[bytes, bytes]:
    for name in ("cert_file", "key_file"):
        if not getattr(tls, name):
            raise _fault(section, name, "this key is missing; TLS needs certificate and key")
    try:
        chain, key = read_together([Path(tls.cert_file), Path(tls.key_file)], limit=MAX_PEM_BYTES)
    except OSError as error:
        file = error.filename or tls.cert_file
        name = "key_file" if file == tls.key_file else "cert_file"
        raise _fault(section, name, f"{file!r} cannot be read: {error.strerror}") from None
    return chain, key


def _prepared(chain: bytes, key: bytes, digest: str, tls: TlsSettings, section: str) -> PreparedCertificate:
    certificates = _certificates(chain, tls, section)
    if _ENCRYPTED.search(key):
        problem = f"{tls.key_file!r} is encrypted, and the server cannot ask for its passphrase; store it decrypted"
        raise _fault(section, "key_file", problem)
    now = datetime.now(UTC)
    leaf = certificates[0]
    if leaf.not_valid_after_utc <= now:
        problem = f"{tls.cert_file!r} ended at {leaf.not_valid_after_utc.isoformat()}"
        raise _fault(section, "cert_file", problem)
    context = _bare_context()
    try:
        with _as_file(key, chain) as file:
            context.load_cert_chain(file, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            problem = f"{tls.key_file!r} is not the private key of the first certificate in {tls.cert_file!r}"
        elif b"PRIVATE KEY-----" not in key:
            problem = f"{tls.key_file!r} holds no private key (PEM)"
        else:
            problem = f"{tls.key_file!r} and {tls.cert_file!r} cannot be used: {error.reason or 'not readable as PEM'}"
        raise _fault(section, "key_file", problem) from None
    presented = [leaf, *(each for each in certificates[1:] if each.subject != each.issuer)]
    return PreparedCertificate(
        context,
        digest,
        min(each.not_valid_after_utc for each in presented).timestamp(),
        _names(leaf),
        tuple(_warnings(presented, now, tls, section)),
    )


def _certificates(chain: bytes, tls: TlsSettings, section: str) -> Sequence[Certificate]:
    from cryptography import x509  # noqa: PLC0415 - only where TLS is on

    try:
        return x509.load_pem_x509_certificates(chain)
    except ValueError:
        problem = f"{tls.cert_file!r} holds no certificate, or one that is cut off (PEM expected)"
        raise _fault(section, "cert_file", problem) from None


def _names(leaf: Certificate) -> tuple[str, ...]:
    from cryptography import x509  # noqa: PLC0415 - see above

    try:
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    hosts = [name.lower() for name in alternatives.get_values_for_type(x509.DNSName)]
    return (*hosts, *map(str, alternatives.get_values_for_type(x509.IPAddress)))


def _warnings(presented: Sequence[Certificate], now: datetime, tls: TlsSettings, section: str) -> Iterator[Diagnosis]:
    path = f"{section}.tls.cert_file"
    leaf = presented[0]
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if begins > now:
        # No fault: a certificate authority's clock may be ahead, and nothing would read the file again in time.
        yield advised(path, f"{tls.cert_file!r} is not good before {begins.isoformat()}; clients refuse it")
    if ends_soon((ends - now).total_seconds(), (ends - begins).total_seconds()):
        yield advised(path, f"{tls.cert_file!r} ends at {ends.isoformat()}")
    for other in presented[1:]:
        if other.not_valid_after_utc <= now:
            subject = other.subject.rfc4514_string()
            yield advised(path, f"the chain holds {subject!r}, which ended at {other.not_valid_after_utc.isoformat()}")
    if not _names(leaf):
        yield advised(path, f"{tls.cert_file!r} names no host (subjectAltName); clients refuse it")


@contextlib.contextmanager
def _as_file(key: bytes, chain: bytes) -> Iterator[str]:
    """Give OpenSSL, which reads files alone, the very bytes that were checked, and leave no copy of the key."""
    # The key first: a certificate file that holds a key as well does not replace the one that was named.
    content = key + b"\n" + chain
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def _no_passphrase() -> NoReturn:
    """Keep OpenSSL from asking at the terminal."""
    raise ssl.SSLError("the key is encrypted")


def _fault(section: str, name: str, problem: str) -> SettingsInvalid:
    return SettingsInvalid([Finding("", f"{section}.tls.{name}", problem)])
