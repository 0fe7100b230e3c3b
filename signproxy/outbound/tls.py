"""Make the TLS contexts of clients: certificates and names are verified, always."""

from __future__ import annotations

import ssl


def client_tls(ca_file: str = "", ca: str = "") -> ssl.SSLContext:
    """Return a context that believes the authorities of a file, of a text in PEM, or else of the system.

    Reading the system's takes some 20 ms: on a loop, call it in a thread. Raise OSError, ssl.SSLError or ValueError for
    what holds no authorities.
    """
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A server that could choose would speak HTTP/2.
    context.set_alpn_protocols(["http/1.1"])
    return context


def no_tls() -> ssl.SSLContext:
    """Return the context of a client that speaks plain HTTP only: it believes no authority, so a handshake fails."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
