"""Know heads again: of those that follow each other most lines are the same, and what is the same means the same.

Whatever is read here is what `head` reads: lines that differ are read by the same grammar, what they mean together is
found by the same functions, and a head that differs in more than some values is read as if it were the first.
"""

from __future__ import annotations

import re
from itertools import compress
from operator import ne

from signproxy.transfer.head import (
    RequestHead,
    ResponseHead,
    read_request_head,
    read_response_head,
    request_of,
    response_of,
)
from signproxy.transfer.refusal import HEAD_LIMIT, HEADERS_LIMIT, REQUEST_LINE, STATUS_LINE, TARGET_LIMIT

KEPT_BYTES = 8 * 1024
"""Of a head that is kept: more than SDKs send, session token included."""
SHAPES = 16
"""Heads of answers that are kept, by their number of lines: those of objects, of ranges, of lists, of errors."""

# What `head` takes for a line, without the blanks at its end that it also takes.
_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)(?<![ \t])")
_REQUEST_LINE = re.compile(REQUEST_LINE.pattern.removesuffix(r"\r\n"))
_STATUS_LINE = re.compile(STATUS_LINE.pattern.removesuffix(r"\r\n"))

_TELLING = frozenset(("host", "connection", "content-length", "transfer-encoding", "expect", "upgrade"))
"""Headers by whose values it is found what a head means; the others are only handed on."""

_BESIDES = 3
"""Lines that are no headers: the first one, and what is behind the last two ends of a line."""
_PLACES = range(HEADERS_LIMIT + 3)
_FIRST = [0]

_Values = tuple[tuple[tuple[str, str], ...], dict[str, str], bool]
_Answered = tuple[ResponseHead, list[str], str]
"""The head of an answer, the lines that it was read from, and the method of the request."""


class RequestHeads:
    """Reads the heads of the requests of one connection, and keeps the last one."""

    __slots__ = ("_head", "_lines", "_minor")

    def __init__(self) -> None:
        self._head: RequestHead | None = None
        self._lines: list[str] = []
        self._minor = ""

    def read(self, data: bytes) -> RequestHead:
        """Return the head of a request, as `read_request_head` does. Raise MessageInvalid."""
        text = data.decode("latin-1")
        lines = text.split("\r\n")
        known = self._head
        if known is not None and len(lines) == len(self._lines) and len(text) <= HEAD_LIMIT:
            start = _REQUEST_LINE.fullmatch(lines[0])
            values = None if start is None else _values(lines, self._lines, known)
            if start is not None and values is not None:
                method, target, minor = start.groups()
                headers, fields, told = values
                if told or method != known.method or minor != self._minor or len(target) > TARGET_LIMIT:
                    head = request_of(method, target, minor, (known.names, headers, fields, _disguises(known)))
                else:
                    head = RequestHead(
                        method,
                        target,
                        headers,
                        known.names,
                        known.body,
                        known.length,
                        known.expects_continue,
                        known.closes,
                        fields,
                    )
                self._head, self._lines, self._minor = head, lines, minor
                return head
        self._head = None
        head = read_request_head(data)
        # Of a head with joined headers the places are not those of its lines.
        if len(text) <= KEPT_BYTES and len(head.fields) == len(head.headers) == len(lines) - _BESIDES:
            self._head, self._lines, self._minor = head, lines, lines[0][-1]
        return head


class ResponseHeads:
    """Reads the heads of the answers of servers that answer alike, and keeps the last one of each length."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, _Answered] = {}

    def read(self, data: bytes, method: str) -> ResponseHead:
        """Return the head of the answer to such a request, as `read_response_head` does. Raise MessageInvalid."""
        text = data.decode("latin-1")
        lines = text.split("\r\n")
        known = self._known.get(len(lines))
        if known is not None and len(text) <= HEAD_LIMIT:
            head = _answered_again(known, lines, method)
            if head is not None:
                if head is not known[0]:
                    self._known[len(lines)] = head, lines, method
                return head
        head = read_response_head(data, method)
        if len(text) <= KEPT_BYTES and len(head.fields) == len(head.headers):
            if len(self._known) >= SHAPES:
                self._known.clear()
            self._known[len(lines)] = head, lines, method
        return head


def _answered_again(known: _Answered, lines: list[str], method: str) -> ResponseHead | None:
    head, before, method_before = known
    values = _values(lines, before, head)
    if values is None:
        return None
    headers, fields, told = values
    if told or method != method_before or lines[0] != before[0]:
        start = _STATUS_LINE.fullmatch(lines[0])
        if start is None:
            return None
        minor, code, reason = start.groups("")
        return response_of(method, minor, code, reason, (head.names, headers, fields, False))
    if fields is head.fields:
        return head
    return ResponseHead(head.status, head.reason, headers, head.names, head.body, head.length, head.closes, fields)


def _values(lines: list[str], before: list[str], known: RequestHead | ResponseHead) -> _Values | None:
    """Return headers, fields, and whether one that tells something changed; None where more than values changed.

    As many lines as before are headers, and one behind them is empty. The first line is not looked at.
    """
    changed = [*compress(_PLACES, map(ne, lines, before))]
    if not changed or changed == _FIRST:
        return known.headers, known.fields, False
    names = known.names
    headers = list(known.headers)
    fields = known.fields.copy()
    told = False
    for at in changed:
        if not at:
            continue
        if at > len(names):
            return None
        line = lines[at]
        spelled, colon, value = line.partition(": ")
        # What nearly all lines are needs no grammar to be told.
        if not (colon and value.isascii() and value.isprintable() and value.strip(" ") == value):
            match = _LINE.fullmatch(line)
            if match is None:
                return None
            spelled, value = match.groups()
        if spelled != names[at - 1]:
            return None
        name = headers[at - 1][0]
        headers[at - 1] = name, value
        fields[name] = value
        if name in _TELLING:
            told = True
    return tuple(headers), fields, told


def _disguises(known: RequestHead) -> bool:
    # It was found harmless when it was read first, and depends on the names alone.
    return "_" in "".join(known.names)
