"""Issue keys as a server does, and sign with them as AWS' own library does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import EmulatedKeys, IssuedKey
from signproxy.sealing import Deriver, Purpose, Sealer, SealingSecret
from tests.identity.rig import NOW

SEALING, OTHER = (SealingSecret(bytes([n]) * 32) for n in (7, 8))
SECONDS = 3_600.0
HOST = "127.0.0.1:8182"


def emulated(by: Authenticator, *secrets: SealingSecret, seconds: float = SECONDS) -> EmulatedKeys:
    """Return what issues keys on the word of whom an authenticator believes."""
    sealing = secrets or (SEALING,)
    return EmulatedKeys(Sealer(sealing, Purpose.S3_KEY), Deriver(sealing, Purpose.S3_SECRET), by, seconds)


class Sent(NamedTuple):
    """A request as it arrives."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def without(self, name: str) -> Sent:
        return self._replace(headers=tuple(pair for pair in self.headers if pair[0] != name))

    def having(self, name: str, value: str) -> Sent:
        return self._replace(headers=(*self.without(name).headers, (name, value)))


def signed(
    key: IssuedKey,
    method: str = "GET",
    target: str = "/acme-lake/a.parquet",
    *,
    now: float = NOW,
    region: str = "eu-central-1",
    headers: Mapping[str, str] | None = None,
    payload: str = "UNSIGNED-PAYLOAD",
) -> Sent:
    """Return a request that botocore signed in its headers."""
    request = AWSRequest(method, f"http://{HOST}{target}", headers={"Host": HOST, **(headers or {})})
    _Header(_credentials(key), "s3", region).at(now, payload).add_auth(request)
    return Sent(method, target, tuple((name.lower(), value) for name, value in request.headers.items()))


def presigned(
    key: IssuedKey, method: str = "GET", target: str = "/acme-lake/a.parquet", *, now: float = NOW, expires: int = 600
) -> Sent:
    """Return a request by a URL that botocore presigned."""
    request = AWSRequest(method, f"http://{HOST}{target}")
    _Query(_credentials(key), "s3", "eu-central-1", expires).at(now).add_auth(request)
    parts = urlsplit(request.url)
    return Sent(method, f"{parts.path}?{parts.query}", (("host", HOST),))


def _credentials(key: IssuedKey) -> Credentials:
    return Credentials(key.access_key_id, key.secret_access_key, key.session_token)


def _moment(now: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))


class _Header(S3SigV4Auth):  # type: ignore[misc]  # botocore is published without types
    def at(self, now: float, payload: str) -> _Header:
        self._now, self._payload = now, payload
        return self

    def _modify_request_before_signing(self, request: Any) -> None:
        request.context["timestamp"] = _moment(self._now)
        super()._modify_request_before_signing(request)

    def payload(self, request: Any) -> str:
        del request
        return self._payload


class _Query(S3SigV4QueryAuth):  # type: ignore[misc]  # botocore is published without types
    def at(self, now: float) -> _Query:
        self._now = now
        return self

    def _modify_request_before_signing(self, request: Any) -> None:
        request.context["timestamp"] = _moment(self._now)
        super()._modify_request_before_signing(request)
