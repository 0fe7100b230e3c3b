"""Say what is wrong with a head that was not read: the slow way, line by line, for the operator's sake."""

from __future__ import annotations

import re

from signproxy.transfer.faults import MessageFault, MessageInvalid

HEAD_LIMIT = 32 * 1024
"""Session tokens of real issuers reach 8 KiB, and a presigned URL holds one percent-encoded."""
TARGET_LIMIT = 12 * 1024
HEADERS_LIMIT = 128

REQUEST_LINE = re.compile(r'([A-Z]{1,20}) (/[!"$-~]*+) HTTP/1\.([01])\r\n')
"""No fragment: a client that sends one means something else by the target than a reader that cuts it off."""
STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*+))?\r\n")

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BARE = re.compile(r"(?<!\r)\n|\r(?!\n)")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_SHOWN = 64


def shown(name: str) -> str:
    """Return a stranger's name of a header, fit for a log."""
    return ascii(name[:_SHOWN])


def has_bare_ending(data: bytes, start: int) -> bool:
    """Return whether what has come of a head can no longer be one: a line behind `start` ended with LF alone."""
    return _BARE_LF.search(data, start) is not None


def fault_of_request(text: str) -> MessageInvalid:
    """Return why a text is no head of a request."""
    fault = _outline(text)
    if fault is not None:
        return fault
    first, *lines = text[:-4].split("\r\n")
    method, _, rest = first.partition(" ")
    target, blank, version = rest.rpartition(" ")
    if not re.fullmatch(r"[A-Z]{1,20}", method) or not blank:
        return MessageInvalid(MessageFault.START_LINE)
    if not re.fullmatch(r"HTTP/1\.[01]", version):
        return MessageInvalid(MessageFault.VERSION if version.startswith("HTTP/") else MessageFault.START_LINE)
    if not target.startswith("/"):
        return MessageInvalid(MessageFault.TARGET_FORM)
    if not REQUEST_LINE.fullmatch(f"{first}\r\n"):
        return MessageInvalid(MessageFault.TARGET_CHARACTERS)
    return _fault_of_lines(lines)


def fault_of_response(text: str) -> MessageInvalid:
    """Return why a text is no head of an answer."""
    fault = _outline(text)
    if fault is not None:
        return fault
    first, *lines = text[:-4].split("\r\n")
    if not STATUS_LINE.fullmatch(f"{first}\r\n"):
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/"):
            return MessageInvalid(MessageFault.START_LINE)
        if version not in {"HTTP/1.0", "HTTP/1.1"}:
            return MessageInvalid(MessageFault.VERSION)
        return MessageInvalid(MessageFault.STATUS, shown(status[:4]))
    return _fault_of_lines(lines)


def _outline(text: str) -> MessageInvalid | None:
    if len(text) > HEAD_LIMIT:
        return MessageInvalid(MessageFault.HEAD_TOO_LARGE)
    if _BARE.search(text):
        return MessageInvalid(MessageFault.LINE_ENDING)
    if text.find("\r\n\r\n") != len(text) - 4:
        return MessageInvalid(MessageFault.HEAD_UNFINISHED)
    return None


def _fault_of_lines(lines: list[str]) -> MessageInvalid:
    if len(lines) > HEADERS_LIMIT:
        return MessageInvalid(MessageFault.TOO_MANY_HEADERS)
    for line in lines:
        name, colon, value = line.partition(":")
        if line.startswith((" ", "\t")):
            return MessageInvalid(MessageFault.FOLDED)
        if not colon:
            return MessageInvalid(MessageFault.NAME, shown(name))
        if name.endswith((" ", "\t")):
            return MessageInvalid(MessageFault.BLANK_IN_NAME, shown(name))
        if not _NAME.fullmatch(name):
            return MessageInvalid(MessageFault.NAME, shown(name))
        if _CONTROL.search(value):
            return MessageInvalid(MessageFault.CONTROL_CHARACTER, shown(name))
    # What follows the empty line of a head is never handed to it.
    return MessageInvalid(MessageFault.HEAD_UNFINISHED)
