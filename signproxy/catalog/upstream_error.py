"""Pass on what an upstream says was wrong, in the form that clients read, and nothing else of it."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ERROR = 64 * 1024
"""Bytes of an error that are read. Java servers put traces into theirs."""

MAX_TEXT = 2048
"""Characters of its message."""

_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    406: "UnsupportedOperationException",
    409: "ConflictException",
    419: "AuthenticationTimeoutException",
    422: "UnprocessableEntityException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
}

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class UpstreamError(msgspec.Struct, frozen=True):
    """An error to pass on."""

    body: bytes
    type: str
    """As the upstream calls it; empty where what it said was none of the specification's errors."""


def error_of(status: int, content: bytes) -> UpstreamError:
    """Return an upstream's error with its message and type, or one of ours where it sent a page of some proxy.

    Iceberg clients go by the code in the body: it is made the status's. A trace (`stack`) is left out.
    """
    told = _told(content).get("error")
    if isinstance(told, dict) and isinstance(told.get("message", ""), str) and isinstance(told.get("type"), str):
        return UpstreamError(_error(status, told.get("message") or "", told["type"]), told["type"])
    message = f"The catalog answered with status {status}"
    return UpstreamError(_error(status, message, _TYPES.get(status, "ServiceFailureException")), "")


def oauth_error_of(status: int, content: bytes) -> bytes:
    """Return an error of a token endpoint: of RFC 6749, or else as every other."""
    told = _told(content)
    if not isinstance(told.get("error"), str):
        return error_of(status, content).body
    kept = ("error", "error_description", "error_uri")
    return _encode({name: told[name][:MAX_TEXT] for name in kept if isinstance(told.get(name), str)})


def _told(content: bytes) -> dict[str, Any]:
    try:
        return _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _error(status: int, message: str, kind: str) -> bytes:
    return _encode({"error": {"message": message[:MAX_TEXT], "type": kind[:MAX_TEXT], "code": status}})
