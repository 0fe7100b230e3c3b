"""Read hosts and URLs in settings: what only this machine can reach, and what is a URL and nothing more."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

WILDCARDS = ("0.0.0.0", "::")
"""Hosts to listen on that are no host's address."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def plain_url(url: str) -> SplitResult | None:
    """Return the parts of an http(s) URL without user, query and fragment; None for any other."""
    try:
        parts = urlsplit(url)
        plain = parts.username is None and not parts.query and not parts.fragment and parts.port != 0
    except ValueError:
        return None
    fits = plain and parts.scheme in ("http", "https") and bool(parts.hostname)
    return parts if fits and url.isascii() and url.isprintable() else None


def advertised_url(url: str, host: str, port: int, *, tls: bool) -> str:
    """Return the URL that clients are told, without a slash at its end: the given one, or else that of an address."""
    if url:
        return url.rstrip("/")
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
