"""Read what a sign request carries: the JSON message, its bearer token and its request id."""

from __future__ import annotations

import re

import msgspec

from signproxy.answers.bodies import MAX_MESSAGE
from signproxy.errors import Reason, Refused
from signproxy.s3.query import parse_query
from signproxy.s3.request import WireRequest

_REQUEST_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}")
_BEARER = "bearer "


class SignMessage(WireRequest, frozen=True, gc=False, kw_only=True):
    """A sign request's body as clients really send it; unknown fields are ignored, optional ones may be null."""

    properties: dict[str, str | None] | None = None
    """What Iceberg 1.12 repeats of a table's `remote-signing-config`, or whatever a client puts there: its own word."""
    provider: str | None = None


_decoder = msgspec.json.Decoder(SignMessage)


def read_message(content: bytes) -> SignMessage:
    """Decode the body of a sign request."""
    try:
        message = _decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise Refused(Reason.MESSAGE_MALFORMED, str(error)) from None
    except RecursionError:
        raise Refused(Reason.MESSAGE_MALFORMED, "nested too deeply") from None
    except UnicodeDecodeError:
        raise Refused(Reason.MESSAGE_MALFORMED, "not UTF-8") from None
    # JSON may write a character of the body as six; what is not the body is held to the small limit.
    if len(content) > MAX_MESSAGE and len(content) - 6 * len(message.body or "") > MAX_MESSAGE:
        raise Refused(Reason.BODY_TOO_LARGE, f"{len(content)} bytes around a body of {len(message.body or '')}")
    if message.provider is not None and message.provider.lower() != "s3":
        raise Refused(Reason.PROVIDER_UNSUPPORTED, f"provider {message.provider!r}")
    return message


def read_bearer(authorization: str | None) -> str:
    """Return the bearer token of an Authorization header."""
    if not authorization or authorization[:7].lower() != _BEARER:
        raise Refused(Reason.TOKEN_MISSING, "no Authorization header" if not authorization else "not a Bearer scheme")
    token = authorization[7:].strip(" ")
    if not token:
        raise Refused(Reason.TOKEN_MISSING, "the Bearer scheme without a token")
    return token


def read_request_id(given: str | None, own: str) -> str:
    """Return the caller's request id if it is fit to be echoed and logged, else our own."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return own


def read_warehouse(query: str) -> str | None:
    """Return the catalog that `?warehouse=` names, if any."""
    return parse_query(query).get("warehouse") if query else None
