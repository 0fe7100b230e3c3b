"""Read what a client's own AWS Signature Version 4 says; nothing of it is believed yet."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.headers import UNSIGNED_PAYLOAD
from signproxy.s3.presented_faults import MAX_EXPIRES, fault_of_authorization, fault_of_query, fault_of_service
from signproxy.s3.sigv4 import ALGORITHM
from signproxy.s3.uri import decode_once

MAX_ACCESS_KEY_ID = 2048
"""Characters. Those of others have 128 at most; one that is issued here may say by itself who holds it."""

_CREDENTIAL = rf"([^\s/,]{{1,{MAX_ACCESS_KEY_ID}}})" r"/([0-9]{8})/([^\s/,]{1,64})/([^\s/,]{1,64})/aws4_request"
# As many as a request may have.
_SIGNED_HEADERS = r"([a-z0-9!#$%&'*+\-.^_`|~]+(?:;[a-z0-9!#$%&'*+\-.^_`|~]+){0,127})"
_SIGNATURE = r"([0-9a-f]{64})"
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} +Credential={_CREDENTIAL} *, *SignedHeaders={_SIGNED_HEADERS} *, *Signature={_SIGNATURE}"
)
_QUERY_CREDENTIAL = re.compile(_CREDENTIAL)
_QUERY_SIGNED_HEADERS = re.compile(_SIGNED_HEADERS)
_QUERY_SIGNATURE = re.compile(_SIGNATURE)
_AMZ_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(
    rf"[A-Z][a-z]{{2}}, (0[1-9]|[12][0-9]|3[01]) ({'|'.join(_MONTHS)}) ([0-9]{{4}})"
    r" ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_EXPIRES = re.compile(r"[0-9]{1,6}")
_HOISTED_NAME = re.compile(r"[Xx]-[Aa][Mm][Zz]-[A-Za-z0-9\-]{1,128}")
_LINE_BREAKING = re.compile(r"[\x00-\x1f\x7f]")

_REQUIRED = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
)
_PRESIGNED = frozenset((*_REQUIRED, "X-Amz-Security-Token", "X-Amz-Content-Sha256"))
# The payload may be pinned in either spelling.
_LOWER = frozenset(name.lower() for name in _PRESIGNED) - {"x-amz-content-sha256"}
SIGNATURE_PARAMETER = "X-Amz-Signature"


class Presented(msgspec.Struct, frozen=True, gc=False):
    """A signature as the client presents it, in the Authorization header or in the query of a presigned URL."""

    access_key_id: str
    date: str
    """The date of the credential scope: YYYYMMDD."""
    region: str
    amz_date: str
    """The time of signing: YYYYMMDDTHHMMSSZ."""
    signed_headers: tuple[str, ...]
    signature: str
    session_token: str
    payload: str
    """The value of x-amz-content-sha256; UNSIGNED-PAYLOAD for a presigned URL that says nothing."""
    expires: int | None = None
    """Of a presigned URL: the seconds that it is good for."""
    hoisted: tuple[tuple[str, str], ...] = ()
    """Of a presigned URL: the x-amz-* headers that the client moved into the query; names as spelled, and the bytes
    of the values as the characters of latin-1."""

    def __repr__(self) -> str:
        return f"Presented({self.access_key_id!r}, {self.date}/{self.region}, {self.amz_date}, <signature>)"


def read_authorization(value: str, headers: Mapping[str, str]) -> Presented:
    """Read the header form; `headers` are the request's by lower-case name.

    Raise Refused with AUTHORIZATION_MALFORMED, and with SCOPE_MISMATCH for another service.
    """
    match = _AUTHORIZATION.fullmatch(value)
    if match is None:
        raise fault_of_authorization(value)
    access_key_id, date, region, service, signed, signature = match.groups()
    if service != "s3":
        raise fault_of_service(service, in_query=False)
    payload = headers.get("x-amz-content-sha256")
    if payload is None:
        told = "x-amz-content-sha256 is missing"
        raise S3Refused(Reason.AUTHORIZATION_MALFORMED, Fault.CONTENT_SHA256_MISSING, detail=told)
    return Presented(
        access_key_id,
        date,
        region,
        headers.get("x-amz-date") or _date(headers.get("date", "")),
        tuple(signed.split(";")),
        signature,
        headers.get("x-amz-security-token", ""),
        payload,
    )


def is_signature(value: str) -> bool:
    """Whether this has the form of a signature."""
    return _QUERY_SIGNATURE.fullmatch(value) is not None


def read_presigned(raw_query: str, headers: Mapping[str, str]) -> tuple[Presented, str | None] | None:
    """Read the query form: what it presents, and the raw query without it. None if the URL is not presigned.

    Headers that an SDK moved into the query are S3's to read there, and only in a presigned URL: they are taken out
    of the rest, and judged by themselves. Raise Refused with AUTHORIZATION_MALFORMED, and with SCOPE_MISMATCH for
    another service.
    """
    found: dict[str, str] = {}
    hoisted: dict[str, tuple[str, str]] = {}
    rest = []
    for part in raw_query.split("&"):
        name, value = _pair(part)
        lower = name.lower()
        if name in _PRESIGNED:
            if name in found:
                raise _malformed(f"parameter {name[:128]!r} is repeated")
            found[name] = value
        elif lower.startswith("x-amz-"):
            if lower in hoisted:
                raise _malformed(f"parameter {name[:128]!r} is repeated")
            hoisted[lower] = name, _as_header(name, value)
        else:
            rest.append(part)
    if found.keys().isdisjoint(_REQUIRED):
        return None
    return _presigned(found, hoisted, headers), "&".join(rest) if rest else None


def _presigned(found: dict[str, str], hoisted: dict[str, tuple[str, str]], headers: Mapping[str, str]) -> Presented:
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        told = f"a presigned URL without {', '.join(missing)}"
        raise S3Refused(Reason.AUTHORIZATION_MALFORMED, Fault.QUERY_PARAMETERS, detail=told)
    if "authorization" in headers:
        raise _malformed("both an Authorization header and a presigned URL")
    disguised = [name for name in hoisted if name in _LOWER]
    if disguised:
        # A store that does not look at the case of names would read another signature than this one.
        raise _malformed(f"parameters of a signature in another spelling: {', '.join(disguised)}")
    twice = [name for name in hoisted if name in headers]
    if twice:
        raise _malformed(f"both in the query and in the headers: {', '.join(twice)}")
    credential = _QUERY_CREDENTIAL.fullmatch(found["X-Amz-Credential"])
    expires = found["X-Amz-Expires"]
    if (
        credential is None
        or found["X-Amz-Algorithm"] != ALGORITHM
        or not _QUERY_SIGNED_HEADERS.fullmatch(found["X-Amz-SignedHeaders"])
        or not _QUERY_SIGNATURE.fullmatch(found[SIGNATURE_PARAMETER])
        or not _AMZ_DATE.fullmatch(found["X-Amz-Date"])
        or not _EXPIRES.fullmatch(expires)
        or int(expires) > MAX_EXPIRES
    ):
        raise fault_of_query(found)
    access_key_id, date, region, service = credential.groups()
    if service != "s3":
        raise fault_of_service(service, in_query=True)
    pinned = found.get("X-Amz-Content-Sha256") or headers.get("x-amz-content-sha256")
    pinned = hoisted.pop("x-amz-content-sha256", ("", ""))[1] or pinned or UNSIGNED_PAYLOAD
    if not pinned.isascii():
        raise _malformed("a payload that is none")
    return Presented(
        access_key_id,
        date,
        region,
        found["X-Amz-Date"],
        tuple(found["X-Amz-SignedHeaders"].split(";")),
        found[SIGNATURE_PARAMETER],
        found.get("X-Amz-Security-Token") or headers.get("x-amz-security-token", ""),
        pinned,
        int(expires),
        tuple(hoisted.values()),
    )


def _pair(part: str) -> tuple[str, str]:
    raw_name, _, raw_value = part.partition("=")
    try:
        return decode_once(raw_name.replace("+", " ")), decode_once(raw_value.replace("+", " "))
    except Refused as refusal:
        raise Refused(Reason.QUERY_MALFORMED, refusal.detail) from None


def _as_header(name: str, value: str) -> str:
    """Return a decoded value as it stands in a header, where it will be sent: a line end would begin another one."""
    # As it is spelled: there are letters beyond ASCII whose lower case is within it, such as that of the kelvin.
    if not _HOISTED_NAME.fullmatch(name) or _LINE_BREAKING.search(value):
        raise _malformed(f"parameter {name[:128]!r} is no header")
    return value.encode().decode("latin-1").strip(" ")


def _date(value: str) -> str:
    """Return the time of signing from a Date header, which clients may send in place of x-amz-date."""
    match = _DATE.fullmatch(value)
    if match is None:
        told = "neither x-amz-date nor a Date that can be read"
        raise S3Refused(Reason.AUTHORIZATION_MALFORMED, Fault.DATE_HEADER, detail=told)
    day, month, year, hour, minute, second = match.groups()
    return f"{year}{_MONTHS.index(month) + 1:02}{day}T{hour}{minute}{second}Z"


def _malformed(fault: str) -> Refused:
    return Refused(Reason.AUTHORIZATION_MALFORMED, fault)
