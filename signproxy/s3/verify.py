"""Verify a client's AWS Signature Version 4 as S3 does: decode what came once, encode it again, compare."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import NoReturn

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.presented import SIGNATURE_PARAMETER, Presented
from signproxy.s3.sigv4 import ALGORITHM, Day, derive
from signproxy.s3.uri import decode_once, is_canonical

MAX_SKEW = 900
"""Seconds that the clocks of client and server may differ, as at S3."""

DATE_HEADER = "x-amz-date"

_DAYS_KEPT = 4
_PLAIN_ID = 128
"""Characters, as many as the ids of AWS may have."""
_PAYLOAD = re.compile("[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-[A-Z0-9-]+")
_BLANKS = re.compile(r"[ \t]+")
_AMZ_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")


class Verifier:
    """An access key whose holder signs; what it derives is kept for the dates and regions that were used last."""

    __slots__ = ("_days", "_secret", "access_key_id")

    def __init__(self, access_key_id: str, secret: str) -> None:
        self.access_key_id = access_key_id
        self._secret = secret
        self._days: dict[tuple[str, str], Day] = {}

    def __repr__(self) -> str:
        return f"Verifier({self.access_key_id!r}, <secret>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a verifier is not pickled or copied: its secret stays in this process")

    def day(self, date: str, region: str) -> Day:
        """Return what the key's holder signs with on a date, in a region."""
        day = self._days.get((date, region))
        if day is None:
            day = derive(self.access_key_id, self._secret, date, region, "s3")
            # A region is whatever a client says it is. One assignment swaps the whole dictionary, so that threads
            # never see it half made.
            self._days = {**dict([*self._days.items()][1 - _DAYS_KEPT :]), (date, region): day}
        return day


class SeedSignature(msgspec.Struct, frozen=True, gc=False):
    """A verified signature of a head: the first link of the chain that signed chunks go on with."""

    signature: str
    amz_date: str
    day: Day

    def __repr__(self) -> str:
        return f"SeedSignature({self.amz_date}, {self.day.scope}, <signature>)"


def verify(  # noqa: PLR0913 - a request has this many parts
    presented: Presented,
    key: Verifier,
    method: str,
    raw_path: str,
    raw_query: str | None,
    headers: Sequence[tuple[str, str]],
    now: float,
    *,
    regions: Collection[str] | None = None,
) -> SeedSignature:
    """Return the verified signature; raise Refused where it is not the key's own for exactly this request.

    `raw_path` and `raw_query` are the request target as it came; `headers` are all of the request's, with lower-case
    names and the bytes of each value as the characters of latin-1. `regions` limits the regions of the scope, where
    given.
    """
    amz_date = presented.amz_date
    _check_scope(presented, regions)
    _check_time(presented, int(now))
    named = dict(headers)
    if len(named) != len(headers):
        named = _joined(headers)
    signed = presented.signed_headers
    _check_coverage(named, signed)
    try:
        block = "".join([f"{name}:{named[name]}\n" for name in signed])
    except KeyError as missing:
        raise Refused(Reason.SIGNATURE_MISMATCH, f"signed header {missing} is not in the request") from None
    if "\t" in block or (" " in block and ("  " in block or " \n" in block or ": " in block)):
        block = "".join([f"{name}:{_BLANKS.sub(' ', named[name]).strip(' ')}\n" for name in signed])
    path = raw_path if is_canonical(raw_path) else canonical_path(decode_once(raw_path))
    query = "" if not raw_query else _canonical_query(raw_query, is_presigned=presented.expires is not None)
    request = f"{method}\n{path}\n{query}\n{block}\n{';'.join(signed)}\n{presented.payload}"
    day = key.day(presented.date, presented.region)
    digest = sha256(request.encode("latin-1")).hexdigest()
    signature = day.mac(f"{ALGORITHM}\n{amz_date}\n{day.scope}\n{digest}".encode())
    if not compare_digest(signature, presented.signature):
        told = f"access key {_told(presented.access_key_id)!r}, {day.scope}"
        payload = presented.payload
        if not _PAYLOAD.fullmatch(payload):
            facts = "x-amz-content-sha256", payload
            raise S3Refused(Reason.SIGNATURE_MISMATCH, Fault.CONTENT_SHA256_FORM, *facts, detail=told)
        raise Refused(Reason.SIGNATURE_MISMATCH, told)
    return SeedSignature(signature, amz_date, day)


