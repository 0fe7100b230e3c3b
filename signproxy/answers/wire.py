"""Write answers and refusals as the Iceberg specification has them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from signproxy.answers.reply import Reply
from signproxy.errors import Reason, Refused
from signproxy.s3.codes import Worded

_END = "\r\n"
_encode = msgspec.json.Encoder().encode

JSON = "Content-Type: application/json\r\n"
NO_CACHE = "Cache-Control: no-cache\r\n"
NO_STORE = "Cache-Control: no-store\r\n"
PRIVATE = "Cache-Control: private\r\n"
"""Iceberg 1.12 keeps an answer for 30 s on this value in any spelling, without looking at principal or table."""

# Iceberg Java repeats a sign call only after 429, or 503 with Retry-After. A fault of our own is not repeated.
_RETRY = {
    Reason.KEYS_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.CREDENTIALS_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.SESSIONS_THROTTLED: "Retry-After: 5\r\n",
    Reason.SESSIONS_UNAVAILABLE: "Retry-After: 5\r\n",
    Reason.AUDIT_UNAVAILABLE: "Retry-After: 1\r\n",
    Reason.RATE_LIMITED: "Retry-After: 1\r\n",
    Reason.IN_FLIGHT_LIMITED: "Retry-After: 1\r\n",
    Reason.OVERLOADED: "Retry-After: 1\r\n",
    Reason.UPSTREAM_BUSY: "Retry-After: 1\r\n",
    # Iceberg Java asks five times: a catalog that restarts has half a minute.
    Reason.UPSTREAM_UNAVAILABLE: "Retry-After: 5\r\n",
    Reason.UPSTREAM_FAILED: "Retry-After: 5\r\n",
    Reason.INVENTORY_MISSING: "Retry-After: 5\r\n",
}


def answer(value: object, request_id: str, cache: str = NO_CACHE) -> Reply:
    """Return a 200 with a JSON body. The spelling of the header names is part of the contract."""
    return Reply(200, f"{JSON}{cache}X-Request-ID: {request_id}\r\n", _encode(value))


def lines_of(headers: Iterable[tuple[str, str]], request_id: str, cache: str = NO_CACHE) -> str:
    """Return the head of an answer that is passed on; no cache on the way may keep what belongs to one caller."""
    return f"{''.join(f'{name}: {value}' + _END for name, value in headers)}{cache}X-Request-ID: {request_id}\r\n"


def refusal(refused: Refused, request_id: str) -> Reply:
    """Return the error of a refusal: what the caller may know, never the operator's detail."""
    reason, spec = refused.reason, refused.reason.value
    message = refused.words if isinstance(refused, Worded) else spec.message
    error = {"message": message, "type": spec.type, "code": spec.status, "request_id": request_id}
    lines = f"{JSON}{NO_CACHE}X-Request-ID: {request_id}\r\n{_RETRY.get(reason, '')}"
    if spec.status == 401:
        lines += 'WWW-Authenticate: Bearer realm="signproxy"\r\n'
    # What is left of an oversized or late body is not read, so the connection cannot go on.
    close = reason in (Reason.BODY_TOO_LARGE, Reason.BODY_TIMEOUT)
    return Reply(spec.status, lines, _encode({"error": error}), close=close)


def not_http() -> Reply:
    """Return the answer to bytes that are no request; they have no id either."""
    error = {"message": "Not a well-formed HTTP request", "type": "BadRequestException", "code": 400}
    return Reply(400, f"{JSON}{NO_CACHE}", _encode({"error": error}), close=True)
