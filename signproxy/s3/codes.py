"""Say with which status, code and words S3 would refuse what signproxy refuses.

Every reason has a code. Where S3 tells more faults apart than signproxy has reasons, the refusal names the `Fault`
besides; where a rule of signproxy's own is broken, it is `Worded`. Both change what the client is told, and nothing
else.
"""

from __future__ import annotations

from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import S3Code, S3Refused


class S3Answer(NamedTuple):
    """What a client is told of a refusal."""

    status: int
    code: str
    message: str
    elements: tuple[tuple[str, str], ...] = ()


_MAX_WORDS = 1024
"""Characters of a message that names what a client sent."""


class Worded(Refused):
    """Raise to refuse a request in words that name the fault. They hold nothing but rules and what the caller sent.

    What the caller sent is in them as its `repr`, which has no control characters. The signer and the S3 listener
    answer in the same words.
    """

    def __init__(self, reason: Reason, words: str, *, code: str = "", detail: str = "") -> None:
        super().__init__(reason, detail)
        self.words = words[:_MAX_WORDS]
        self.code = code
        """The code of S3 that fits better than that of the reason."""


_DENIED = S3Code(403, "AccessDenied")
_INVALID = S3Code(400, "InvalidRequest")
_ARGUMENT = S3Code(400, "InvalidArgument")
_URI = S3Code(400, "InvalidURI")
_TOKEN = S3Code(403, "InvalidAccessKeyId")
_BUSY = S3Code(503, "SlowDown")
_UNAVAILABLE = S3Code(503, "ServiceUnavailable")
_XML = S3Code(400, "MalformedXML")
_MISMATCH = S3Code(
    403,
    "SignatureDoesNotMatch",
    "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
)
_INCOMPLETE = S3Code(400, "IncompleteBody", "The request body terminated unexpectedly")
_UPLOAD = S3Code(
    404,
    "NoSuchUpload",
    "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted "
    "or completed.",
)
_MALFORMED = S3Code(400, "AuthorizationHeaderMalformed")
_TIMEOUT = S3Code(400, "RequestTimeout")

