"""A head that is known again means what it means when it is read as the first."""

from __future__ import annotations

import pytest

from signproxy.transfer.faults import MessageFault as Fault
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import Body, read_request_head, read_response_head
from signproxy.transfer.heads import RequestHeads, ResponseHeads

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


def test_what_tells_of_the_body_is_told_anew() -> None:
    """The bytes behind a head that is nearly the last one are read as what they are."""
    heads = RequestHeads()
    heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    head = heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nExpect: 200-ok\r\n\r\n")
    assert (head.body, head.length, head.expects_continue) == (Body.SIZED, 7, False)
    with pytest.raises(MessageInvalid) as raised:
        heads.read(b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 07\r\nExpect: 200-ok\r\n\r\n")
    assert raised.value.fault is Fault.LENGTH_MALFORMED
