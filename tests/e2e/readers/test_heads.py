"""A head that is much like the one before is read as if it were the first."""

from __future__ import annotations

from typing import Any

import pytest

from signproxy.transfer import heads as module
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import read_request_head, read_response_head
from signproxy.transfer.heads import RequestHeads, ResponseHeads
from tests.e2e.readers.bent_heads import bent_head
from tests.e2e.readers.search import AMOUNTS, Search, outcome_of

REQUESTS = (
    b"GET /b/k/1.a HTTP/1.1\r\nHost: a:8182\r\nRange: bytes=0-1\r\nUser-Agent: x\r\nConnection: Keep-Alive\r\n\r\n",
    b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nx-amz-meta-a: b\r\nEmpty: \r\n\r\n",
    b"PUT /b/k?x-id=a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n\r\n",
    b"HEAD /b/k HTTP/1.0\r\nHost: a\r\nx-amz-meta-my_name: b\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
)
ANSWERS = (
    b'HTTP/1.1 200 OK\r\nx-amz-request-id: 1\r\nETag: "x"\r\nContent-Length: 5\r\nDate: now\r\n\r\n',
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\nx-empty: \r\n\r\n",
    b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\nContent-Length: 0\r\nVary: a\r\n\r\n",
    b"HTTP/1.0 204\r\nServer: x\r\n\r\n",
)
METHODS = ("GET", "GET", "GET", "HEAD", "PUT", "DELETE")


def counted(monkeypatch: pytest.MonkeyPatch, name: str, search: Search) -> None:
    """Count the heads that were read as the first: those that were not were known again."""
    strict = getattr(module, name)

    def read(*of: Any) -> Any:
        search.seen["as the first"] += 1
        return strict(*of)

    monkeypatch.setattr(module, name, read)


@AMOUNTS
def test_a_request_is_read_as_the_first(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the quick reader takes is smuggled past the strict one by a request before it."""
    search = Search("heads of requests", cases)
    chance, seen = search.chance, search.seen
    counted(monkeypatch, "read_request_head", search)
    heads, like = RequestHeads(), REQUESTS[0]
    for _ in search:
        if chance.random() < 0.02:
            heads, like = RequestHeads(), chance.choice(REQUESTS)
        data = bent_head(like, chance)
        strict = outcome_of(read_request_head, MessageInvalid, data)
        found = outcome_of(heads.read, MessageInvalid, data)
        assert found == strict, search.told(like, data)
        if isinstance(strict, str):
            seen["refused"] += 1
            # Behind a refusal the connection ends; here it goes on, with the head before it in mind.
            outcome_of(heads.read, MessageInvalid, like)
        else:
            seen["read"] += 1
            if len(data) < 2000:
                like = data
    seen["known again"] = cases + seen["refused"] - seen["as the first"]
    search.met(refused=0.15, read=0.2, **{"known again": 0.1})


@AMOUNTS
def test_an_answer_is_read_as_the_first(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store's bytes that are read in two ways become the beginning of another caller's answer."""
    search = Search("heads of answers", cases)
    chance, seen = search.chance, search.seen
    counted(monkeypatch, "read_response_head", search)
    heads, like = ResponseHeads(), ANSWERS[0]
    for _ in search:
        if chance.random() < 0.02:
            heads, like = ResponseHeads(), chance.choice(ANSWERS)
        data, method = bent_head(like, chance), chance.choice(METHODS)
        strict = outcome_of(read_response_head, MessageInvalid, data, method)
        found = outcome_of(heads.read, MessageInvalid, data, method)
        assert found == strict, search.told(like, data, method)
        seen["refused" if isinstance(strict, str) else "read"] += 1
        if not isinstance(strict, str) and len(data) < 2000:
            like = data
    seen["known again"] = cases - seen["as the first"]
    search.met(refused=0.1, read=0.3, **{"known again": 0.2})
