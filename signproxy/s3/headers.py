"""Read a client's headers: which are signed, and what they say about payload, copy source and conditions."""

from __future__ import annotations

import re

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import naming
from signproxy.s3.header_rules import CHECKS, OWN, Context, Treatment, ValueCheck, check_name, treatment
from signproxy.s3.operation import Operation

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

MAX_HEADERS = 64
"""Real clients send fewer than twenty; bounds the work for a hostile request."""
MAX_HEADER_BYTES = 16 * 1024

_PLANS_KEPT = 1024
"""Clients repeat a handful of header sets; the bound is there for those who do not."""

_KEPT_LENGTH = 1024
"""Characters of the names of a set that is kept; the longest of a real client has some 300."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SIGNED_VALUE = re.compile(r"[\t\x20-\x7e]*")


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do with one set of header names; depends on the names alone."""

    signed: tuple[tuple[str, str, ValueCheck | None], ...]
    """Name as spelled, lower-case name and value check, sorted by lower-case name."""
    host: str | None
    payload: str | None
    copy_source: str | None
    content_encoding: str | None
    """These and the conditions: the name as spelled, where the header is there."""
    trailer: bool
    conditions: tuple[tuple[str, str], ...]


class ReadHeaders(msgspec.Struct, frozen=True, gc=False):
    """What a client's headers say."""

    signed: tuple[tuple[str, str], ...]
    payload: str
    conditional: bool


_plans: dict[tuple[str, ...], Plan] = {}


def plan_for(headers: dict[str, list[str]]) -> Plan:
    """Return the plan for these header names; refuse names that may not be sent."""
    names = tuple(headers)
    plan = _plans.get(names)
    if plan is None:
        plan = _plan(names)
        if sum(map(len, names)) <= _KEPT_LENGTH:
            if len(_plans) >= _PLANS_KEPT:
                _plans.clear()
            _plans[names] = plan
    return plan


def read_headers(headers: dict[str, list[str]], plan: Plan, host: str, context: Context) -> ReadHeaders:
    """Check every value and return what is signed; the payload of a bulk delete is the caller's to set."""
    _check_text(headers)
    if plan.host is not None and _single(headers, plan.host) != host:
        raise Refused(Reason.HEADER_HOST, f"Host {headers[plan.host][0]!r}, uri addresses {host!r}")
    signed = []
    for name, lower, check in plan.signed:
        values = headers[name]
        value = values[0] if len(values) == 1 else _single(headers, name)
        if check is not None and not check(value, context):
            told = f"{lower}: {value!r} with {context.operation.s3_name}"
            raise naming(Refused(Reason.HEADER_VALUE, told), name)
        plain = value.isascii() and value.isprintable() and " " not in value
        signed.append((lower, value if plain else _folded(name, lower, value)))
    silent = plan.payload is None and plan.content_encoding is None
    payload = UNSIGNED_PAYLOAD if silent else _payload(headers, plan, context)
    return ReadHeaders(tuple(signed), payload, bool(plan.conditions) and _is_conditional(headers, plan))


def _plan(names: tuple[str, ...]) -> Plan:
    if len(names) > MAX_HEADERS:
        raise Refused(Reason.HEADER_MALFORMED, f"{len(names)} headers, at most {MAX_HEADERS} are read")
    by_lower: dict[str, str] = {}
    for name in names:
        lower = check_name(name)
        if lower in by_lower:
            raise naming(Refused(Reason.HEADER_REPEATED, f"{by_lower[lower]!r} and {name!r}"), name)
        by_lower[lower] = name
    return Plan(
        signed=tuple(
            (name, lower, CHECKS.get(lower))
            for lower, name in sorted(by_lower.items())
            if lower not in OWN and treatment(lower) is not Treatment.UNSIGNED
        ),
        host=by_lower.get("host"),
        payload=by_lower.get("x-amz-content-sha256"),
        copy_source=by_lower.get("x-amz-copy-source"),
        content_encoding=by_lower.get("content-encoding"),
        trailer="x-amz-trailer" in by_lower,
        conditions=tuple((lower, by_lower[lower]) for lower in ("if-match", "if-none-match") if lower in by_lower),
    )


def _check_text(headers: dict[str, list[str]]) -> None:
    # One look at all values together; only what fails it is looked at header by header.
    text = "".join([value for values in headers.values() for value in values])
    if len(text) > MAX_HEADER_BYTES:
        raise Refused(
            Reason.HEADER_MALFORMED, f"{len(text)} characters of header values, at most {MAX_HEADER_BYTES} are read"
        )
    if not all(headers.values()):
        empty = next(name for name, values in headers.items() if not values)
        raise naming(Refused(Reason.HEADER_MALFORMED, f"{empty!r} has no value"), empty)
    # What ends a line or a text; anything else is harmless in a header that is not signed.
    if "\n" in text or "\r" in text or "\0" in text:
        broken = next(name for name, values in headers.items() if not set("\n\r\0").isdisjoint("".join(values)))
        raise naming(Refused(Reason.HEADER_MALFORMED, f"value of {broken!r} holds a control character"), broken)


def _folded(name: str, lower: str, value: str) -> str:
    """Return a value as SigV4 signs it: trimmed, runs of white space folded."""
    if not _SIGNED_VALUE.fullmatch(value):
        # Clients disagree on how such text is encoded on the wire, so no signature would fit them all.
        raise naming(Refused(Reason.HEADER_VALUE, f"{lower}: {value!r} is not ASCII"), name)
    return " ".join(value.split()) if " " in value or "\t" in value else value


def _single(headers: dict[str, list[str]], name: str) -> str:
    values = headers[name]
    if len(values) != 1:
        raise naming(Refused(Reason.HEADER_REPEATED, f"{name!r} has {len(values)} values"), name)
    return values[0]


def _payload(headers: dict[str, list[str]], plan: Plan, context: Context) -> str:
    chunked = plan.content_encoding is not None and "aws-chunked" in headers[plan.content_encoding][0]
    if plan.payload is not None:
        value = _single(headers, plan.payload)
    else:
        # Some versions of s3fs send the framing without the header; UNSIGNED-PAYLOAD would store it as content.
        value = UNSIGNED_TRAILER if chunked and plan.trailer else UNSIGNED_PAYLOAD
    if value == UNSIGNED_TRAILER:
        allowed = context.operation in (Operation.PUT_OBJECT, Operation.UPLOAD_PART)
    else:
        allowed = not chunked and (value == UNSIGNED_PAYLOAD or _SHA256.fullmatch(value) is not None)
    if not allowed:
        raise Refused(
            Reason.PAYLOAD_MODE,
            f"x-amz-content-sha256 {value!r} with {context.operation.s3_name}{' and aws-chunked' if chunked else ''}",
        )
    return value


def _is_conditional(headers: dict[str, list[str]], plan: Plan) -> bool:
    return any(lower == "if-match" or headers[name] != ["*"] for lower, name in plan.conditions)
