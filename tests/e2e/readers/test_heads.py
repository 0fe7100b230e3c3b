"""A head that is much like the one before is read as if it were the first."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from signproxy.transfer import heads as module
from signproxy.transfer.faults import MessageFault, MessageInvalid
from signproxy.transfer.head import read_request_head, read_response_head
from signproxy.transfer.heads import RequestHeads, ResponseHeads
from signproxy.transfer.refusal import HEADERS_LIMIT
from tests.e2e.readers.bent_heads import bent_head, first_anew, of_lines
from tests.e2e.readers.search import AMOUNTS, Search, counted, outcome_of

REQUESTS = (
    b"GET /b/k/1.a HTTP/1.1\r\nHost: a:8182\r\nRange: bytes=0-1\r\nUser-Agent: x\r\nConnection: Keep-Alive\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nx-amz-meta-a: b\r\nEmpty: \r\n\r\n",
    b"PUT /b/k?x-id=a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: a\r\nx-amz-meta-a: b\r\nContent-Length: 5\r\nx-amz-meta-a: c\r\n\r\n",
    b"HEAD /b/k HTTP/1.0\r\nHost: a\r\nx-amz-meta-my_name: b\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    of_lines(b"DELETE /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", HEADERS_LIMIT),
)
ANSWERS = (
    b'HTTP/1.1 200 OK\r\nx-amz-request-id: 1\r\nETag: "x"\r\nContent-Length: 5\r\nDate: now\r\n\r\n',
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\nx-empty: \r\n\r\n",
    b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nContent-Length: 0\r\nVary: a\r\n\r\n",
    b"HTTP/1.0 204\r\nServer: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\n",
    of_lines(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", HEADERS_LIMIT),
)
ENDS = (b"", b"\r", b"\n", b"x", b"x\r\n", b"X: 1\r\n", b"\r\nx", b"X: 1")
LIKE = 4000
"""Bytes of a head that others are made from: those that grew go on in a shorter form."""
METHODS = ("GET", "GET", "GET", "HEAD", "PUT", "DELETE")


class _Told(NamedTuple):
    """What a first line says; of an answer its version, its code and its reason."""

    method: str
    target: str
    version: str

    @classmethod
    def of(cls, data: bytes) -> _Told:
        parts = data.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
        return cls(*[*parts, "", ""][:3])


def next_of(like: bytes, chance: Random) -> bytes:
    """Return a head that may follow another one on its connection, seldom one whose end is none."""
    data = first_anew(like, chance) if chance.random() < 0.3 else bent_head(like, chance)
    return data[:-2] + chance.choice(ENDS) if chance.random() < 0.02 else data


@AMOUNTS
def test_a_request_is_read_as_the_first(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the quick reader takes is smuggled past the strict one by a request before it."""
    search = Search("heads of requests", cases)
    chance, seen = search.chance, search.seen
    counted(monkeypatch, module, "read_request_head", search)
    heads, like, kept = RequestHeads(), REQUESTS[0], False
    for _ in search:
        if chance.random() < 0.02:
            heads, like = RequestHeads(), chance.choice(REQUESTS)
            heads.read(like)
        elif not kept:
            # Behind a refusal the connection ends; here it goes on, with the head before it in mind.
            outcome_of(heads.read, MessageInvalid, like)
        before = seen["as the first"]
        data = next_of(like, chance)
        strict = outcome_of(read_request_head, MessageInvalid, data)
        found = outcome_of(heads.read, MessageInvalid, data)
        assert found == strict, search.told(like, data)
        seen["refused" if isinstance(strict, str) else "read"] += 1
        if seen["as the first"] == before:
            seen["known again"] += 1
            told, told_before = _Told.of(data), _Told.of(like)
            seen["known again with another method"] += told.method != told_before.method
            seen["known again with another version"] += told.version != told_before.version
            seen["known again with another target"] += told.target != told_before.target
            seen["known again and refused"] += isinstance(strict, str)
        if isinstance(strict, str):
            seen["too long a target"] += MessageFault.TARGET_TOO_LONG.value in strict
            seen["too long a head"] += MessageFault.HEAD_TOO_LARGE.value in strict
        kept = not isinstance(strict, str) and len(data) < LIKE
        if kept:
            like = data
    search.met(
        refused=0.15,
        read=0.2,
        **{
            "known again": 0.15,
            "known again with another method": 0.03,
            "known again with another version": 0.01,
            "known again with another target": 0.02,
            "known again and refused": 0.01,
            "too long a target": 0.005,
            "too long a head": 0.008,
        },
    )


@AMOUNTS
def test_an_answer_is_read_as_the_first(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store's bytes that are read in two ways become the beginning of another caller's answer."""
    search = Search("heads of answers", cases)
    chance, seen = search.chance, search.seen
    counted(monkeypatch, module, "read_response_head", search)
    heads, like, asked = ResponseHeads(), ANSWERS[0], "GET"
    kept = False
    for _ in search:
        if chance.random() < 0.02:
            heads, like = ResponseHeads(), chance.choice(ANSWERS)
            heads.read(like, asked)
        elif not kept:
            outcome_of(heads.read, MessageInvalid, like, asked)
        before = seen["as the first"]
        data = next_of(like, chance)
        method = asked if chance.random() < 0.7 else chance.choice(METHODS)
        strict = outcome_of(read_response_head, MessageInvalid, data, method)
        found = outcome_of(heads.read, MessageInvalid, data, method)
        assert found == strict, search.told(like, asked, data, method)
        seen["refused" if isinstance(strict, str) else "read"] += 1
        if seen["as the first"] == before:
            seen["known again"] += 1
            told, told_before = _Told.of(data), _Told.of(like)
            seen["known again with another status"] += told.target != told_before.target
            seen["known again with another version"] += told.method != told_before.method
            seen["known again to another method"] += method != asked
            seen["known again and refused"] += isinstance(strict, str)
        if isinstance(strict, str):
            seen["too long a head"] += MessageFault.HEAD_TOO_LARGE.value in strict
        kept = not isinstance(strict, str) and len(data) < LIKE
        if kept:
            like, asked = data, method
    search.met(
        refused=0.1,
        read=0.3,
        **{
            "known again": 0.3,
            "known again with another status": 0.03,
            "known again with another version": 0.01,
            "known again to another method": 0.03,
            "known again and refused": 0.008,
            "too long a head": 0.008,
        },
    )
