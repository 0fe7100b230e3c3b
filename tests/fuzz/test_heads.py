"""Bend heads as clients and stores send them: each is read, or refused with its fault, and never in two ways."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import BodyFraming, RequestHead, read_request_head, read_response_head
from tests.transfer.test_head import SMUGGLING

SEEDS: tuple[bytes, ...] = (
    b"GET /b/k?x-id=GetObject HTTP/1.1\r\nHost: a:8182\r\nRange: bytes=0-1\r\nConnection: Keep-Alive\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nx-amz-meta-a: b\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n\r\n",
    *(data + b"\r\n" for _, data, _ in SMUGGLING),
)
WORDS = (
    b"\r\n", b"\n", b"\r", b"\r\n ", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"_", b"\x0b", b"\x85", b"\xa0",
    b"Content-Length: 5\r\n", b"Content-Length: 6\r\n", b"Transfer-Encoding: chunked\r\n", b"chunked", b"Host: b\r\n",
    b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/1.1", b"/", b"#",
)  # fmt: skip


def _bent(data: bytes, chance: Random) -> bytes:
    at = chance.randint(0, len(data))
    word = chance.choice(WORDS) if chance.random() < 0.8 else chance.randbytes(1)
    return data[:at] + word + data[at + chance.choice((0, 0, 0, 1, 4)) :]


def _check(data: bytes, head: RequestHead) -> None:
    """Compare what was read with the bytes, in the simplest way there is."""
    first, *lines = data[:-4].decode("latin-1").split("\r\n")
    assert first.split(" ")[:2] == [head.method, head.target]
    pairs = [(name.lower(), value.strip(" \t")) for name, _, value in (line.partition(":") for line in lines)]
    assert list(head.headers) == pairs
    lengths = [value for name, value in pairs if name == "content-length"]
    codings = [value for name, value in pairs if name == "transfer-encoding"]
    match head.body:
        case BodyFraming.CHUNKED:
            assert (lengths, codings) == ([], ["chunked"])
        case BodyFraming.SIZED:
            assert (lengths, codings) == ([str(head.length)], [])
        case _:
            assert (lengths, codings) == ([], [])


@settings(max_examples=400)
@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False), st.integers(0, 4))
def test_a_bent_head_is_read_in_the_one_way_or_refused(data: bytes, chance: Random, times: int) -> None:
    """A head that is read in a second way carries a request that was not judged."""
    for _ in range(times):
        data = _bent(data, chance)
    with contextlib.suppress(MessageInvalid):
        _check(data, read_request_head(data))


@given(st.binary(max_size=400), st.sampled_from((b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b"HTTP/1.1 200 OK\r\n")))
def test_any_bytes_are_a_head_or_a_fault(data: bytes, start: bytes) -> None:
    """Whatever arrives has an answer; an error of Python's own is none."""
    with contextlib.suppress(MessageInvalid):
        read_request_head(start + data)
    with contextlib.suppress(MessageInvalid):
        read_response_head(start + data, "GET")


@pytest.mark.parametrize("seed", (0, 1))
def test_a_search_reads_some_and_refuses_others(seed: int) -> None:
    """A search that only ever meets refusals compares nothing."""
    chance = Random(seed)
    read = 0
    for number in range(1000):
        with contextlib.suppress(MessageInvalid):
            read_request_head(_bent(SEEDS[number % 3], chance))
            read += 1
    assert 100 <= read <= 900
