"""Read the headers of a request that is to be forwarded: which go on, which of them are signed, which are refused."""

from __future__ import annotations

import re
from enum import Enum
from operator import itemgetter

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.header_rules import CHECKS, Context, Treatment, ValueCheck, treatment
from signproxy.s3.rules import OperationsAllowed

_PLANS_KEPT = 1024
"""Clients repeat a handful of header sets; the bound is there for those who do not."""
_KEPT_LENGTH = 1024
"""Characters of the names of a set that is kept."""

# The framing is written with the body, the authentication with the signature, and what proxies before
# us say of the client is not the store's to know: some verify signatures by it.
# What signproxy said of an answer comes back from clients that write an object's headers again.
_DROPPED = frozenset(
    """
    authorization connection content-length date expect forwarded host http2-settings keep-alive proxy-authenticate
    proxy-authorization proxy-connection te trailer transfer-encoding upgrade x-amz-content-sha256 x-amz-date
    x-amz-security-token x-real-ip x-signproxy-event-id
    """.split()
)
_DROPPED_PREFIX = "x-forwarded-"

_SDK = frozenset({"x-amz-api-version", "x-amz-user-agent"})
"""What SDKs say of themselves in headers of S3's own kind."""

_OF_OBJECTS = frozenset(
    """
    x-amz-max-parts x-amz-metadata-directive x-amz-object-attributes x-amz-part-number-marker x-amz-storage-class
    x-amz-tagging x-amz-tagging-directive
    """.split()
)

# Checked wherever they come: they name another object, or the account that must own the bucket.
_ALWAYS_CHECKED = frozenset(
    """
    x-amz-copy-source x-amz-copy-source-if-match x-amz-copy-source-if-modified-since x-amz-copy-source-if-none-match
    x-amz-copy-source-if-unmodified-since x-amz-copy-source-range x-amz-expected-bucket-owner
    x-amz-source-expected-bucket-owner
    """.split()
)

_NEVER = frozenset(
    """
    x-amz-account-id x-amz-replication-status x-amz-request-route x-amz-request-token x-http-method
    x-http-method-override x-method-override x-original-url x-rewrite-url
    """.split()
)
_NEVER_PREFIXES = ("x-amz-fwd-", "x-amz-rename-source", "x-goog-", "x-minio-", "x-signproxy-")
FORCE_DELETE = "x-minio-force-delete"
"""On a bucket it takes along what is in it; on a key it deletes everything whose name begins with the key."""
_AMZ = "x-amz-"

_VALUE = itemgetter(1)
_BLANKS = re.compile(r"[ \t]+")
_CONDITIONS = ("if-match", "if-none-match")


class _Fate(Enum):
    DROPPED = "not sent"
    SENT = "sent, not signed"
    SIGNED = "sent and signed"


class _Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do with one set of header names; depends on the names alone. Numbers are places in the request."""

    signed: tuple[tuple[int, str, ValueCheck | None], ...]
    """Sorted by lower-case name."""
    sent: tuple[int, ...]
    whole: bool
    """Every header is sent."""
    places: dict[str, int]
    """Of headers that say something about the request."""
    conditions: tuple[tuple[str, int], ...]


class ForwardedHeaders(msgspec.Struct, frozen=True, gc=False):
    """What a client's headers say, before their values are looked at."""

    plan: _Plan
    headers: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    sent: tuple[tuple[str, str], ...]
    """Names as spelled and values exactly, of those that go on."""

    def value(self, lower: str) -> str | None:
        """Return the value of one of the headers that say something about the request."""
        place = self.plan.places.get(lower)
        return None if place is None else self.headers[place][1]

    def is_conditional(self) -> bool:
        """Whether the client asks for a condition that is more than not to overwrite."""
        return any(lower == "if-match" or self.headers[at][1] != "*" for lower, at in self.plan.conditions)

    def signed(self, context: Context) -> tuple[tuple[str, str], ...]:
        """Check the values of the headers that are signed; return them as they are signed."""
        headers = self.headers
        signed = []
        for at, lower, check in self.plan.signed:
            value = headers[at][1]
            if check is not None and not check(value, context):
                raise Refused(Reason.HEADER_VALUE, f"{lower}: {value[:256]!r} with {context.operation.s3_name}")
            plain = value.isascii() and " " not in value and "\t" not in value
            signed.append((lower, value if plain else _as_signed(lower, value)))
        return tuple(signed)


