"""Prove that the reader of plain requests costs no more than what it reads."""

from __future__ import annotations

from timeit import repeat

import pytest

from signproxy.server.api import plain
from signproxy.server.api.listener import MAX_HEADER
from signproxy.server.api.plain import Heads

HEAD = b"POST /v1/aws/s3/sign HTTP/1.1\r\nHost: h\r\nContent-Length: "


def _seconds(blanks: int) -> float:
    """Return the time for a head that is none, because of what ends its long line."""
    data = b"POST /v1/aws/s3/sign HTTP/1.1\r\nX:%b\rX\r\nContent-Length: 0\r\n\r\n" % (b" " * blanks)
    heads = Heads()
    assert heads.read(data) is None
    return min(repeat(lambda: heads.read(data), number=3, repeat=5))


@pytest.mark.parametrize("behind", (b" ", b"\t", b" \t "))
def test_blanks_that_end_a_value_are_left_to_aiohttp(behind: bytes) -> None:
    """A client's request id would be echoed or replaced for how its bytes happened to arrive."""
    data = b"POST /v1/aws/s3/sign HTTP/1.1\r\nHost: h\r\nX-Request-Id: r-1%b\r\nContent-Length: 0\r\n\r\n"
    assert Heads().read(data % b"") is not None
    assert Heads().read(data % behind) is None


def test_a_head_whose_end_has_not_come_is_no_message_on_a_warm_connection() -> None:
    """A head that came in two pieces, the first of them of a fitting length, was answered before its body was there.

    The body was then read as the next request of the connection.
    """
    heads = Heads()
    assert heads.read(HEAD + b"2\r\n\r\n{}") is not None
    size = len(HEAD) + 2 + 1 - 3
    unended = HEAD + b"%d" % size + b"0"
    assert len(unended) - 3 == size
    assert heads.read(unended) is None


@pytest.mark.parametrize("said", (b"12", b"02", b"20", b"2 ", b"+2", b"1", b""))
def test_a_length_that_is_not_the_bodys_is_left_to_aiohttp_on_a_warm_connection_too(said: bytes) -> None:
    """What is left of a body, or missing of it, would be the beginning of another request, or be taken from it."""
    heads = Heads()
    assert heads.read(HEAD + b"2\r\n\r\n{}") is not None
    assert heads.read(HEAD + said + b"\r\n\r\n{}") is None
    assert heads.read(HEAD + b"2\r\n\r\n[]") is not None


def _of(size: int, lines: int) -> bytes:
    """Return a request whose head has so many bytes and headers."""
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n"
    head += b"".join(b"X-%d: x\r\n" % number for number in range(lines - 3)) + b"X: "
    return head + b"x" * (size - len(head)) + b"\r\n\r\n"


def test_what_aiohttp_refuses_for_its_size_is_not_read_at_first_sight() -> None:
    """A head would be served or refused for how its bytes happened to arrive."""
    assert plain._LONGEST <= MAX_HEADER
    for size, lines in ((plain._LONGEST, 10), (4000, plain._MOST_LINES)):
        assert Heads().read(_of(size, lines)) is not None
    for size, lines in ((plain._LONGEST + 1, 10), (4000, plain._MOST_LINES + 1)):
        assert Heads().read(_of(size, lines)) is None


def test_a_line_of_blanks_is_read_once() -> None:
    """A stranger could keep a worker busy for seconds with one request, and no caller would be served meanwhile."""
    # Tried once for each blank, fifteen times as many would cost 225 times as much; more are not read at all.
    assert plain._LONGEST > 15 * 1024 + 100
    assert _seconds(15 * 1024) < 64 * _seconds(1024)
