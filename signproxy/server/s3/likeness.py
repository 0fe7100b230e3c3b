"""Know a request again that differs from one before in its object, and in what nothing here looks at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import compress
from operator import ne
from typing import NamedTuple

from signproxy.transfer.head import RequestHead
from signproxy.transfer.heads import KEPT_BYTES
from signproxy.transfer.refusal import HEADERS_LIMIT, TARGET_LIMIT

FREE = frozenset(("amz-sdk-invocation-id", "amz-sdk-request", "range", "traceparent", "tracestate", "x-amzn-trace-id"))
"""Headers that go on unsigned, and by whose values nothing is found, judged or recorded."""

_VERSION = " HTTP/1.1"
_SIGNATURE = "Signature="
_NOT_SENT, _THE_SIGNATURE, _THE_DATE = -1, -2, -3
"""What a line is that may differ, in place of its place among those that are sent on."""
_PLACES = range(HEADERS_LIMIT + 3)

Lines = dict[int, str]
"""Lines of headers, with their ends, by their place among those that are sent on."""


class Like(NamedTuple):
    """What is another one in a request that is like the one before."""

    name: str
    """The last segment of the path, not looked at yet."""
    lines: Lines
    signature: str
    """The caller's, and its date; those of the first request where they are the same."""
    amz_date: str
    changed: Lines
    """Values of headers that the caller has signed, by their place among all."""


class Likeness:
    """The head of a request without query and body, line by line, and which of its lines may be others."""

    __slots__ = ("_amz_date", "_behind", "_free", "_lines", "_signature", "_signed", "_start")

    def __init__(self, head: RequestHead, sent: Mapping[str, int], signed: Collection[int] | None) -> None:
        """`sent` are the places of headers among those that are sent on, by their names as spelled.

        `signed` are the places of those that the caller's signature covers, where there is one: then it differs,
        and so does its date.
        """
        self._signed = frozenset(signed or ())
        self._start = f"{head.method} {head.target[: head.target.rfind('/') + 1]}"
        self._behind = len(self._start)
        self._lines = _lines_of(head)
        self._free: dict[int, tuple[str, int]] = {}
        """By place among the lines: what the line begins with, and its place among those sent on, or what it is."""
        self._signature = self._amz_date = ""
        for at, (spelled, (lower, value)) in enumerate(zip(head.names, head.headers, strict=True), 1):
            if lower in FREE:
                self._free[at] = f"{spelled}: ", sent.get(spelled, _NOT_SENT)
            elif signed is not None and lower == "authorization":
                before, mark, self._signature = value.rpartition(_SIGNATURE)
                self._free[at] = f"{spelled}: {before}{mark}", _THE_SIGNATURE
            elif signed is not None and lower == "x-amz-date":
                self._amz_date = value
                self._free[at] = f"{spelled}: ", _THE_DATE

    def has(self, head: RequestHead) -> bool:
        """Whether a request is like this one."""
        return self.read("\r\n".join(_lines_of(head)).encode("latin-1")) is not None

    def read(self, data: bytes) -> Like | None:
        """Return what differs, where `data` is one whole request that is like this one."""
        lines = data.decode("latin-1").split("\r\n")
        known = self._lines
        if len(lines) != len(known) or len(data) > KEPT_BYTES:
            return None
        first = lines[0]
        if not (first.startswith(self._start) and first.endswith(_VERSION)) or len(first) > TARGET_LIMIT:
            return None
        sent: Lines = {}
        changed: Lines = {}
        signature, amz_date = self._signature, self._amz_date
        for at in compress(_PLACES, map(ne, lines, known)):
            if not at:
                continue
            free = self._free.get(at)
            if free is None:
                return None
            line = lines[at]
            beginning, place = free
            value = line[len(beginning) :]
            # What nearly all values are needs no grammar to be told.
            if not (line.startswith(beginning) and value.isascii() and value.isprintable() and value.strip() == value):
                return None
            if place >= 0:
                sent[place] = f"{line}\r\n"
            elif place == _THE_SIGNATURE:
                signature = value
            elif place == _THE_DATE:
                amz_date = value
            if at - 1 in self._signed:
                changed[at - 1] = value
        return Like(first[self._behind : -len(_VERSION)], sent, signature, amz_date, changed)


def _lines_of(head: RequestHead) -> list[str]:
    headers = zip(head.names, head.headers, strict=True)
    return [f"{head.method} {head.target}{_VERSION}", *(f"{name}: {value}" for name, (_, value) in headers), "", ""]