class Signatures:
    """What is alike in what a key's holder signs.

    Requests have no query; they differ in the last segment of their path, in values of headers, and in their time.
    `presented` is what came with one of them and was verified; `headers` are its own, with no name twice, without
    blanks around their values, and with their time in `x-amz-date`.
    """

    __slots__ = ("_after", "_at", "_before", "_date", "_day", "_lines", "_tail", "_until_date", "places")

    def __init__(
        self, presented: Presented, key: Verifier, method: str, folder: str, headers: Sequence[tuple[str, str]]
    ) -> None:
        """`folder` is what the paths begin with, and its own canonical form."""
        signed = presented.signed_headers
        named = dict(headers)
        self._day = key.day(presented.date, presented.region)
        self._date = presented.amz_date
        self._lines = [f"{name}:{_BLANKS.sub(' ', named[name])}\n" for name in signed]
        self._before = f"{method}\n{folder}"
        self._after = f"\n{';'.join(signed)}\n{presented.payload}"
        self._at = at = signed.index(DATE_HEADER)
        self._until_date = f"\n\n{''.join(self._lines[:at])}{DATE_HEADER}:"
        self._tail = f"\n{''.join(self._lines[at + 1 :])}{self._after}"
        places = {at: signed.index(name) for at, (name, _) in enumerate(headers) if name in signed}
        self.places = {at: line for at, line in places.items() if line != self._at}
        """Of the headers that are signed, but for their time: where each stands among them."""

    def __repr__(self) -> str:
        return f"Signatures({self._day.scope}, ***)"

    def hold(self, name: str, amz_date: str, signature: str, changed: Mapping[int, str], now: float) -> bool:
        """Whether a signature is the holder's for the request with this last segment, which needs no escapes.

        `changed` are the signed headers that are others, by their place: printable ASCII, without blanks around.
        """
        day, until_date, tail = self._day, self._until_date, self._tail
        if amz_date != self._date and not (_AMZ_DATE.fullmatch(amz_date) and amz_date.startswith(day.scope[:8])):
            return False
        earliest, latest = _window(int(now))
        if not earliest <= amz_date <= latest:
            return False
        if changed:
            lines = self._lines.copy()
            for at, value in changed.items():
                if "  " in value:
                    return False
                line = self.places[at]
                lines[line] = f"{lines[line].partition(':')[0]}:{value}\n"
            until_date = f"\n\n{''.join(lines[: self._at])}{DATE_HEADER}:"
            tail = f"\n{''.join(lines[self._at + 1 :])}{self._after}"
        digest = sha256(f"{self._before}{name}{until_date}{amz_date}{tail}".encode("latin-1")).hexdigest()
        expected = day.mac(f"{ALGORITHM}\n{amz_date}\n{day.scope}\n{digest}".encode())
        if not (signature.isascii() and compare_digest(expected, signature)):
            return False
        # Those that follow within the same second have the same, whose form is known.
        self._date = amz_date
        return True


def _told(access_key_id: str) -> str:
    """Return an id for the operator; one that holds what a session token holds is not written down whole."""
    return access_key_id if len(access_key_id) <= _PLAIN_ID else f"...{access_key_id[-4:]}"