_CODES: dict[Reason, S3Code] = {
    # message and limits
    Reason.METHOD_NOT_ALLOWED: S3Code(405, "MethodNotAllowed"),
    Reason.BODY_TOO_LARGE: S3Code(413, "EntityTooLarge"),
    Reason.BODY_TIMEOUT: _TIMEOUT,
    Reason.BODY_STALLED: _TIMEOUT,
    Reason.CLIENT_GONE: _TIMEOUT,
    Reason.LENGTH_REQUIRED: S3Code(411, "MissingContentLength"),
    Reason.ENTITY_TOO_LARGE: S3Code(400, "EntityTooLarge"),
    Reason.RATE_LIMITED: _BUSY,
    Reason.IN_FLIGHT_LIMITED: _BUSY,
    Reason.OVERLOADED: _BUSY,
    Reason.UPSTREAM_BUSY: _BUSY,
    # identity: S3 knows no 401, and SDKs treat one as a fault of the server
    Reason.ACCESS_KEY_UNKNOWN: _TOKEN,
    Reason.TOKEN_EXPIRED: S3Code(400, "ExpiredToken"),
    Reason.KEY_EXPIRED: S3Code(400, "ExpiredToken"),
    Reason.AUTHORIZATION_MALFORMED: _MALFORMED,
    Reason.SCOPE_MISMATCH: _MALFORMED,
    Reason.REGION_MISMATCH: _MALFORMED,
    Reason.SIGNATURE_MISMATCH: _MISMATCH,
    Reason.CHUNK_SIGNATURE: _MISMATCH,
    Reason.TIME_SKEWED: S3Code(403, "RequestTimeTooSkewed"),
    # uri and operation
    Reason.URI_MALFORMED: _URI,
    Reason.URI_USERINFO: _URI,
    Reason.URI_FRAGMENT: _URI,
    Reason.KEY_ENCODING: _URI,
    Reason.KEY_DOT_SEGMENT: _URI,
    Reason.KEY_EMPTY_SEGMENT: _URI,
    Reason.KEY_PATH_PARAMETER: _URI,
    Reason.KEY_CHARACTER: _ARGUMENT,
    Reason.KEY_TOO_LONG: S3Code(400, "KeyTooLongError"),
    Reason.QUERY_MALFORMED: _ARGUMENT,
    Reason.QUERY_REPEATED: _ARGUMENT,
    Reason.QUERY_RESERVED: _ARGUMENT,
    Reason.METHOD_UNKNOWN: S3Code(405, "MethodNotAllowed"),
    # A list that says too little is not the caller's to make: clients go on to look elsewhere.
    Reason.LIST_PREFIX: _DENIED,
    Reason.UPLOAD_ID: _UPLOAD,
    # headers and body
    Reason.PAYLOAD_MODE: _ARGUMENT,
    Reason.PAYLOAD_UNSUPPORTED: S3Code(501, "NotImplemented"),
    Reason.COPY_SOURCE: _ARGUMENT,
    # The reason's own message is about signing.
    Reason.DELETE_WITHOUT_BODY: S3Code(400, "MissingRequestBodyError", "Request Body is empty"),
    Reason.DELETE_BODY: _XML,
    Reason.DELETE_MARKUP: _XML,
    Reason.DELETE_SIZE: _XML,
    Reason.DELETE_REPEATED: _XML,
    Reason.CHUNK_MALFORMED: _INCOMPLETE,
    Reason.CHUNK_INCOMPLETE: _INCOMPLETE,
    Reason.PAYLOAD_HASH: S3Code(400, "XAmzContentSHA256Mismatch"),
    Reason.CHECKSUM_MISMATCH: S3Code(400, "BadDigest"),
    Reason.CONTENT_MD5: S3Code(400, "BadDigest"),
    # the way
    Reason.STORE_INVALID: S3Code(502, "InternalError"),
    Reason.UPSTREAM_INVALID: S3Code(502, "InternalError"),
    Reason.SESSIONS_REFUSED: S3Code(502, "InternalError"),
    Reason.SESSIONS_INVALID: S3Code(502, "InternalError"),
    Reason.STORE_TIMEOUT: S3Code(504, "InternalError"),
    Reason.UPSTREAM_TIMEOUT: S3Code(504, "InternalError"),
    Reason.INTERNAL: S3Code(500, "InternalError"),
}

# What is not listed is told by its kind alone.
_BY_STATUS = {
    200: S3Code(200, ""),
    400: _INVALID,
    401: _DENIED,
    403: _DENIED,
    404: S3Code(404, "NoSuchKey"),
    409: S3Code(409, "OperationAborted"),
    503: _UNAVAILABLE,
}


def s3_answer(refused: Refused) -> S3Answer:
    """Return what a client is told of a refusal: what it may know, never the operator's detail."""
    said = s3_code(refused.reason)
    if isinstance(refused, Worded):
        return S3Answer(said.status, refused.code or said.code, refused.words)
    facts: tuple[str, ...] = ()
    if isinstance(refused, S3Refused):
        said, facts = refused.fault.value, refused.facts
    message = said.message or refused.reason.value.message
    if "{}" in message:
        message = message.format(*facts)
    elements = tuple([(name, fact) for name, fact in zip(said.elements, facts, strict=False) if name])
    return S3Answer(said.status, said.code, message, elements)


def s3_code(reason: Reason) -> S3Code:
    """Return the status and the code of a refusal on the wire."""
    return _CODES.get(reason) or _BY_STATUS[reason.status]


_WORDS = {
    Reason.HEADER_MALFORMED: "The header {} is not well-formed",
    Reason.HEADER_REPEATED: "The header {} is given more than once",
    Reason.HEADER_CREDENTIALS: "The request already carries credentials or a date, in the header {}",
    Reason.HEADER_REFUSED: "The header {} is not allowed here",
    Reason.HEADER_VALUE: "The value of the header {} is not allowed here",
}
"""The name alone is told: a value may be a secret, and intermediaries log answers."""
_SHOWN = 128
"""Characters of a header's name that a refusal repeats."""


def naming(refused: Refused, name: str) -> Refused:
    """Return the refusal of a header, whose name is the caller's own, with that name in it."""
    return Worded(refused.reason, _WORDS[refused.reason].format(repr(name[:_SHOWN])), detail=refused.detail)
