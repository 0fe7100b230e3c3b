"""What two readers of a head may understand differently is refused, and what clients send is read exactly."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.transfer.faults import MessageFault as Fault
from signproxy.transfer.faults import MessageInvalid
from signproxy.transfer.head import BodyFraming, RequestHead, ResponseHead, read_request_head, read_response_head
from signproxy.transfer.heads import RequestHeads
from signproxy.transfer.refusal import HEAD_LIMIT, HEADERS_LIMIT, TARGET_LIMIT

GET = b"GET /b/k HTTP/1.1\r\nHost: a\r\n"
PUT = b"PUT /b/k HTTP/1.1\r\nHost: a\r\n"

# One row per attempt: its name, its bytes up to the empty line, and the fault that refuses it.
SMUGGLING: tuple[tuple[str, bytes, Fault], ...] = (
    # Where does the body end?
    ("CL.TE", PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Fault.LENGTH_AND_CODING),
    ("TE.CL", PUT + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Fault.LENGTH_AND_CODING),
    ("two lengths", PUT + b"Content-Length: 5\r\nContent-Length: 6\r\n", Fault.LENGTH_REPEATED),
    ("the same length twice", PUT + b"Content-Length: 5\r\ncontent-length: 5\r\n", Fault.LENGTH_REPEATED),
    ("a list of lengths", PUT + b"Content-Length: 5, 5\r\n", Fault.LENGTH_MALFORMED),
    ("a plus", PUT + b"Content-Length: +5\r\n", Fault.LENGTH_MALFORMED),
    ("a minus", PUT + b"Content-Length: -1\r\n", Fault.LENGTH_MALFORMED),
    ("hexadecimal", PUT + b"Content-Length: 0x5\r\n", Fault.LENGTH_MALFORMED),
    ("octal to some", PUT + b"Content-Length: 010\r\n", Fault.LENGTH_MALFORMED),
    ("a fraction", PUT + b"Content-Length: 5.0\r\n", Fault.LENGTH_MALFORMED),
    ("an underscore, which Python reads", PUT + b"Content-Length: 1_0\r\n", Fault.LENGTH_MALFORMED),
    ("a superscript, which is a digit to Python", PUT + b"Content-Length: \xb2\r\n", Fault.LENGTH_MALFORMED),
    ("blanks within", PUT + b"Content-Length: 1 0\r\n", Fault.LENGTH_MALFORMED),
    ("NBSP around", PUT + b"Content-Length: \xa05\r\n", Fault.LENGTH_MALFORMED),
    ("no length at all", PUT + b"Content-Length:\r\n", Fault.LENGTH_MALFORMED),
    ("beyond 64 bits", PUT + b"Content-Length: 18446744073709551621\r\n", Fault.LENGTH_MALFORMED),
    ("a body on GET", GET + b"Content-Length: 5\r\n", Fault.BODY_UNEXPECTED),
    ("chunks on GET", GET + b"Transfer-Encoding: chunked\r\n", Fault.BODY_UNEXPECTED),
    ("a body on HEAD", GET.replace(b"GET", b"HEAD") + b"Content-Length: 5\r\n", Fault.BODY_UNEXPECTED),
    # Codings that one of two hops does not see.
    ("an unknown coding", PUT + b"Transfer-Encoding: gzip\r\n", Fault.CODING_UNKNOWN),
    ("two codings", PUT + b"Transfer-Encoding: gzip, chunked\r\n", Fault.CODING_UNKNOWN),
    ("chunked twice", PUT + b"Transfer-Encoding: chunked, chunked\r\n", Fault.CODING_UNKNOWN),
    ("identity", PUT + b"Transfer-Encoding: identity\r\n", Fault.CODING_UNKNOWN),
    ("nearly chunked", PUT + b"Transfer-Encoding: xchunked\r\n", Fault.CODING_UNKNOWN),
    ("quoted", PUT + b'Transfer-Encoding: "chunked"\r\n', Fault.CODING_UNKNOWN),
    ("in capitals", PUT + b"Transfer-Encoding: Chunked\r\n", Fault.CODING_UNKNOWN),
    ("a vertical tab before", PUT + b"Transfer-Encoding: \x0bchunked\r\n", Fault.CONTROL_CHARACTER),
    ("NEL behind", PUT + b"Transfer-Encoding: chunked\x85\r\n", Fault.CODING_UNKNOWN),
    ("empty", PUT + b"Transfer-Encoding:\r\n", Fault.CODING_UNKNOWN),
    ("repeated", PUT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", Fault.CODING_REPEATED),
    ("chunks in 1.0", PUT.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n", Fault.CODING_IN_1_0),
    # Names that are another header's to some reader.
    ("a blank before the colon", PUT + b"Content-Length : 5\r\n", Fault.BLANK_IN_NAME),
    ("a tab before the colon", PUT + b"Transfer-Encoding\t: chunked\r\n", Fault.BLANK_IN_NAME),
    ("a line feed in a name", PUT + b"X: y\nTransfer-Encoding: chunked\r\n", Fault.LINE_ENDING),
    ("a carriage return in a value", PUT + b"X: y\rTransfer-Encoding: chunked\r\n", Fault.LINE_ENDING),
    ("a folded coding", PUT + b"Transfer-Encoding:\r\n chunked\r\n", Fault.FOLDED),
    ("a folded first line", b"PUT /b/k HTTP/1.1\r\n Host: a\r\n", Fault.FOLDED),
    ("a line of blanks", PUT + b" \r\n", Fault.FOLDED),
    ("NUL in a value", PUT + b"X: a\x00b\r\n", Fault.CONTROL_CHARACTER),
    ("NUL in a name", PUT + b"Content-Length\x00: 5\r\n", Fault.NAME),
    ("DEL in a value", PUT + b"X: \x7f\r\n", Fault.CONTROL_CHARACTER),
    ("no name", PUT + b": 5\r\n", Fault.NAME),
    ("no colon", PUT + b"Content-Length\r\n", Fault.NAME),
    ("a letter beyond ASCII in a name", PUT + b"Content-L\xe9ngth: 5\r\n", Fault.NAME),
    ("underscores, which WSGI reads as hyphens", PUT + b"x_amz_copy_source: /other/key\r\n", Fault.NAME_DISGUISED),
    ("one underscore", PUT + b"Content_Length: 5\r\n", Fault.NAME_DISGUISED),
    ("a coding in disguise", PUT + b"Transfer_Encoding: chunked\r\n", Fault.NAME_DISGUISED),
    # Who is meant?
    ("no host", b"GET /b/k HTTP/1.1\r\n", Fault.HOST_MISSING),
    ("an empty host", b"GET /b/k HTTP/1.1\r\nHost:\r\n", Fault.HOST_MISSING),
    ("two hosts", GET + b"host: b\r\n", Fault.HOST_REPEATED),
    ("a list of hosts", b"GET /b/k HTTP/1.1\r\nHost: a, b\r\n", Fault.HOST_MALFORMED),
    ("a user in the host", b"GET /b/k HTTP/1.1\r\nHost: a@b\r\n", Fault.HOST_MALFORMED),
    ("a path in the host", b"GET /b/k HTTP/1.1\r\nHost: a/b\r\n", Fault.HOST_MALFORMED),
    ("an absolute target", GET.replace(b"/b/k", b"http://b/k"), Fault.TARGET_FORM),
    ("an authority as target", GET.replace(b"/b/k", b"b:443"), Fault.TARGET_FORM),
    ("an asterisk as target", GET.replace(b"/b/k", b"*"), Fault.TARGET_FORM),
    ("no target", b"GET HTTP/1.1\r\nHost: a\r\n", Fault.START_LINE),
    ("a blank in the target", GET.replace(b"/b/k", b"/b k"), Fault.TARGET_CHARACTERS),
    ("a second version", GET.replace(b"/b/k", b"/b HTTP/1.1 "), Fault.TARGET_CHARACTERS),
    ("a fragment", GET.replace(b"/b/k", b"/b#k"), Fault.TARGET_CHARACTERS),
    ("NUL in the target", GET.replace(b"/b/k", b"/b\x00k"), Fault.TARGET_CHARACTERS),
    ("a letter beyond ASCII in the target", GET.replace(b"/b/k", b"/b\xc3\xa9"), Fault.TARGET_CHARACTERS),
    ("two authorizations", GET + b"Authorization: a\r\nauthorization: b\r\n", Fault.REPEATED),
    ("two ranges", GET + b"Range: bytes=0-1\r\nRange: bytes=2-3\r\n", Fault.REPEATED),
    ("two copy sources", PUT + b"x-amz-copy-source: a\r\nX-Amz-Copy-Source: b\r\n", Fault.REPEATED),
    ("two checksums", PUT + b"x-amz-checksum-crc32: a\r\nx-amz-checksum-crc32: b\r\n", Fault.REPEATED),
    ("two conditions", PUT + b"If-None-Match: *\r\nif-none-match: x\r\n", Fault.REPEATED),
    ("two types", PUT + b"Content-Type: a/b\r\nContent-Type: c/d\r\n", Fault.REPEATED),
    ("two expectations", PUT + b"Expect: 100-continue\r\nExpect: 100-continue\r\n", Fault.REPEATED),
    # What kind of message is it?
    ("two offers of a protocol", GET + b"Upgrade: h2c\r\nUpgrade: websocket\r\n", Fault.REPEATED),
    ("headers taken off at the next hop", GET + b"Connection: authorization\r\n", Fault.CONNECTION_OPTION),
    ("one beside an offer", GET + b"Connection: Upgrade, x-amz-date\r\nUpgrade: h2c\r\n", Fault.CONNECTION_OPTION),
    ("one behind an empty one", GET + b"Connection: , authorization\r\n", Fault.CONNECTION_OPTION),
    ("an option in quotes", GET + b'Connection: ""\r\n', Fault.CONNECTION_OPTION),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n", Fault.VERSION),
    ("HTTP/1.2", GET.replace(b"1.1", b"1.2"), Fault.VERSION),
    ("HTTP/01.1", GET.replace(b"1.1", b"01.1"), Fault.VERSION),
    ("HTTP/0.9", b"GET /b/k\r\n", Fault.START_LINE),
    ("a small letter in the method", GET.replace(b"GET", b"get"), Fault.START_LINE),
    ("two blanks", GET.replace(b"GET ", b"GET  "), Fault.TARGET_FORM),
    ("an empty line before", b"\r\n" + GET, Fault.START_LINE),
    ("a line feed alone", GET.replace(b"\r\n", b"\n"), Fault.LINE_ENDING),
)  # fmt: skip


@pytest.mark.parametrize(("data", "fault"), [row[1:] for row in SMUGGLING], ids=[row[0] for row in SMUGGLING])
def test_an_attempt_at_smuggling_is_refused(data: bytes, fault: Fault) -> None:
    """The next hop reads another request out of it: one that was not judged."""
    with pytest.raises(MessageInvalid) as raised:
        read_request_head(data + b"\r\n")
    assert raised.value.fault is fault
    assert str(raised.value).startswith(fault.value)


def _request(*lines: str, start: str = "PUT /b/k HTTP/1.1") -> RequestHead:
    return read_request_head("".join(f"{line}\r\n" for line in (start, "Host: a", *lines, "")).encode("latin-1"))


def test_a_head_is_read_as_it_was_sent() -> None:
    """What is signed again has to be what the client signed, byte for byte."""
    head = _request(
        "X-Amz-Meta-Name:  caf\xe9 \xa0\t ", "accept: a", "Empty:", "Blank:   ", "Accept: b",
        start='GET /b/%2F%c3%A9//../k"<>|{}\\?x=%20&y HTTP/1.1',
    )  # fmt: skip
    assert head.method == "GET"
    assert head.target == '/b/%2F%c3%A9//../k"<>|{}\\?x=%20&y'
    assert head.names == ("Host", "X-Amz-Meta-Name", "accept", "Empty", "Blank", "Accept")
    assert head.headers == (
        ("host", "a"), ("x-amz-meta-name", "caf\xe9 \xa0"), ("accept", "a"), ("empty", ""), ("blank", ""),
        ("accept", "b"),
    )  # fmt: skip
    assert head.fields.get("accept") == "a, b"
    assert head.fields.get("absent") is None
    assert (head.body, head.length, head.closes, head.expects_continue) == (BodyFraming.NONE, 0, False, False)


def test_values_that_are_one_to_s3_are_one_from_here_on() -> None:
    """SDKs for Go send attributes and metadata in a line each, and sign them joined; a store would read one of them."""
    for heads in (read_request_head, RequestHeads().read):
        for _ in range(2):
            head = heads(
                b"GET /b/k HTTP/1.1\r\nHost: a\r\nX-Amz-Object-Attributes: ETag\r\nAccept: x\r\n"
                b"x-amz-meta-k: 1\r\nx-amz-object-attributes: ObjectSize\r\nX-Amz-Meta-K: 2\r\n\r\n"
            )
            assert head.names == ("Host", "X-Amz-Object-Attributes", "Accept", "x-amz-meta-k")
            assert head.headers == (
                ("host", "a"), ("x-amz-object-attributes", "ETag,ObjectSize"), ("accept", "x"), ("x-amz-meta-k", "1,2"),
            )  # fmt: skip
            assert head.fields["x-amz-meta-k"] == "1,2"


@pytest.mark.parametrize(
    ("lines", "start", "expected"),
    (
        (("Content-Length: 0",), "PUT / HTTP/1.1", (BodyFraming.SIZED, 0, False, False)),
        (("Content-Length: 0",), "GET / HTTP/1.1", (BodyFraming.SIZED, 0, False, False)),
        (("Content-Length: 5", "Expect: 100-Continue"), "PUT / HTTP/1.1", (BodyFraming.SIZED, 5, True, False)),
        (
            ("Transfer-Encoding: chunked", "Expect: 100-continue"),
            "PUT / HTTP/1.1",
            (BodyFraming.CHUNKED, 0, True, False),
        ),
        # There is nothing to wait for, or no party that knows the answer.
        (("Content-Length: 0", "Expect: 100-continue"), "PUT / HTTP/1.1", (BodyFraming.SIZED, 0, False, False)),
        (("Content-Length: 5", "Expect: 100-continue"), "PUT / HTTP/1.0", (BodyFraming.SIZED, 5, False, True)),
        (("Connection: close",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, True)),
        (("Connection: TE, Close",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, True)),
        (("Connection: Keep-Alive",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, False)),
        (("Connection: keep-alive",), "GET / HTTP/1.0", (BodyFraming.NONE, 0, False, True)),
        # An element of a list may be empty, and counts for nothing (RFC 9110, 5.6.1).
        (("Connection:",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, False)),
        (("Connection: ,\t,",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, False)),
        (("Connection: keep-alive,",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, False)),
        (("Connection: , close ,",), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, True)),
        (("Connection: keep-alive", "Connection:"), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, False)),
        (("Content-Length: 5",), "DELETE / HTTP/1.1", (BodyFraming.SIZED, 5, False, False)),
        # Offers and expectations that a server may ignore: HTTP/1.1 goes on.
        (
            ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
            "GET / HTTP/1.1",
            (BodyFraming.NONE, 0, False, False),
        ),
        (("Connection: upgrade, close", "Upgrade: websocket"), "GET / HTTP/1.1", (BodyFraming.NONE, 0, False, True)),
        (
            ("Upgrade: h2c", "Content-Length: 5", "Expect: 100-continue"),
            "PUT / HTTP/1.1",
            (BodyFraming.SIZED, 5, True, False),
        ),
        (("Content-Length: 5", "Expect:"), "PUT / HTTP/1.1", (BodyFraming.SIZED, 5, False, False)),
        (("Content-Length: 5", "Expect: 200-ok"), "PUT / HTTP/1.1", (BodyFraming.SIZED, 5, False, False)),
        (("Content-Length: 5", "Expect: 100-continue, x"), "PUT / HTTP/1.1", (BodyFraming.SIZED, 5, False, False)),
    ),
)
def test_framing_of_requests(lines: tuple[str, ...], start: str, expected: tuple[object, ...]) -> None:
    """Where a body ends and whether the connection goes on is what everything else is built upon."""
    head = _request(*lines, start=start)
    assert (head.body, head.length, head.expects_continue, head.closes) == expected


@pytest.mark.parametrize("host", ("a", "a.b-c_d:8182", "127.0.0.1:1", "[::1]", "[::1]:8182"))
def test_hosts_that_clients_send(host: str) -> None:
    """A host that is refused keeps its clients out."""
    assert read_request_head(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).fields.get("host") == host


def test_metadata_may_have_underscores() -> None:
    """Users name their metadata as they like."""
    assert _request("x-amz-meta-my_name: a", "my_own: b").fields.get("x-amz-meta-my_name") == "a"


def _padded(size: int) -> bytes:
    return GET + b"X: " + b"a" * (size - len(GET) - 7) + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("inside", "outside", "fault"),
    (
        (_padded(HEAD_LIMIT), _padded(HEAD_LIMIT + 1), Fault.HEAD_TOO_LARGE),
        (
            GET.replace(b"/b/k", b"/" * TARGET_LIMIT) + b"\r\n",
            GET.replace(b"/b/k", b"/" * (TARGET_LIMIT + 1)) + b"\r\n",
            Fault.TARGET_TOO_LONG,
        ),
        (
            GET + b"".join(b"h%d: x\r\n" % number for number in range(HEADERS_LIMIT - 1)) + b"\r\n",
            GET + b"".join(b"h%d: x\r\n" % number for number in range(HEADERS_LIMIT)) + b"\r\n",
            Fault.TOO_MANY_HEADERS,
        ),
    ),
    ids=("head", "target", "headers"),
)
def test_limits_hold_exactly(inside: bytes, outside: bytes, fault: Fault) -> None:
    """A stranger's head costs memory before the sender is known."""
    read_request_head(inside)
    with pytest.raises(MessageInvalid) as raised:
        read_request_head(outside)
    assert raised.value.fault is fault


