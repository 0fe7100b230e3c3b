"""Prove that the reader of plain requests costs no more than what it reads."""

from __future__ import annotations

from timeit import repeat

import pytest

from signproxy.server.plain import Heads


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


def test_a_line_of_blanks_is_read_once() -> None:
    """A stranger could else keep a worker busy for seconds with one request, and nobody be served meanwhile."""
    # Tried once for each blank, sixteen times as many would cost 256 times as much.
    assert _seconds(16 * 1024) < 64 * _seconds(1024)
