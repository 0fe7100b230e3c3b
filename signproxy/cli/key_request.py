"""Ask a running server for an S3 key, with nothing but the standard library: clients run this for each key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from signproxy.config.addresses import is_loopback
from signproxy.errors import Finding, Invalid
from signproxy.outbound.blocking import HTTPException, http_connection

ROUTE = "v1/s3-keys"
TIMEOUT = 10.0
"""Seconds; botocore waits for a credential process for ever."""

MAX_ANSWER = 64 * 1024

# No user, who might bring a password, and no query, which would end up before each route.
SERVER_URL = re.compile(r"https?://[0-9A-Za-z.\-_\[\]:]+(?:/[!\"$->A-~]*)?")

_PARTS = ("access-key-id", "secret-access-key", "expires-at")
_TOKEN = "session-token"  # noqa: S105 - the name of a member


class Key(NamedTuple):
    """A key as the server hands it out."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    """Empty for a key that has none."""
    expires_at: str

    def __repr__(self) -> str:
        return f"Key({self.access_key_id!r}, ***, {self.expires_at!r})"


class KeyRefusal(NamedTuple):
    """Why there is none."""

    problem: str


def address_of(url: str) -> SplitResult:
    """Return the parts of a server's URL. Raise Invalid for what is none."""
    if not SERVER_URL.fullmatch(url):
        # Not shown: it may hold a password.
        raise Invalid([Finding("command line", "--url", "http(s)://HOST:PORT without user and query expected")])
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid([Finding("command line", "--url", "holds no host and port that can be asked")]) from None
    return parts


def is_exposed(address: SplitResult) -> bool:
    """Whether others on the way could read the token and the key."""
    return address.scheme == "http" and not is_loopback(address.hostname or "")


def ask(address: SplitResult, token: str, asked: Mapping[str, object], ca_file: str = "") -> Key | KeyRefusal:
    """Return a key, or why there is none. No proxy of the environment is asked, and no redirection followed."""
    if not token.isascii() or not token.isprintable():
        raise Invalid([Finding("token", "", "holds characters that no token has")])
    try:
        host = address.hostname or ""
        connection = http_connection(address.scheme, host, address.port, timeout=TIMEOUT, ca_file=ca_file)
        try:
            connection.request(
                "POST",
                f"{address.path.rstrip('/')}/{ROUTE}",
                body=json.dumps(asked),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            return _read(answer.status, answer.read(MAX_ANSWER + 1))
        finally:
            connection.close()
    # TLS faults are OSErrors as well; a host name that is none is a UnicodeError.
    except (OSError, HTTPException, UnicodeError) as error:
        told = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        return KeyRefusal(f"{address.netloc}: {told}")


def _read(status: int, content: bytes) -> Key | KeyRefusal:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if status == 200 and isinstance(value, dict):
        parts: list[Any] = [value.get(part) for part in _PARTS]
        token = value.get(_TOKEN, "")
        if all(isinstance(part, str) for part in (*parts, token)):
            access_key_id, secret, expires_at = parts
            return Key(access_key_id, secret, token, expires_at)
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        return KeyRefusal(f"{status} {error.get('message')} (request {error.get('request_id')})")
    return KeyRefusal(f"{status}: what answers there is no signproxy that issues keys")