@pytest.mark.parametrize("filler", (b" ", b"\t ", b"a", b"a: ", b"\r", b"x:\r\n"))
@pytest.mark.parametrize("last", (b"\r\n", b"\rx\r\n", b"\x00\r\n", b" x\r\n"))
def test_no_head_takes_long(filler: bytes, last: bytes) -> None:
    """A head that makes the reader go back and forth stops all other callers of the process."""
    data = (GET + b"X:" + filler * (HEAD_LIMIT // len(filler)))[: HEAD_LIMIT - 16] + last + b"\r\n"
    began = time.process_time()
    try:
        read_request_head(data)
    except MessageInvalid:
        assert data
    # One of quadratic cost takes some seconds; an honest one a thousandth of this.
    assert time.process_time() - began < 1.0


def test_a_fault_tells_no_values() -> None:
    """Logs are read by people who must not know tokens; names of strangers must not break their lines."""
    with pytest.raises(MessageInvalid) as raised:
        _request("Authorization: secret", "Authorization: secret")
    assert "secret" not in str(raised.value)
    with pytest.raises(MessageInvalid) as raised:
        _request("\x1b[31m" + "n" * 1000)
    assert len(raised.value.detail) < 100
    assert raised.value.detail.isprintable()


# -- answers -------------------------------------------------------------------------------------------------------


def _response(status: str, *lines: str, method: str = "GET") -> ResponseHead:
    return read_response_head("".join(f"{line}\r\n" for line in (status, *lines, "")).encode("latin-1"), method)


@pytest.mark.parametrize(
    ("status", "lines", "method", "expected"),
    (
        ("HTTP/1.1 200 OK", ("Content-Length: 5",), "GET", (200, "OK", BodyFraming.SIZED, 5, False)),
        ("HTTP/1.1 200", ("Content-Length: 0",), "GET", (200, "", BodyFraming.SIZED, 0, False)),
        ("HTTP/1.1 200 ", ("Transfer-Encoding: chunked",), "GET", (200, "", BodyFraming.CHUNKED, 0, False)),
        ("HTTP/1.1 200 OK", (), "GET", (200, "OK", BodyFraming.UNTIL_CLOSE, 0, True)),
        ("HTTP/1.0 200 OK", ("Content-Length: 5",), "GET", (200, "OK", BodyFraming.SIZED, 5, True)),
        (
            "HTTP/1.1 200 OK",
            ("Content-Length: 5", "Connection: x, Close"),
            "GET",
            (200, "OK", BodyFraming.SIZED, 5, True),
        ),
        (
            "HTTP/1.1 200 OK",
            ("Content-Length: 5", "Connection: , close,"),
            "GET",
            (200, "OK", BodyFraming.SIZED, 5, True),
        ),
        ("HTTP/1.1 200 OK", ("Content-Length: 5", "Connection:"), "GET", (200, "OK", BodyFraming.SIZED, 5, False)),
        ("HTTP/1.1 200 OK", ("Content-Length: 5",), "HEAD", (200, "OK", BodyFraming.NONE, 0, False)),
        (
            "HTTP/1.1 404 Not Found",
            ("Transfer-Encoding: chunked",),
            "HEAD",
            (404, "Not Found", BodyFraming.NONE, 0, False),
        ),
        ("HTTP/1.1 304 Not Modified", ("Content-Length: 5",), "GET", (304, "Not Modified", BodyFraming.NONE, 0, False)),
        ("HTTP/1.1 204 No Content", ("Content-Length: 0",), "DELETE", (204, "No Content", BodyFraming.NONE, 0, False)),
        # Some servers send one nevertheless.
        ("HTTP/1.1 204 No Content", ("Content-Length: 5",), "DELETE", (204, "No Content", BodyFraming.NONE, 0, True)),
        ("HTTP/1.1 204 x", ("Transfer-Encoding: chunked",), "DELETE", (204, "x", BodyFraming.NONE, 0, True)),
        ("HTTP/1.1 100 Continue", (), "PUT", (100, "Continue", BodyFraming.NONE, 0, False)),
    ),
)
def test_framing_of_answers(status: str, lines: tuple[str, ...], method: str, expected: tuple[object, ...]) -> None:
    """A byte of one caller's object that is left over becomes the beginning of another caller's answer."""
    head = _response(status, *lines, method=method)
    assert (head.status, head.reason, head.body, head.length, head.closes) == expected


@pytest.mark.parametrize("status", ("HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.1 200 \t "))
@pytest.mark.parametrize("value", ("", " ", "\t", " x ", "x\t"))
def test_an_empty_reason_beside_a_blank_value_is_an_answer(status: str, value: str) -> None:
    """Stores that leave out the reason, and write empty values, were answered for with 502: both are legal."""
    head = _response(status, f"X-Empty:{value}", "Content-Length: 5")
    assert (head.status, head.reason.strip(), head.length) == (200, "", 5)
    assert head.headers == (("x-empty", value.strip()), ("content-length", "5"))


def test_headers_of_answers_may_be_repeated() -> None:
    """Stores repeat some, and clients are told all of them."""
    head = _response("HTTP/1.1 200 OK", "Vary: a", "Content-Length: 5", "vary: b")
    assert head.fields.get("vary") == "a, b"
    assert head.headers == (("vary", "a"), ("content-length", "5"), ("vary", "b"))
    assert head.names == ("Vary", "Content-Length", "vary")


@pytest.mark.parametrize(
    ("status", "lines", "fault"),
    (
        ("HTTP/1.1 200 OK", ("Content-Length: 5", "Transfer-Encoding: chunked"), Fault.LENGTH_AND_CODING),
        ("HTTP/1.1 200 OK", ("Content-Length: 5", "Content-Length: 5"), Fault.LENGTH_REPEATED),
        ("HTTP/1.1 200 OK", ("Transfer-Encoding: chunked", "transfer-encoding: chunked"), Fault.CODING_REPEATED),
        ("HTTP/1.1 200 OK", ("Transfer-Encoding: gzip, chunked",), Fault.CODING_UNKNOWN),
        ("HTTP/1.1 200 OK", ("Content-Length: 05",), Fault.LENGTH_MALFORMED),
        ("HTTP/1.0 200 OK", ("Transfer-Encoding: chunked",), Fault.CODING_IN_1_0),
        ("HTTP/1.1 200 OK", ("X: a\x00",), Fault.CONTROL_CHARACTER),
        ("HTTP/1.1 200 OK", (" X: a",), Fault.FOLDED),
        ("HTTP/1.1 200 OK", ("X: a\nY: b",), Fault.LINE_ENDING),
        ("HTTP/1.1 101 Switching Protocols", ("Upgrade: x",), Fault.UPGRADE),
        ("HTTP/1.1 103 Early Hints", ("Upgrade: x",), Fault.UPGRADE),
        ("HTTP/2 200 OK", (), Fault.VERSION),
        ("HTTP/1.1 20 OK", (), Fault.STATUS),
        ("HTTP/1.1 600 OK", (), Fault.STATUS),
        ("HTTP/1.1  200 OK", (), Fault.STATUS),
        ("ICY 200 OK", (), Fault.START_LINE),
    ),
)
def test_an_answer_that_can_be_read_in_two_ways_is_refused(status: str, lines: tuple[str, ...], fault: Fault) -> None:
    """A store, or a server that stands in for it, must not be able to answer the next caller's request."""
    with pytest.raises(MessageInvalid) as raised:
        _response(status, *lines)
    assert raised.value.fault is fault


# -- properties ----------------------------------------------------------------------------------------------------

_TOKEN = st.text(st.sampled_from("ABCabc019!#$%&'*+.^`|~-"), min_size=1, max_size=12)
_VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=40)


@given(st.lists(st.tuples(_TOKEN, _VALUE), max_size=20, unique_by=lambda pair: pair[0].lower()))
def test_every_header_is_kept_exactly(pairs: list[tuple[str, str]]) -> None:
    """The upstream sees exactly the bytes that it would have seen without signproxy."""
    lines = [f"x-{name}: {value}" for name, value in pairs]
    head = _request(*lines, start="GET / HTTP/1.1")
    expected = [("host", "a"), *((f"x-{name.lower()}", value.strip(" \t")) for name, value in pairs)]
    assert list(head.headers) == expected
    assert head.names == ("Host", *(f"x-{name}" for name, _ in pairs))
