"""Read the head of a message of HTTP/1.1, strictly: what two readers may understand differently is refused.

A head is looked at as a whole: either every line of it is a header in the plainest form, or it is read again, line by
line, to say what is wrong with it. Nothing is repaired. `heads` knows heads again that are much like the one before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import msgspec

from signproxy.transfer.faults import MessageFault, MessageInvalid
from signproxy.transfer.refusal import (
    HEAD_LIMIT,
    HEADERS_LIMIT,
    REQUEST_LINE,
    STATUS_LINE,
    TARGET_LIMIT,
    fault_of_request,
    fault_of_response,
    shown,
)


class BodyFraming(Enum):
    """How the end of a message's body is known."""

    NONE = "none"
    SIZED = "sized"
    CHUNKED = "chunked"
    UNTIL_CLOSE = "until_close"


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """What a client asks for; each text is what was sent, byte for byte in Latin-1."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    """Names in lower case and values without the blanks around them, in the order of the message."""
    names: tuple[str, ...]
    """The names as they were spelled."""
    body: BodyFraming
    length: int
    expects_continue: bool
    """Whether the client waits to be told before it sends its body."""
    closes: bool
    """Whether the connection ends with the answer."""
    fields: dict[str, str]
    """Values by the name in lower case; of a header that may be repeated, all of them with commas between."""


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """What a server answers; see `RequestHead`."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    body: BodyFraming
    length: int
    closes: bool
    fields: dict[str, str]


HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    "upgrade http2-settings".split()
)
"""Headers that speak of one connection, and never go on to the next one."""

SINGLE = frozenset(
    "host authorization range date expect expires etag location user-agent cache-control te transfer-encoding upgrade "
    "origin referer max-forwards x-http-method-override x-method-override".split()
)
"""Headers that a request has once, besides those that begin with one of `_SINGLE_PREFIXES`.

Where they are repeated, one reader takes the first and the other the last: what was judged is not what is done.
"""

_SINGLE_PREFIXES = ("x-amz-", "content-", "if-")
_JOINED = frozenset(("x-amz-object-attributes",))
_JOINED_PREFIX = "x-amz-meta-"
_SINGLE_IN_RESPONSES = frozenset(("content-length", "transfer-encoding"))

