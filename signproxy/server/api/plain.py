"""Read a request that came whole and in the plainest form of HTTP/1.1.

This reader is strict instead of clever: what it does not recognise at first sight, byte for byte, is left to aiohttp's
parser. It never holds bytes back, so the two cannot disagree on where a message ends.
"""

from __future__ import annotations

import re

from signproxy.identity.authenticator import Known
from signproxy.server.api.routes import Route

# Possessive: a value of blanks that does not end as it should would else be tried once for each of them.
# Blanks that end a value are no part of it: aiohttp's parser takes them off.
_LINE = re.compile(r"(?m)^([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([\t\x20-\x7e]*+)(?<![ \t])\r\n")
_PATH = re.compile(r"/[!-~]*")
_VERSION = b" HTTP/1.1"

# What changes how the message is read or answered. `keep-alive` is what HTTP/1.1 means anyway.
_SPECIAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Trailer", "Te"})


_LONGEST = 16 * 1024
_MOST_LINES = 100
"""Of a head: what has more is left to aiohttp, which refuses a line of more than 24 KiB and more than 128 headers."""

_HEADS_KEPT = 4
_KEPT_LENGTH = 4096
"""Of one connection: what strangers and callers send must not add up to more than 16 KB each."""


_LENGTH = b"\r\nContent-Length: "


class Head:
    """The head of a plain request, but for the length of its body, and who was found behind its token."""

    __slots__ = ("bearer", "headers", "known", "path", "query", "route")

    def __init__(self, path: str, headers: dict[str, str]) -> None:
        self.path = path
        self.headers = headers
        self.known: Known | None = None
        self.route: Route | None = None
        """Where it leads, once that was looked up, and the query behind that."""
        self.query = ""
        self.bearer = ""
        """The caller's own token, which a table token holds sealed; empty where no upstream is asked."""


class Heads:
    """The heads that came over one connection.

    An engine's requests for the files of one table differ in their bodies alone: what is the same byte for byte, the
    length of the body excepted, is read once.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[bytes, Head] = {}

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body if these bytes are exactly one plain POST, else None."""
        end = data.find(b"\r\n\r\n")
        # Without an end, the length would be compared with that of a body which has not come.
        at = -1 if end < 0 else data.find(_LENGTH, 0, end)
        if at < 0:
            return None
        digits = at + len(_LENGTH)
        stop = data.find(b"\r\n", digits, end + 2)
        # No head that was read has the header twice, so that one which has it twice equals none of them.
        rest = data[:at] + data[stop:end]
        head = self._kept.get(rest)
        if head is None or data[digits:stop] != b"%d" % (len(data) - end - 4):
            head = _read(data)
            if head is None:
                return None
            if end <= _KEPT_LENGTH:
                if len(self._kept) >= _HEADS_KEPT:
                    self._kept.clear()
                self._kept[rest] = head
        return head, data[end + 4 :]


def _read(data: bytes) -> Head | None:
    """Return the head if these bytes are exactly one plain POST, else None.

    Header names have to be spelled as in `Content-Length`, as the HTTP libraries of all Iceberg clients do: then no
    two spellings of one name can meet.
    """
    if not data.startswith(b"POST /"):
        return None
    line_end = data.find(b"\r\n")
    head_end = data.find(b"\r\n\r\n", line_end)
    if not 0 <= head_end <= _LONGEST or not data.endswith(_VERSION, 0, line_end):
        return None
    try:
        text = data[: head_end + 2].decode("ascii")
    except UnicodeDecodeError:
        return None
    lines = _LINE.findall(text, line_end + 2)
    headers: dict[str, str] = dict(lines)
    path = text[5 : line_end - len(_VERSION)]
    if (
        # Every line is a header, and none of them is there twice.
        len(lines) != text.count("\n") - 1
        or len(lines) > _MOST_LINES
        or len(headers) != len(lines)
        or not ",".join(headers).istitle()
        or not _PATH.fullmatch(path)
        or "Host" not in headers
        or headers.pop("Content-Length", "") != str(len(data) - head_end - 4)
        or headers.get("Connection", "keep-alive").lower() != "keep-alive"
        or not _SPECIAL.isdisjoint(headers)
    ):
        return None
    return Head(path, headers)
