"""Write what signproxy itself answers on the S3 listener: refusals as S3 spells them, and lists of buckets."""

from __future__ import annotations

from http import HTTPStatus
from time import time
from typing import NamedTuple

from signproxy.answers.reply import http_date
from signproxy.forward.answer import EVENT_ID, REQUEST_ID
from signproxy.gate.forwarded import BucketsShown
from signproxy.s3.answers import error_xml, list_buckets_xml
from signproxy.s3.codes import S3Answer

_NO_BODY = "HEAD"

# The AWS SDKs repeat 500, 502, 503 and 504 by themselves; `SlowDown` makes them wait longer each time.
_RETRY = frozenset({503})


class Origin(NamedTuple):
    """What every answer to a request repeats of it."""

    method: str
    resource: str
    """The path as it was sent."""
    request_id: str
    event_id: str


def refusal(told: S3Answer, origin: Origin, *, closes: bool) -> bytes:
    """Return the error that a client is told."""
    body = error_xml(told.code, told.message, origin.resource, origin.request_id, told.elements)
    return _whole(told.status, body, origin, closes=closes)


def buckets(shown: BucketsShown, origin: Origin, *, closes: bool) -> bytes:
    """Return the answer to a list of buckets."""
    body = list_buckets_xml(
        zip(shown.names, shown.created, strict=True), prefix=shown.prefix, next_token=shown.next_token
    )
    return _whole(200, body, origin, closes=closes)


def not_http() -> bytes:
    """Return the answer to bytes that are no request; they have no id either."""
    body = error_xml("InvalidRequest", "The bytes are not a request of HTTP/1.1", "", "")
    return (
        f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
        f"Date: {http_date(int(time()))}\r\nConnection: close\r\n\r\n"
    ).encode("ascii") + body


def _whole(status: int, body: bytes, origin: Origin, *, closes: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"{REQUEST_ID}: {origin.request_id}\r\nx-amz-id-2: {origin.event_id}\r\n{EVENT_ID}: {origin.event_id}\r\n"
        f"Date: {http_date(int(time()))}\r\nContent-Type: application/xml\r\n"
        f"{'Retry-After: 1' if status in _RETRY else 'Cache-Control: no-store'}\r\n"
        f"{'Connection: close' if closes else 'Connection: keep-alive'}\r\n"
    )
    if origin.method == _NO_BODY:
        # A client that asks for a head is told nothing but the status; a length would be that of an answer to GET.
        return f"{head}\r\n".encode("latin-1")
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
