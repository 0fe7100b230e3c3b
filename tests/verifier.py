"""Verify AWS Signature Version 4 as a strict S3 server does, and send a signer's answer as its clients do.

Written from AWS' specification alone: nothing here is shared with the code under test, so that one mistake
cannot sit on both sides.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

MAX_SKEW_SECONDS = 900
"""How far S3's clock and a request's date may differ, in both directions."""

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request, ?"
    r"SignedHeaders=([^,\s]+), ?Signature=([0-9a-f]{64})"
)
_DATE = re.compile(r"\d{8}T\d{6}Z")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PAYLOAD_MODES = frozenset({"UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class WireHttp:
    """A request as a server receives it: the target raw, the headers in their order, the body if it is known."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None = None


class VerificationError(AssertionError):
    """A strict server would refuse the request; `code` is S3's own."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


def verify(
    wire: WireHttp,
    secrets: Mapping[str, str],
    *,
    now: float,
    tokens: Mapping[str, str] | None = None,
    region: str | None = None,
) -> None:
    """Raise VerificationError unless the request is signed by one of the keys, all of it, and at this time.

    `secrets` and `tokens` are keyed by access key id; a key with a token is a session's and is sent with it.
    """
    headers = _received(wire)
    parsed = _AUTHORIZATION.fullmatch(_single(headers, "authorization", "AccessDenied"))
    if parsed is None:
        raise VerificationError("AuthorizationHeaderMalformed", headers["authorization"][0])
    access_key_id, date, scope_region, service, signed_text, signature = parsed.groups()
    if service != "s3" or scope_region != (region or scope_region):
        raise VerificationError("AuthorizationHeaderMalformed", f"scope {scope_region}/{service}")
    secret = secrets.get(access_key_id)
    if secret is None:
        raise VerificationError("InvalidAccessKeyId", access_key_id)

    signed = signed_text.split(";")
    _check_signed_names(signed, headers)
    _check_token(headers, (tokens or {}).get(access_key_id))
    amz_date = _check_date(headers, date, now)
    payload = _check_payload(headers, wire.body)

    path, _, query = wire.target.partition("?")
    request = "\n".join(
        (
            wire.method,
            _canonical_path(path),
            _canonical_query(query),
            *(f"{name}:{','.join(_trim_all(value) for value in headers[name])}" for name in signed),
            "",
            signed_text,
            payload,
        )
    )
    scope = f"{date}/{scope_region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (date, scope_region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{digest}"
    if not hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), signature):
        raise VerificationError("SignatureDoesNotMatch", request)


def as_java(sign_request: Mapping[str, Any], answer: Mapping[str, Any]) -> WireHttp:
    """Build what Iceberg Java sends: the answered URI, the answered headers, its own headers over them."""
    merged: dict[str, tuple[str, list[str]]] = {}
    for name, values in answer["headers"].items():
        if name != "Cache-Control":
            merged[name.lower()] = (name, values)
    for name, values in sign_request["headers"].items():
        answered = merged.get(name.lower())
        if answered is not None and answered[0] != name and answered[1] != values:
            # The client goes through a hash map of both spellings: which value wins is chance.
            raise VerificationError("AmbiguousMerge", f"{answered[0]} and {name}")
        merged[name.lower()] = (name, values)
    # The SDK keeps its parameters in a map of its own: uploadId comes out before partNumber.
    return _wire(sign_request, answer["uri"], merged, query_order=lambda parts: sorted(parts, reverse=True))


def as_pyiceberg(sign_request: Mapping[str, Any], answer: Mapping[str, Any]) -> WireHttp:
    """Build what PyIceberg sends: its own headers, the answered ones after them, of each name the last."""
    merged: dict[str, tuple[str, list[str]]] = {}
    for headers in (sign_request["headers"], answer["headers"]):
        for name, values in headers.items():
            merged[name.lower()] = (name, [", ".join(values)])
    # aiobotocore and aiohttp write these anew after the request was signed.
    for name in ("expect", "transfer-encoding"):
        merged.pop(name, None)
    for name, value in (
        ("User-Agent", "aiobotocore/rebuilt"),
        ("Accept-Encoding", "identity"),
        ("amz-sdk-request", "attempt=2"),
    ):
        merged[name.lower()] = (name, [value])
    return _wire(sign_request, answer["uri"], merged, query_order=list)


def _wire(
    sign_request: Mapping[str, Any],
    uri: str,
    merged: Mapping[str, tuple[str, list[str]]],
    *,
    query_order: Callable[[list[str]], list[str]],
) -> WireHttp:
    split = urlsplit(uri)
    headers = [(name, value) for name, values in merged.values() for value in values]
    if "host" not in merged:
        host = split.hostname or ""
        port = split.port
        headers.insert(0, ("Host", host if port in (None, _DEFAULT_PORTS[split.scheme]) else f"{host}:{port}"))
    query = "&".join(query_order(split.query.split("&")))
    body = sign_request.get("body")
    return WireHttp(
        method=sign_request["method"],
        target=(split.path or "/") + (f"?{query}" if query else ""),
        headers=tuple(headers),
        body=None if body is None else body.encode(),
    )


def _received(wire: WireHttp) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in wire.headers:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def _single(headers: Mapping[str, list[str]], name: str, code: str) -> str:
    values = headers.get(name, [])
    if len(values) != 1:
        raise VerificationError(code, f"{len(values)} values of {name}")
    return values[0]


def _check_signed_names(signed: list[str], headers: Mapping[str, list[str]]) -> None:
    if signed != sorted({name.lower() for name in signed}):
        raise VerificationError("AuthorizationHeaderMalformed", f"SignedHeaders {signed}")
    missing = [name for name in signed if name not in headers]
    if missing:
        raise VerificationError("SignatureDoesNotMatch", f"signed but not received: {missing}")
    _single(headers, "host", "InvalidRequest")
    unsigned = [
        name
        for name in headers
        if name not in signed and (name in {"host", "content-md5"} or name.startswith("x-amz-"))
    ]
    if unsigned:
        raise VerificationError("AccessDenied", f"HeadersNotSigned: {unsigned}")


def _check_token(headers: Mapping[str, list[str]], token: str | None) -> None:
    if headers.get("x-amz-security-token", []) != ([] if token is None else [token]):
        raise VerificationError("InvalidToken", "x-amz-security-token is not the session's")


def _check_date(headers: Mapping[str, list[str]], date: str, now: float) -> str:
    amz_date = _single(headers, "x-amz-date", "AccessDenied")
    if not _DATE.fullmatch(amz_date) or not amz_date.startswith(date):
        raise VerificationError("AuthorizationHeaderMalformed", f"date {amz_date}, scope {date}")
    try:
        signed_at = calendar.timegm(time.strptime(amz_date, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise VerificationError("AuthorizationHeaderMalformed", f"date {amz_date}") from None
    if abs(now - signed_at) > MAX_SKEW_SECONDS:
        raise VerificationError("RequestTimeTooSkewed", f"{now - signed_at} s")
    return amz_date


def _check_payload(headers: Mapping[str, list[str]], body: bytes | None) -> str:
    payload = _single(headers, "x-amz-content-sha256", "InvalidRequest")
    if _SHA256.fullmatch(payload):
        if body is not None and hashlib.sha256(body).hexdigest() != payload:
            raise VerificationError("XAmzContentSHA256Mismatch", payload)
    elif payload not in _PAYLOAD_MODES:
        raise VerificationError("InvalidArgument", f"x-amz-content-sha256 {payload}")
    return payload


def _recode(raw: str, safe: str) -> str:
    if _BAD_ESCAPE.search(raw):
        raise VerificationError("InvalidURI", raw)
    return quote_from_bytes(unquote_to_bytes(raw), safe=f"~{safe}")


def _canonical_path(raw: str) -> str:
    if not raw.startswith("/"):
        raise VerificationError("InvalidURI", raw)
    return _recode(raw, "/")


def _canonical_query(raw: str) -> str:
    pairs = []
    for part in raw.split("&"):
        name, _, value = part.replace("+", "%20").partition("=")
        if name or value:
            pairs.append((_recode(name, ""), _recode(value, "")))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _trim_all(value: str) -> str:
    return re.sub(" +", " ", value.strip(" \t"))