_SAID = frozenset(
    {
        "content-encoding",
        "x-amz-content-sha256",
        "x-amz-copy-source",
        "x-amz-decoded-content-length",
        "x-amz-trailer",
        FORCE_DELETE,
    }
)

_plans: dict[OperationsAllowed, dict[tuple[str, ...], _Plan]] = {allowed: {} for allowed in OperationsAllowed}


def read_forwarded(
    headers: tuple[tuple[str, str], ...], names: tuple[str, ...], allowed: OperationsAllowed
) -> ForwardedHeaders:
    """Return what these headers say; refuse names that may not be sent."""
    plans = _plans[allowed]
    plan = plans.get(names)
    if plan is None:
        plan = _plan([lower for lower, _ in headers], allowed)
        if sum(map(len, names)) <= _KEPT_LENGTH:
            if len(plans) >= _PLANS_KEPT:
                plans.clear()
            plans[names] = plan
    if plan.whole:
        sent = tuple(zip(names, map(_VALUE, headers), strict=True))
    else:
        sent = tuple([(names[at], headers[at][1]) for at in plan.sent])
    return ForwardedHeaders(plan, headers, names, sent)


def _plan(lowers: list[str], allowed: OperationsAllowed) -> _Plan:
    sent: list[int] = []
    signed: list[tuple[int, str, ValueCheck | None]] = []
    places: dict[str, int] = {}
    single: set[str] = set()
    for at, lower in enumerate(lowers):
        fate, check = _fate(lower, allowed)
        if fate is not _Fate.DROPPED:
            sent.append(at)
        if fate is _Fate.SIGNED:
            signed.append((at, lower, check))
        if fate is _Fate.SIGNED or lower in _SAID or lower in _CONDITIONS:
            if lower in single:
                raise Refused(Reason.HEADER_REPEATED, f"header {lower!r}")
            single.add(lower)
            places[lower] = at
    return _Plan(
        signed=tuple(sorted(signed, key=lambda each: each[1])),
        sent=tuple(sent),
        whole=len(sent) == len(lowers),
        places={lower: at for lower, at in places.items() if lower in _SAID},
        conditions=tuple((lower, places[lower]) for lower in _CONDITIONS if lower in places),
    )


def _fate(lower: str, allowed: OperationsAllowed) -> tuple[_Fate, ValueCheck | None]:
    """Return what happens to a header, or refuse it."""
    if lower in _DROPPED or lower.startswith(_DROPPED_PREFIX):
        return _Fate.DROPPED, None
    if lower in _SDK or (lower in _OF_OBJECTS and allowed is not OperationsAllowed.TABLE):
        return _Fate.SIGNED, None
    known = treatment(lower)
    if known is Treatment.UNSIGNED:
        return _Fate.SENT, None
    if known is Treatment.SIGNED:
        return _Fate.SIGNED, None
    everything = allowed is OperationsAllowed.ALL
    if known is Treatment.CHECKED:
        return _Fate.SIGNED, None if everything and lower not in _ALWAYS_CHECKED else CHECKS[lower]
    if everything and lower == FORCE_DELETE:
        return _Fate.SIGNED, None
    # What is refused of metadata unpacks an archive anywhere in the bucket.
    if not everything or lower in _NEVER or lower.startswith(_NEVER_PREFIXES) or "snowball" in lower:
        raise Refused(Reason.HEADER_REFUSED, f"header {lower[:128]!r}")
    return _Fate.SIGNED if lower.startswith(_AMZ) else _Fate.SENT, None


def _as_signed(lower: str, value: str) -> str:
    """Return a value as it is signed: its bytes read as UTF-8, runs of blanks folded."""
    try:
        text = value.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise Refused(Reason.HEADER_VALUE, f"{lower}: {value[:256]!r} is not UTF-8") from None
    return _BLANKS.sub(" ", text).strip(" ")
