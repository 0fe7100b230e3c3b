"""Read a request that came whole and in the plainest form of HTTP/1.1.

This reader is strict instead of clever: what it does not recognise at first sight, byte for byte, is left to aiohttp's
parser. It never holds bytes back, so the two cannot disagree on where a message ends.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"(?m)^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e]*)\r\n")
_PATH = re.compile(r"/[!-~]*")
_VERSION = b" HTTP/1.1"

# What changes how the message is read or answered. `keep-alive` is what HTTP/1.1 means anyway.
_SPECIAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Trailer", "Te"})


def read_plain(data: bytes) -> tuple[str, dict[str, str], bytes] | None:
    """Return path, headers and body if these bytes are exactly one plain POST, else None.

    Header names have to be spelled as in `Content-Length`, as the HTTP libraries of all Iceberg clients do: then no
    two spellings of one name can meet.
    """
    if not data.startswith(b"POST /"):
        return None
    line_end = data.find(b"\r\n")
    head_end = data.find(b"\r\n\r\n", line_end)
    if head_end < 0 or not data.endswith(_VERSION, 0, line_end):
        return None
    try:
        head = data[: head_end + 2].decode("ascii")
    except UnicodeDecodeError:
        return None
    lines = _LINE.findall(head, line_end + 2)
    headers: dict[str, str] = dict(lines)
    path = head[5 : line_end - len(_VERSION)]
    if (
        # Every line is a header, and none of them is there twice.
        len(lines) != head.count("\n") - 1
        or len(headers) != len(lines)
        or not ",".join(headers).istitle()
        or not _PATH.fullmatch(path)
        or "Host" not in headers
        or headers.get("Content-Length") != str(len(data) - head_end - 4)
        or headers.get("Connection", "keep-alive").lower() != "keep-alive"
        or not _SPECIAL.isdisjoint(headers)
    ):
        return None
    return path, headers, data[head_end + 4 :]
