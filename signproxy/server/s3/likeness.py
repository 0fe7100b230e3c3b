"""Know a request again that differs from one before in its object, and in what nothing here looks at."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from signproxy.transfer.head import RequestHead
from signproxy.transfer.heads import KEPT_BYTES
from signproxy.transfer.refusal import TARGET_LIMIT

FREE = frozenset(("amz-sdk-invocation-id", "amz-sdk-request", "range", "traceparent", "tracestate", "x-amzn-trace-id"))
"""Headers that go on unsigned, and by whose values nothing is found, judged or recorded."""

_VERSION = " HTTP/1.1"
_SIGNATURE = "Signature="
_NOT_SENT, _THE_SIGNATURE, _THE_DATE, _A_DATE = -1, -2, -3, -4
"""What a value is that may differ, in place of its header's place among those that are sent on."""

Lines = dict[int, str]
"""Lines of headers, with their ends, by their place among those that are sent on."""

Like = tuple[str, Lines, str, str, Lines]
"""What is another one in a request that is like the one before: the last segment of its path, not looked at yet; lines
of headers; the caller's signature, and its date, those of the first request where they are the same; and values of
headers that the caller has signed besides, by their place among all."""


class _Free(msgspec.Struct, frozen=True, gc=False):
    """A value that may be another one."""

    place: int
    """Of its header among those that are sent on, or what it is."""
    name: str
    """Of its header, as spelled."""
    signed: int
    """The place of its header among all, where the caller has signed it; else -1."""


class Likeness:
    """The head of a request without query and body, and which of its values may be others.

    What lies between them is one text that has to be there byte for byte.
    """

    __slots__ = ("_amz_date", "_behind", "_last", "_parts", "_signature", "_start")

    def __init__(self, head: RequestHead, sent: Mapping[str, int], signed: Collection[int] | None) -> None:
        """`sent` are the places of headers among those that are sent on, by their names as spelled.

        `signed` are the places of those that the caller's signature covers, where there is one: then it differs,
        and so does its date, which is not among them.
        """
        self._start = f"{head.method} {head.target[: head.target.rfind('/') + 1]}".encode("latin-1")
        self._behind = len(self._start)
        self._signature = self._amz_date = ""
        parts: list[tuple[bytes, int, bytes, _Free]] = []
        text = f"{_VERSION}\r\n"
        for at, (spelled, (lower, value)) in enumerate(zip(head.names, head.headers, strict=True)):
            before, mark, known = "", "", value
            if lower in FREE:
                place = sent.get(spelled, _NOT_SENT)
            elif signed is not None and lower == "authorization":
                before, mark, known = value.rpartition(_SIGNATURE)
                place, self._signature = _THE_SIGNATURE, known
            elif signed is not None and lower == "x-amz-date":
                # Where a signature proves nothing, no caller's date is looked at.
                place, self._amz_date = _THE_DATE if signed else _A_DATE, value
            else:
                text = f"{text}{spelled}: {value}\r\n"
                continue
            fixed = f"{text}{spelled}: {before}{mark}".encode("latin-1")
            free = _Free(place, spelled, at if signed is not None and at in signed else -1)
            parts.append((fixed, len(fixed), known.encode("latin-1"), free))
            text = "\r\n"
        self._parts = tuple(parts)
        """What stands before each value, how long that is, and the value as it was."""
        self._last = f"{text}\r\n".encode("latin-1")

    def has(self, head: RequestHead) -> bool:
        """Whether a request is like this one."""
        headers = zip(head.names, head.headers, strict=True)
        lines = "".join(f"{name}: {value}\r\n" for name, (_, value) in headers)
        return self.read(f"{head.method} {head.target}{_VERSION}\r\n{lines}\r\n".encode("latin-1")) is not None

    def read(self, data: bytes) -> Like | None:
        """Return what differs, where `data` is one whole request that is like this one."""
        behind = self._behind
        end = data.find(b"\r\n", behind)
        at = end - len(_VERSION)
        if at < behind or end > TARGET_LIMIT or len(data) > KEPT_BYTES or not data.startswith(self._start):
            return None
        name = data[behind:at].decode("latin-1")
        sent: Lines = {}
        changed: Lines = {}
        signature, amz_date = self._signature, self._amz_date
        for fixed, length, known, free in self._parts:
            if not data.startswith(fixed, at):
                return None
            begin = at + length
            at = data.find(b"\r\n", begin)
            value = data[begin:at]
            if value == known:
                continue
            text, place = value.decode("latin-1"), free.place
            # What reads these two knows what they have to be; of the others nothing is known.
            if place == _THE_SIGNATURE:
                signature = text
                continue
            if place == _THE_DATE:
                amz_date = text
                continue
            # What nearly all values are needs no grammar to be told.
            if not (text.isascii() and text.isprintable() and text.strip() == text):
                return None
            if place >= 0:
                sent[place] = f"{free.name}: {text}\r\n"
            elif place == _A_DATE and not text:
                # As if it were not there: another header would have to tell the time.
                return None
            if free.signed >= 0:
                changed[free.signed] = text
        return (name, sent, signature, amz_date, changed) if data[at:] == self._last else None
