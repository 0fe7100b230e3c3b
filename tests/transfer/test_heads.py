"""A head that is known again means what it means when it is read as the first."""

from __future__ import annotations

import pytest

from signproxy.transfer.faults import MessageFault as Fault
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import BodyFraming, read_request_head, read_response_head
from signproxy.transfer.heads import RequestHeads, ResponseHeads
from signproxy.transfer.refusal import HEAD_LIMIT, TARGET_LIMIT

GET = b"GET /b/k HTTP/1.1\r\nHost: a\r\nX-Amz-Meta-A: 1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: x\r\n\r\n"


@pytest.mark.parametrize("line", (b"X-Amz-Meta-A", b"X-Amz-Meta-A ", b"X-Amz-Meta-A: 1\n", b"X-Amz-Meta-A :1", b""))
def test_a_line_that_is_no_header_is_refused_on_a_warm_connection_too(line: bytes) -> None:
    """What one reader takes and the other refuses can be smuggled past the stricter one by a request before it."""
    heads = RequestHeads()
    heads.read(GET)
    with pytest.raises(MessageInvalid):
        heads.read(GET.replace(b"X-Amz-Meta-A: 1", line))
    answers = ResponseHeads()
    answers.read(OK, "GET")
    with pytest.raises(MessageInvalid):
        answers.read(OK.replace(b"ETag: x", line.replace(b"X-Amz-Meta-A", b"ETag")), "GET")


@pytest.mark.parametrize("line", (b"X-Amz-Meta-A:2", b"X-Amz-Meta-A:", b"X-Amz-Meta-A: ", b"X-Amz-Meta-A:\t2 \t"))
def test_a_value_in_another_form_is_read_alike(line: bytes) -> None:
    """A client that writes its values without a blank, or leaves one empty, is served like any other."""
    heads = RequestHeads()
    heads.read(GET)
    data = GET.replace(b"X-Amz-Meta-A: 1", line)
    assert heads.read(data) == read_request_head(data)


@pytest.mark.parametrize("first", (b"HTTP/1.1 200 ", b"HTTP/1.1 200", b"HTTP/1.1 404 "))
def test_an_empty_reason_is_read_alike(first: bytes) -> None:
    """A store that leaves out the reason now and then is not taken for a broken one."""
    answers = ResponseHeads()
    answers.read(OK, "GET")
    for data in (OK.replace(b"HTTP/1.1 200 OK", first), OK.replace(b"ETag: x", b"ETag: ")):
        assert answers.read(data, "GET") == read_response_head(data, "GET")


@pytest.mark.parametrize("value", (b"", b" ", b",", b"keep-alive,", b", close", b"close, ,", b"keep-alive"))
def test_a_client_that_leaves_an_option_of_the_connection_empty_is_served(value: bytes) -> None:
    """Proxies that take an option out leave the comma behind, and all requests through them were 400."""
    request = GET.replace(b"X-Amz-Meta-A: 1", b"Connection: Keep-Alive")
    heads = RequestHeads()
    heads.read(request)
    data = request.replace(b"Keep-Alive", value)
    head = heads.read(data)
    assert head == read_request_head(data)
    assert head.closes is (b"close" in value)
    answer = OK.replace(b"ETag: x", b"Connection: Keep-Alive")
    answers = ResponseHeads()
    answers.read(answer, "GET")
    told = answers.read(answer.replace(b"Keep-Alive", value), "GET")
    assert told == read_response_head(answer.replace(b"Keep-Alive", value), "GET")
    assert told.closes is (b"close" in value)


def test_what_tells_of_the_body_is_told_anew() -> None:
    """The bytes behind a head that is nearly the last one are read as what they are."""
    heads = RequestHeads()
    heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    head = heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nExpect: 200-ok\r\n\r\n")
    assert (head.body, head.length, head.expects_continue) == (BodyFraming.SIZED, 7, False)
    with pytest.raises(MessageInvalid) as raised:
        heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 07\r\nExpect: 200-ok\r\n\r\n")
    assert raised.value.fault is Fault.LENGTH_MALFORMED


PUT = b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"


def test_a_body_is_no_body_of_another_method() -> None:
    """A GET behind a PUT with the same lines was handed on with a body, which a store may take for a next request."""
    heads = RequestHeads()
    heads.read(PUT)
    with pytest.raises(MessageInvalid) as raised:
        heads.read(PUT.replace(b"PUT", b"GET"))
    assert raised.value.fault is Fault.BODY_UNEXPECTED


def test_a_version_is_told_anew() -> None:
    """A client of HTTP/1.0 waits for the end of the connection, and one of HTTP/1.1 does not expect it."""
    heads = RequestHeads()
    assert not heads.read(GET).closes
    assert heads.read(GET.replace(b"HTTP/1.1", b"HTTP/1.0")).closes
    assert not heads.read(GET).closes
    # What a body is framed by depends on it too.
    heads.read(PUT.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked"))
    with pytest.raises(MessageInvalid) as raised:
        heads.read(PUT.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert raised.value.fault is Fault.CODING_IN_1_0


@pytest.mark.parametrize("size", (TARGET_LIMIT, TARGET_LIMIT + 1))
def test_a_target_may_be_as_long_as_in_the_first_head(size: int) -> None:
    """A limit that holds for the first request of a connection alone is none."""
    heads = RequestHeads()
    heads.read(GET)
    data = GET.replace(b"/b/k", b"/" * size)
    if size <= TARGET_LIMIT:
        assert heads.read(data) == read_request_head(data)
        return
    with pytest.raises(MessageInvalid) as raised:
        heads.read(data)
    assert raised.value.fault is Fault.TARGET_TOO_LONG


@pytest.mark.parametrize("size", (HEAD_LIMIT, HEAD_LIMIT + 1))
def test_a_head_may_be_as_long_as_the_first(size: int) -> None:
    """A limit that holds for the first request of a connection alone is none; a store's answers are limited alike."""
    heads, answers = RequestHeads(), ResponseHeads()
    heads.read(GET)
    answers.read(OK, "GET")
    request = GET.replace(b"A: 1", b"A: " + b"1" * (size - len(GET) + 1))
    answer = OK.replace(b"ETag: x", b"ETag: " + b"x" * (size - len(OK) + 1))
    assert len(request) == len(answer) == size
    if size <= HEAD_LIMIT:
        assert heads.read(request) == read_request_head(request)
        assert answers.read(answer, "GET") == read_response_head(answer, "GET")
        return
    with pytest.raises(MessageInvalid) as raised:
        heads.read(request)
    assert raised.value.fault is Fault.HEAD_TOO_LARGE
    with pytest.raises(MessageInvalid) as raised:
        answers.read(answer, "GET")
    assert raised.value.fault is Fault.HEAD_TOO_LARGE
