"""Bend the heads of messages where readers of them may differ: line by line, and anywhere."""

from __future__ import annotations

from random import Random

from signproxy.transfer.refusal import HEAD_LIMIT, TARGET_LIMIT
from tests.e2e.readers.search import bent

METHODS = (
    b"GET", b"GET", b"HEAD", b"HEAD", b"PUT", b"PUT", b"POST", b"DELETE", b"OPTIONS", b"get", b"", b"G-T", b"A" * 20,
    b"A" * 21,
)  # fmt: skip
TARGETS = (
    b"/", b"/b/k", b"/b/k/2.a?x-id=b", b"/b//k", b"/b/%2e%2E/k", b"/b/k#x", b"/b k", b"/\xe9", b"/\x7f", b"//", b"*",
    b"", b"b/k", b"http://a/b/k", b"a:1", b"/" + b"a" * (TARGET_LIMIT - 1), b"/" + b"a" * TARGET_LIMIT,
    b"/?" + b"a" * TARGET_LIMIT,
)  # fmt: skip
VERSIONS = (
    b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2", b"http/1.1", b"HTTP/1.10",
    b"", b"ICY",
)  # fmt: skip
CODES = (
    b"200", b"200", b"204", b"206", b"304", b"404", b"500", b"100", b"101", b"103", b"99", b"600", b"0200", b"20", b"",
    b"2 0",
)  # fmt: skip
REASONS = (b" OK", b" ", b"", b" a  b", b" \t", b" caf\xe9", b" \x00", b"  OK", b"\tOK")

WORDS = (
    b"\r\n", b"\n", b"\r", b"\r\n ", b"\0", b" ", b"  ", b"\t", b":", b": ", b" :", b",", b";", b"_", b"\x0b", b"\x85",
    b"\xa0", b"\x7f", b"\xe9", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"chunked", b"Host: b\r\n",
    b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/1.1", b"/", b"#",
    b"?", b"%2e", b"%2F", b"..", b"-", b"X", b"x", b"=",
)  # fmt: skip
VALUES = (
    b"", b" ", b"\t", b" x", b"x ", b"x\t", b"a  b", b"a\tb", b"0", b"00", b"5", b"05", b"close", b"keep-alive",
    b"Keep-Alive", b"close, te", b"upgrade", b"Upgrade, HTTP2-Settings", b"chunked", b"gzip, chunked", b"100-continue",
    b"100-Continue", b"200-ok", b"bytes=0-1", b"caf\xe9", b"\x80", b"\x01", b"a:b", b": ", b"a" * 300, b"h2c", b"h:1",
    b"h@b", b"[::1]:80",
)  # fmt: skip
LINES = (
    b"", b" folded: x", b"\tx", b"X-More: 1", b"X-More:1", b"X-More", b"X-More:", b"x_amz_acl: a", b"X Y: z", b":",
    b": x", b"Range: bytes=1-2", b"host: b", b"Expect: 100-continue", b"Content-Length: 0", b"x-amz-meta-a: 1",
    b"X-Amz-Meta-A: 2", b"Connection: close", b"Upgrade: h2c", b"x-amz-object-attributes: ETag",
)  # fmt: skip


def bent_head(data: bytes, chance: Random) -> bytes:
    """Return a head with a change, seldom more, that ends with its first empty line."""
    for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 3))):
        data = _line_bent(data, chance) if chance.random() < 0.7 else bent(data, WORDS, chance)
    return whole(data)


def whole(data: bytes) -> bytes:
    """Return bytes up to the first empty line, with one at their end."""
    return data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def first_bent(line: bytes, chance: Random) -> bytes:
    """Return a first line with at least one part of it picked anew."""
    anew = chance.choice((1, 1, 2, 2, 4, 4, 4, 3, 5, 6, 7))
    if line.startswith(b"HTTP/"):
        version, _, rest = line.partition(b" ")
        code, reason = rest[:3], rest[3:]
        version = chance.choice(VERSIONS) if anew & 4 else version
        return (
            version
            + b" "
            + (chance.choice(CODES) if anew & 1 else code)
            + (chance.choice(REASONS) if anew & 2 else reason)
        )
    method, _, rest = line.partition(b" ")
    target, _, version = rest.rpartition(b" ")
    return b" ".join(
        (
            chance.choice(METHODS) if anew & 1 else method,
            chance.choice(TARGETS) if anew & 2 else target,
            chance.choice(VERSIONS) if anew & 4 else version,
        )
    )


def first_anew(data: bytes, chance: Random) -> bytes:
    """Return a head that differs in its first line alone."""
    line, end, lines = data.partition(b"\r\n")
    return first_bent(line, chance) + end + lines


def of_lines(data: bytes, count: int) -> bytes:
    """Return a head with so many headers, where it has fewer."""
    more = range(count - data.count(b"\r\n") + 2)
    return data[:-2] + b"".join(b"X-M%d: %d\r\n" % (number, number) for number in more) + b"\r\n"


def _line_bent(data: bytes, chance: Random) -> bytes:
    lines = data[:-4].split(b"\r\n")
    at = chance.choice((0, len(lines) - 1, chance.randrange(len(lines)), chance.randrange(len(lines))))
    line = lines[at]
    if not at and chance.random() < 0.6:
        return first_anew(data, chance)
    name, colon, value = line.partition(b": ")
    match chance.randrange(10):
        case 0 | 1 | 2:
            lines[at] = name + colon + chance.choice(VALUES)
        case 3:
            lines[at] = chance.choice(
                (name, name + b":", name + b":" + value, name + b" : " + value, name + b":\t" + value)
            )
        case 4:
            lines[at] = chance.choice((name.lower(), name.upper(), name.swapcase())) + colon + value
        case 5:
            lines[at] = line + chance.choice((b" ", b"\t", b" \t ", b"\x00", b"x"))
        case 6:
            lines.insert(at, chance.choice((line, chance.choice(LINES))))
        case 7:
            del lines[at]
        case 8:
            size = max(0, HEAD_LIMIT - len(data) + chance.choice((-1, 0, 0, 1, 1)))
            lines[at] = chance.choice((line + b"a" * size, name + colon + value + b" " * size))
        case _:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
    return b"\r\n".join(lines) + b"\r\n\r\n"
