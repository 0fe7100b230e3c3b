"""Speak plain HTTP to the demo's store and server: no client library, so that every header is to be seen."""

from __future__ import annotations

import hashlib
import time
from urllib.parse import urlsplit

import msgspec

from signproxy.demo.store import DemoStore
from signproxy.outbound.blocking import http_connection
from signproxy.s3.sigv4 import SigningKey, amz_date

_TIMEOUT = 10.0


class HttpAnswer(msgspec.Struct, frozen=True):
    """Status and body of an HTTP answer."""

    status: int
    body: bytes


def send(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> HttpAnswer:
    """Send one request exactly as given."""
    parts = urlsplit(url)
    connection = http_connection(parts.scheme, parts.hostname or "", parts.port, timeout=_TIMEOUT)
    try:
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request(method, target, body=body, headers=headers)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, answer.read())
    finally:
        connection.close()


def send_as_owner(store: DemoStore, method: str, path: str, body: bytes = b"") -> HttpAnswer:
    """Send a request signed with the store's own keys, as the operator who arranges the demo does."""
    payload = hashlib.sha256(body).hexdigest()
    host = urlsplit(store.endpoint).netloc
    date = amz_date(int(time.time()))
    authorization = SigningKey(store.access_key, store.secret, store.region).authorization(
        method, host, path, "", (), payload, date
    )
    headers = {"Authorization": authorization, "x-amz-date": date, "x-amz-content-sha256": payload}
    return send(method, f"{store.endpoint}{path}", headers, body)
