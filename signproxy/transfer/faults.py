"""Own every way in which a message on the wire is refused, and every way in which its transfer ends early.

    SignproxyError
    ├── MessageInvalid       the bytes are no message that two readers must understand alike; carries its `MessageFault`
    │   └── BodyInvalid      ... found in the body
    ├── Truncated            the sender ended the connection before the message ended
    └── Stalled              (a TimeoutError) nothing moved for as long as it may
        ├── SourceStalled    the sender stopped sending
        └── TargetStalled    the receiver stopped receiving
    ConnectionResetError
    ├── SourceLost           the connection that a body is read from broke
    └── TargetLost           the connection that a body is written to broke

Each says what happened on the wire alone; what a caller is answered is not decided here.
"""

from __future__ import annotations

from enum import Enum

from signproxy.errors import SignproxyError


class MessageFault(Enum):
    """Every way in which bytes are no acceptable message; the value is said to the operator."""

    HEAD_TOO_LARGE = "the head is larger than allowed"
    HEAD_UNFINISHED = "the head does not end with an empty line"
    START_LINE = "the first line is none of HTTP/1.1"
    VERSION = "the HTTP version is neither 1.0 nor 1.1"
    TARGET_FORM = "the target does not begin with a slash"
    TARGET_CHARACTERS = "the target holds characters that no target has"
    TARGET_TOO_LONG = "the target is longer than allowed"
    LINE_ENDING = "a line ends with a bare CR or LF"
    CONTROL_CHARACTER = "a header holds a control character"
    FOLDED = "a header is folded over several lines"
    BLANK_IN_NAME = "there is a blank before the colon of a header"
    NAME = "a header has no name, or one with characters that no name has"
    NAME_DISGUISED = "the name of a header becomes another one where underscores are read as hyphens"
    TOO_MANY_HEADERS = "there are more headers than allowed"
    REPEATED = "a header that may be there once is repeated"
    HOST_MISSING = "there is no Host"
    HOST_MALFORMED = "Host is no name or address with at most a port"
    HOST_REPEATED = "Host is repeated"
    LENGTH_REPEATED = "Content-Length is repeated"
    LENGTH_MALFORMED = "Content-Length is no plain decimal number"
    CODING_REPEATED = "Transfer-Encoding is repeated"
    CODING_UNKNOWN = "Transfer-Encoding is not exactly `chunked`"
    CODING_IN_1_0 = "Transfer-Encoding in a message of HTTP/1.0"
    LENGTH_AND_CODING = "Content-Length and Transfer-Encoding together"
    BODY_UNEXPECTED = "a body on a request that has none"
    UPGRADE = "the protocol is to be changed"
    CONNECTION_OPTION = "Connection names a header that is not of the connection"
    STATUS = "the status is none of HTTP/1.1"
    CHUNK_SIZE = "the size of a chunk is no plain hexadecimal number"
    CHUNK_EXTENSION = "a chunk has an extension"
    CHUNK_LINE_TOO_LONG = "the line with the size of a chunk is longer than allowed"
    CHUNK_END = "a chunk does not end where its size says"
    TRAILER = "there are trailers behind the last chunk"
    BODY_TOO_LONG = "more body than was announced"
    BODY_TOO_SHORT = "less body than was announced"


class MessageInvalid(SignproxyError):
    """Raise for bytes that are no acceptable message; `detail` is for the operator and holds no value of a header."""

    def __init__(self, fault: MessageFault, detail: str = "") -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.fault.value}: {self.detail}" if self.detail else self.fault.value


class BodyInvalid(MessageInvalid):
    """The framing of a body is broken, or is not what was announced."""


class Truncated(SignproxyError):
    """The sender ended the connection before its message ended."""


class Stalled(SignproxyError, TimeoutError):
    """Nothing moved for as long as it may."""


class SourceStalled(Stalled):
    """The sender stopped sending."""


class TargetStalled(Stalled):
    """The receiver stopped receiving."""


class SourceLost(ConnectionResetError):
    """The connection that a body is read from broke."""


class TargetLost(ConnectionResetError):
    """The connection that a body is written to broke."""
