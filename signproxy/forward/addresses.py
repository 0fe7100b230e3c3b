"""Find where a bucket's store listens, and whom to believe there."""

from __future__ import annotations

import ssl

import msgspec

from signproxy.errors import Finding, SettingsInvalid
from signproxy.outbound.tls import client_tls
from signproxy.s3.outbound import Outbound, outbound_of
from signproxy.s3.storage import Storage

_KEPT = 1024
"""Buckets; where clients make their own, their names are the clients' to choose."""

_PORTS = {"http": 80, "https": 443}


class Address(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Where connections lead that may be used for one another: host, port, and whose certificate is believed."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    """How TLS is spoken; None for plain HTTP. Of two contexts each has connections of its own."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.context is None else 'https'}://{host}:{self.port}"


class Destination(msgspec.Struct, frozen=True, gc=False):
    """A bucket at its store: where the connection leads and what its requests call it."""

    storage: Storage
    address: Address
    outbound: Outbound


class StorageAddresses:
    """Find the destination of each bucket; certificates are always verified, by the system's authorities or a file."""

    __slots__ = ("_ca_file", "_context", "_destinations")

    def __init__(self, ca_file: str = "") -> None:
        """Raise SettingsInvalid for a file that holds no certificate authorities."""
        self._ca_file = ca_file
        # The system's authorities take some 20 ms to read: a sidecar before a plain store does without.
        self._context = tls_context(ca_file) if ca_file else None
        self._destinations: dict[tuple[str, str], Destination] = {}

    def find(self, storage: Storage, bucket: str) -> Destination:
        """Return where a bucket of a storage is served."""
        found = self._destinations.get((storage.name, bucket))
        if found is None or found.storage is not storage:
            if len(self._destinations) >= _KEPT:
                self._destinations.clear()
            outbound = outbound_of(storage, bucket)
            found = self._destinations[storage.name, bucket] = Destination(storage, self._address(outbound), outbound)
        return found

    def _address(self, outbound: Outbound) -> Address:
        host, port = _split(outbound.authority, outbound.scheme)
        if outbound.scheme == "http":
            return Address(host, port)
        if self._context is None:
            self._context = tls_context(self._ca_file)
        return Address(host, port, self._context)


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Return how stores are spoken to: verified, by name, TLS 1.2 or newer, HTTP/1.1 alone."""
    try:
        return client_tls(ca_file)
    except (OSError, ssl.SSLError) as error:
        problem = error.strerror or getattr(error, "reason", "") or "not readable as PEM"
        raise SettingsInvalid([Finding("", "s3.upstream.ca_file", f"{ca_file!r} cannot be used: {problem}")]) from None


def _split(authority: str, scheme: str) -> tuple[str, int]:
    """Split `host[:port]`; a literal IPv6 address stands in brackets."""
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    return host.strip("[]"), int(port) if port else _PORTS[scheme]
