"""Sign S3 requests with AWS Signature Version 4, from their canonical parts and a key derived once a day."""

from __future__ import annotations

import hmac
import time
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NoReturn

ALGORITHM = "AWS4-HMAC-SHA256"
_BLOCK_BYTES = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


class Day:
    """What all signatures of one key and one date share."""

    __slots__ = ("credential", "inner", "outer", "scope")

    def __init__(self, credential: str, scope: str, derived: bytes) -> None:
        # HMAC is two nested hashes, each over the padded key first (RFC 2104): hashing the key once and copying
        # the two states costs two fifths of `hmac.digest`.
        key = derived.ljust(_BLOCK_BYTES, b"\0")
        self.inner = sha256(key.translate(_INNER_PAD))
        self.outer = sha256(key.translate(_OUTER_PAD))
        self.scope = scope
        self.credential = credential

    def mac(self, text: bytes) -> str:
        """Return the signature of a text, in hex."""
        inner = self.inner.copy()
        inner.update(text)
        outer = self.outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()


def derive(access_key_id: str, secret: str, date: str, region: str, service: str) -> Day:
    """Return what signs for one key, date, region and service; costs as much as five signatures."""
    derived = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    scope = f"{date}/{region}/{service}/aws4_request"
    return Day(f"{ALGORITHM} Credential={access_key_id}/{scope}", scope, derived)


class SigningKey:
    """An access key that signs for one region and service."""

    __slots__ = ("_days", "_secret", "access_key_id", "region", "service")

    def __init__(self, access_key_id: str, secret: str, region: str, service: str = "s3") -> None:
        self.access_key_id = access_key_id
        self.region = region
        self.service = service
        self._secret = secret
        self._days: dict[str, Day] = {}

    def __repr__(self) -> str:
        return f"SigningKey({self.access_key_id!r}, <secret>, {self.region!r}, {self.service!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key is not pickled or copied: its secret stays in this process")

    def authorization(  # noqa: PLR0913, PLR0917 - a canonical request has this many parts
        self,
        method: str,
        host: str,
        canonical_path: str,
        canonical_query: str,
        headers: Sequence[tuple[str, str]],
        payload: str,
        amz_date: str,
        session_token: str = "",
    ) -> str:
        """Return the Authorization header of a request that is sent with exactly these parts.

        `headers` are the client's own to be signed: lower-case names, no name twice, none of the four that are
        set here (host, x-amz-content-sha256, x-amz-date, x-amz-security-token); values trimmed, runs of white
        space folded to one space, without line ends.
        """
        signed, block = _canonical_headers(host, headers, payload, amz_date, session_token)
        request = f"{method}\n{canonical_path}\n{canonical_query}\n{block}\n{signed}\n{payload}"
        date = amz_date[:8]
        day = self._days.get(date) or self._derive(date)
        inner = day.inner.copy()
        inner.update(f"{ALGORITHM}\n{amz_date}\n{day.scope}\n{sha256(request.encode()).hexdigest()}".encode())
        outer = day.outer.copy()
        outer.update(inner.digest())
        return f"{day.credential}, SignedHeaders={signed}, Signature={outer.hexdigest()}"

    def moment(
        self,
        method: str,
        host: str,
        headers: Sequence[tuple[str, str]],
        payload: str,
        amz_date: str,
        session_token: str,
    ) -> Moment:
        """Return what signs requests that differ in their path and query alone, within one second."""
        signed, block = _canonical_headers(host, headers, payload, amz_date, session_token)
        day = self._days.get(amz_date[:8]) or self._derive(amz_date[:8])
        return Moment(day, method, f"\n{block}\n{signed}\n{payload}", amz_date, signed)

    def _derive(self, date: str) -> Day:
        day = derive(self.access_key_id, self._secret, date, self.region, self.service)
        # Around midnight signatures dated back still fall on the day before. One assignment swaps the whole
        # dictionary, so that threads never see it half made.
        self._days = {**dict([*self._days.items()][-1:]), date: day}
        return day


class Moment:
    """What the signatures of requests share that are signed within one second, and differ in path and query alone."""

    __slots__ = ("_after", "_before", "_beginning", "_day", "_method")

    def __init__(self, day: Day, method: str, after: str, amz_date: str, signed: str) -> None:
        self._day = day
        self._method = f"{method}\n"
        self._after = after
        self._before = f"{ALGORITHM}\n{amz_date}\n{day.scope}\n"
        self._beginning = f"{day.credential}, SignedHeaders={signed}, Signature="

    def authorization(self, canonical_path: str, canonical_query: str) -> str:
        """Return the Authorization header of the request with this path and query."""
        request = f"{self._method}{canonical_path}\n{canonical_query}{self._after}".encode()
        inner = self._day.inner.copy()
        inner.update(f"{self._before}{sha256(request).hexdigest()}".encode())
        outer = self._day.outer.copy()
        outer.update(inner.digest())
        return self._beginning + outer.hexdigest()


def _canonical_headers(
    host: str, headers: Sequence[tuple[str, str]], payload: str, amz_date: str, session_token: str
) -> tuple[str, str]:
    """Return the names of the signed headers, and their lines."""
    if headers:
        merged = [*headers, ("host", host), ("x-amz-content-sha256", payload), ("x-amz-date", amz_date)]
        if session_token:
            merged.append(("x-amz-security-token", session_token))
        merged.sort()
        return ";".join([name for name, _ in merged]), "".join([f"{name}:{value}\n" for name, value in merged])
    block = f"host:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{amz_date}\n"
    if not session_token:
        return "host;x-amz-content-sha256;x-amz-date", block
    return (
        "host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
        f"{block}x-amz-security-token:{session_token}\n",
    )


@lru_cache(maxsize=4)
def amz_date(epoch_seconds: int) -> str:
    """Write a Unix time as x-amz-date has it. All requests of a second share the text."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(epoch_seconds))