def _check_scope(presented: Presented, regions: Collection[str] | None) -> None:
    if not _AMZ_DATE.fullmatch(presented.amz_date):
        told = "a time of signing that is not YYYYMMDDTHHMMSSZ"
        raise S3Refused(Reason.AUTHORIZATION_MALFORMED, Fault.DATE_HEADER, detail=told)
    in_query = presented.expires is not None
    if not presented.amz_date.startswith(presented.date):
        told = f"dated {presented.amz_date}, signed for {presented.date}"
        fault = Fault.QUERY_DATES if in_query else Fault.DATES
        raise S3Refused(Reason.SCOPE_MISMATCH, fault, presented.date, presented.amz_date[:8], detail=told)
    if regions is not None and presented.region not in regions:
        told = f"signed for region {presented.region!r}"
        if len(regions) != 1:
            raise Refused(Reason.SCOPE_MISMATCH, told)
        (expected,) = regions
        fault = Fault.QUERY_CREDENTIAL_REGION if in_query else Fault.CREDENTIAL_REGION
        raise S3Refused(Reason.SCOPE_MISMATCH, fault, presented.region, expected, detail=told)


def _check_time(presented: Presented, now: int) -> None:
    earliest, latest = _window(now)
    # Both are the same number of digits: what sorts later is later.
    if presented.expires is None:
        if not earliest <= presented.amz_date <= latest:
            raise _skewed(presented, now, f"dated {presented.amz_date}")
        return
    if presented.amz_date > latest:
        raise _skewed(presented, now, f"dated {presented.amz_date}, ahead of the time")
    if presented.amz_date <= _written(now - presented.expires):
        told = f"dated {presented.amz_date}, good for {presented.expires} s"
        ended = _iso(_written(_moment(presented.amz_date) + presented.expires))
        facts = str(presented.expires), ended, _iso(_written(now))
        raise S3Refused(Reason.SIGNATURE_EXPIRED, Fault.URL_EXPIRED, *facts, detail=told)


def _skewed(presented: Presented, now: int, told: str) -> Refused:
    facts = presented.amz_date, _iso(_written(now)), str(MAX_SKEW * 1000)
    return S3Refused(Reason.TIME_SKEWED, Fault.SKEWED, *facts, detail=told)


@lru_cache(maxsize=4)
def _window(now: int) -> tuple[str, str]:
    """Return the earliest and the latest date that a clock which is right enough shows."""
    return _written(now - MAX_SKEW), _written(now + MAX_SKEW)


def _written(moment: int) -> str:
    """Write a Unix time as x-amz-date has it."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(moment))


def _moment(written: str) -> int:
    """Return the Unix time of an x-amz-date; of a date that no calendar has, some time near it."""
    year, month, day = int(written[:4]), int(written[4:6]), int(written[6:8])
    # Years that begin in March: the day that not every year has is their last one.
    year, month = (year - 1, month + 9) if month <= 2 else (year, month - 3)
    days = year * 365 + year // 4 - year // 100 + year // 400 + (month * 153 + 2) // 5 + day - 719_469
    return days * 86_400 + int(written[9:11]) * 3600 + int(written[11:13]) * 60 + int(written[13:15])


def _iso(written: str) -> str:
    """Write an x-amz-date as S3's errors do."""
    day, clock = written[:8], written[9:15]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}Z"


def _joined(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the values of each name as one text: a second one that was slipped in must not go unseen."""
    named: dict[str, str] = {}
    for name, value in headers:
        named[name] = f"{named[name]},{value}" if name in named else value
    return named


def _check_coverage(named: dict[str, str], signed: tuple[str, ...]) -> None:
    """Refuse what the client's signature does not bind: signed anew, it would be laundered into a command."""
    unsigned = [name for name in named if name.startswith("x-amz-") and name not in signed]
    if "host" not in signed:
        unsigned.append("host")
    if unsigned:
        names = ", ".join(sorted(unsigned))
        # S3 names them as well, and the caller sent them.
        raise S3Refused(Reason.HEADERS_NOT_SIGNED, Fault.UNSIGNED_HEADERS, names, detail=names)


def _canonical_query(raw_query: str, *, is_presigned: bool) -> str:
    pairs = []
    for part in raw_query.split("&"):
        if not part:
            continue
        raw_name, _, raw_value = part.replace("+", " ").partition("=")
        name = decode_once(raw_name)
        if is_presigned and name == SIGNATURE_PARAMETER:
            continue
        pairs.append((name, decode_once(raw_value)))
    return canonical_query(pairs)