# Possessive: a line that does not match is given up at once, however many blanks it has.
_LINE = re.compile(r"(?m)^([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)(?<![ \t])\r\n")
_BLANKS_AT_END = re.compile(r"(?<![ \t])[ \t]++\r\n")
_HOST = re.compile(r"[0-9A-Za-z.\-_]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
_LENGTH = re.compile(r"0|[1-9][0-9]{0,17}")
"""Without leading zeros, that some read as octal, and within 64 bits."""

# Looking a member up in its class calls Python code; the hot path does without.
_NONE = BodyFraming.NONE
_OF_BODIES = frozenset(("content-length", "transfer-encoding"))
_BODILESS = frozenset(("GET", "HEAD"))
_OPTIONS = frozenset(("close", "keep-alive", "te", "upgrade", "http2-settings"))
"""Names of headers that are never sent on, among them those of an offer to change the protocol, which is ignored."""
_USUAL = ("keep-alive", "Keep-Alive")


Lines = tuple[tuple[str, ...], tuple[tuple[str, str], ...], dict[str, str], bool]
"""Names, headers, their values by name, and whether there is an underscore in a name."""


def read_request_head(data: bytes) -> RequestHead:
    """Return the head of a request; `data` reaches up to its empty line and no further. Raise MessageInvalid."""
    text = data.decode("latin-1")
    start = REQUEST_LINE.match(text)
    lines = None if start is None else lines_of(text, start.end())
    if start is None or lines is None:
        raise fault_of_request(text)
    method, target, minor = start.groups()
    return request_of(method, target, minor, lines)


def request_of(method: str, target: str, minor: str, lines: Lines) -> RequestHead:
    """Return what the parts of a request's head mean together. Raise MessageInvalid."""
    names, headers, fields, underscored = lines
    if len(target) > TARGET_LIMIT:
        raise MessageInvalid(MessageFault.TARGET_TOO_LONG)
    if len(fields) != len(headers):
        fields = _merged(headers, _refuse_repeated_in_request)
        names, headers = _joined(names, headers, fields)
    if underscored:
        _refuse_disguised(fields)
    host = fields.get("host")
    if not host:
        raise MessageInvalid(MessageFault.HOST_MISSING)
    if _HOST.fullmatch(host) is None:
        raise MessageInvalid(MessageFault.HOST_MALFORMED)
    closes = minor == "0"
    option = fields.get("connection")
    if option is not None and option not in _USUAL and _closes(option):
        closes = True
    body, length = _NONE, 0
    if not _OF_BODIES.isdisjoint(fields):
        body, length = _framing(fields, minor)
        if body is not _NONE and method in _BODILESS and (length or body is BodyFraming.CHUNKED):
            raise MessageInvalid(MessageFault.BODY_UNEXPECTED, method)
    expectation = fields.get("expect")
    # An expectation that is not known may be ignored, and stores ignore it. HTTP/1.0 does not know the answer to the
    # one that is, and without a body there is nothing to wait for.
    expects = (
        expectation is not None
        and expectation.lower() == "100-continue"
        and minor == "1"
        and (body is BodyFraming.CHUNKED or length > 0)
    )
    return RequestHead(method, target, headers, names, body, length, expects, closes, fields)


def read_response_head(data: bytes, method: str) -> ResponseHead:
    """Return the head of the answer to a request of this method. Raise MessageInvalid."""
    text = data.decode("latin-1")
    start = STATUS_LINE.match(text)
    lines = None if start is None else lines_of(text, start.end())
    if start is None or lines is None:
        raise fault_of_response(text)
    minor, code, reason = start.groups("")
    return response_of(method, minor, code, reason, lines)


def response_of(method: str, minor: str, code: str, reason: str, lines: Lines) -> ResponseHead:
    """Return what the parts of an answer's head mean together. Raise MessageInvalid."""
    names, headers, fields, _ = lines
    if len(fields) != len(headers):
        fields = _merged(headers, _refuse_repeated_in_response)
    status = int(code)
    if status == 101 or (status < 200 and "upgrade" in fields):
        raise MessageInvalid(MessageFault.UPGRADE)
    closes = minor == "0" or "close" in _tokens(fields.get("connection", ""))
    body, length = _framing(fields, minor)
    if method == "HEAD" or status == 304:
        # Its framing is that of the answer which GET would have.
        body, length = BodyFraming.NONE, 0
    elif status < 200 or status == 204:
        # There is no body, whatever is said of one: if it comes nevertheless, it is not the next answer.
        closes = closes or body is BodyFraming.CHUNKED or length > 0
        body, length = BodyFraming.NONE, 0
    elif body is BodyFraming.NONE:
        body, closes = BodyFraming.UNTIL_CLOSE, True
    return ResponseHead(status, reason, headers, names, body, length, closes, fields)


def lines_of(text: str, at: int) -> Lines | None:
    """Return the headers, or None unless all of the text behind the first line is headers and one empty line."""
    if len(text) > HEAD_LIMIT or not text.endswith("\r\n\r\n"):
        return None
    found = _LINE.findall(text, at)
    count = text.count("\n") - 2
    # Each header that was found is one whole line, so that none was passed over if the lines are as many.
    if len(found) != count:
        # Blanks may end a value; what else keeps a line from being found is a fault. The first line stays as it is: an
        # empty reason leaves a blank at its end.
        found = _LINE.findall(_BLANKS_AT_END.sub("\r\n", text[at:]))
        if len(found) != count:
            return None
    if len(found) > HEADERS_LIMIT:
        return None
    if not found:
        return (), (), {}, False
    names, values = zip(*found)  # noqa: B905 - each is a pair
    joined = "\n".join(names)
    headers = tuple(zip(joined.lower().split("\n"), values))  # noqa: B905 - as many as there are pairs
    return names, headers, dict(headers), "_" in joined


def _framing(fields: dict[str, str], minor: str) -> tuple[BodyFraming, int]:
    """Return how the body of a message ends; NONE where the headers do not say."""
    length = fields.get("content-length")
    coding = fields.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise MessageInvalid(MessageFault.LENGTH_AND_CODING)
        if minor == "0":
            raise MessageInvalid(MessageFault.CODING_IN_1_0)
        if coding != "chunked":
            raise MessageInvalid(MessageFault.CODING_UNKNOWN)
        return BodyFraming.CHUNKED, 0
    if length is None:
        return BodyFraming.NONE, 0
    if _LENGTH.fullmatch(length) is None:
        raise MessageInvalid(MessageFault.LENGTH_MALFORMED)
    return BodyFraming.SIZED, int(length)


def _tokens(value: str) -> list[str]:
    # Elements of a list may be empty, and count for nothing: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.1.2
    return [token for each in value.lower().split(",") if (token := each.strip(" \t"))]


def _closes(option: str) -> bool:
    """Return whether a request asks for the connection to end with it.

    A name of a header there makes the next hop drop that header: a client that drops headers changes what was judged.
    """
    options = _tokens(option)
    if not _OPTIONS.issuperset(options):
        raise MessageInvalid(MessageFault.CONNECTION_OPTION)
    return "close" in options


_REPEATED = {
    "host": MessageFault.HOST_REPEATED,
    "content-length": MessageFault.LENGTH_REPEATED,
    "transfer-encoding": MessageFault.CODING_REPEATED,
}


def _merged(headers: tuple[tuple[str, str], ...], refuse: Callable[[str], None]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in headers:
        if name in fields:
            refuse(name)
            # In what is signed there is no blank behind the comma.
            fields[name] += f",{value}" if _joins(name) else f", {value}"
        else:
            fields[name] = value
    return fields


def _joins(name: str) -> bool:
    """Return whether the values of a repeated header are one value to S3, and to its signature, with commas between."""
    return name in _JOINED or name.startswith(_JOINED_PREFIX)


def _joined(
    names: tuple[str, ...], headers: tuple[tuple[str, str], ...], fields: dict[str, str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the headers with one in place of those that mean one: no later reader sees another of them."""
    kept: list[tuple[str, tuple[str, str]]] = []
    seen: set[str] = set()
    for spelled, header in zip(names, headers, strict=True):
        name = header[0]
        if not _joins(name):
            kept.append((spelled, header))
        elif name not in seen:
            seen.add(name)
            kept.append((spelled, (name, fields[name])))
    return tuple([spelled for spelled, _ in kept]), tuple([header for _, header in kept])


def _refuse_repeated_in_request(name: str) -> None:
    if _joins(name):
        return
    if name in SINGLE or name.startswith(_SINGLE_PREFIXES):
        raise MessageInvalid(_REPEATED.get(name, MessageFault.REPEATED), shown(name))


def _refuse_repeated_in_response(name: str) -> None:
    if name in _SINGLE_IN_RESPONSES:
        raise MessageInvalid(_REPEATED[name])


def _refuse_disguised(fields: dict[str, str]) -> None:
    """Refuse what CGI and WSGI make another header of: `x_amz_copy_source` is a copy for a store behind them."""
    for name in fields:
        if "_" in name and not name.startswith("x-amz-meta-"):
            plain = name.replace("_", "-")
            if plain in SINGLE or plain in HOP_BY_HOP or plain.startswith(_SINGLE_PREFIXES):
                raise MessageInvalid(MessageFault.NAME_DISGUISED, shown(name))
