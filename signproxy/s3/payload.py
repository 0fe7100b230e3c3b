"""Say in which of S3's payload modes a request carries its body, and in which one it is sent on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.checksums import is_known
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.headers import UNSIGNED_PAYLOAD, UNSIGNED_TRAILER
from signproxy.s3.operation import Operation
from signproxy.s3.storage import Storage

SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
AWS_CHUNKED = "aws-chunked"

CHUNK_END = b"\r\n"
MAX_REFRAMED_CHUNK = 8 * 1024**2
"""Bytes of data in a chunk that is framed anew. MinIO refuses chunks of more than 16 MiB."""

MAX_DECODED = 5 * 1024**3
"""S3's own limit of one upload or part."""


class PayloadMode(Enum):
    """How a request carries its body; the value is what the audit trail calls it."""

    UNSIGNED = "unsigned"
    """Not bound by the signature: UNSIGNED-PAYLOAD, or nothing said."""
    HASHED = "hashed"
    """The signature binds the body's SHA-256."""
    UNSIGNED_TRAILER = "unsigned-trailer"
    SIGNED_CHUNKS = "signed-chunks"
    SIGNED_CHUNKS_TRAILER = "signed-chunks-trailer"

    @property
    def chunked(self) -> bool:
        """Whether the body is framed as aws-chunked."""
        return self in _CHUNKED

    @property
    def signed(self) -> bool:
        """Whether each chunk carries a signature."""
        return self in _SIGNED


_SIGNED = (PayloadMode.SIGNED_CHUNKS, PayloadMode.SIGNED_CHUNKS_TRAILER)
_CHUNKED = (PayloadMode.UNSIGNED_TRAILER, *_SIGNED)


class Carriage(Enum):
    """How a body is sent on to the store."""

    AS_SENT = "as sent"
    """Byte for byte: plain, or with its chunk framing untouched."""
    DECODED = "decoded"
    """Without the framing, under a Content-Length of its decoded length."""
    REFRAMED = "reframed"
    """With unsigned chunks and the client's own checksum trailer in place of the signed chunks."""


class Payload(msgspec.Struct, frozen=True, gc=False):
    """What a request says about its body, and how that body is sent on."""

    mode: PayloadMode
    declared: str
    """The value of x-amz-content-sha256 as the client means it."""
    carriage: Carriage = Carriage.AS_SENT
    sent: str = UNSIGNED_PAYLOAD
    """The value of x-amz-content-sha256 towards the store."""
    decoded_length: int | None = None
    """Of a chunked body: how many bytes of data it holds."""
    trailer: str = ""
    """The name of the announced checksum trailer, if there is one."""


_MODES = {
    UNSIGNED_PAYLOAD: PayloadMode.UNSIGNED,
    UNSIGNED_TRAILER: PayloadMode.UNSIGNED_TRAILER,
    SIGNED_CHUNKS: PayloadMode.SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER: PayloadMode.SIGNED_CHUNKS_TRAILER,
}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LENGTH = re.compile(r"[0-9]{1,18}")
# The lengths of the values in base64, by which a framing is as long as it was said to be.
_TRAILERS = {
    "crc32": 8,
    "crc32c": 8,
    "crc64nvme": 12,
    "md5": 24,
    "sha1": 28,
    "sha256": 44,
    "sha512": 88,
    "xxhash3": 12,
    "xxhash64": 12,
    "xxhash128": 24,
}
_CHECKSUM = "x-amz-checksum-"

NOTHING_SAID = Payload(PayloadMode.UNSIGNED, UNSIGNED_PAYLOAD)
"""Of a request that says nothing of its body."""
_CHUNKED_UPLOADS = (Operation.PUT_OBJECT, Operation.UPLOAD_PART)


def payload_of(
    declared: str, encoding: str, trailer: str, decoded_length: str | None, operation: Operation, storage: Storage
) -> Payload:
    """Return the payload of a request from its headers, or refuse a mode that S3 does not have.

    `declared` is x-amz-content-sha256, `encoding` content-encoding, `trailer` x-amz-trailer; each empty where it is
    not there.
    """
    if not declared and not encoding:
        return NOTHING_SAID
    framed = AWS_CHUNKED in [token.strip(" ") for token in encoding.lower().split(",")]
    if not declared:
        # Some versions of s3fs send the framing without the header.
        declared = UNSIGNED_TRAILER if framed and trailer else UNSIGNED_PAYLOAD
    mode = _mode(declared)
    if mode is PayloadMode.UNSIGNED and framed:
        raise Refused(Reason.PAYLOAD_MODE, "aws-chunked with UNSIGNED-PAYLOAD: the framing would become content")
    if not mode.chunked:
        return Payload(mode, declared, Carriage.AS_SENT, declared)
    if operation not in _CHUNKED_UPLOADS:
        told = f"{declared} with {operation.s3_name}"
        raise S3Refused(Reason.PAYLOAD_MODE, Fault.CONTENT_SHA256_USE, detail=told)
    length = _decoded_length(decoded_length)
    trailer = trailer.lower()
    if trailer and trailer.removeprefix(_CHECKSUM) not in _TRAILERS:
        told = f"x-amz-trailer {trailer[:64]!r} is no checksum of S3's"
        raise S3Refused(Reason.HEADER_VALUE, Fault.TRAILER_NAME, detail=told)
    if trailer and mode is PayloadMode.SIGNED_CHUNKS:
        raise Refused(Reason.PAYLOAD_MODE, f"x-amz-trailer {trailer!r} with {declared}")
    carriage = _carriage(mode, storage)
    if carriage is Carriage.DECODED and trailer and not is_known(trailer.removeprefix(_CHECKSUM)):
        raise Refused(Reason.PAYLOAD_UNSUPPORTED, f"trailer {trailer!r} cannot be verified, and the store knows none")
    sent = UNSIGNED_PAYLOAD if carriage is Carriage.DECODED else UNSIGNED_TRAILER
    return Payload(mode, declared, carriage, sent, length, trailer)


def without_framing(encoding: str) -> str:
    """Return a content-encoding without `aws-chunked`; empty where nothing else was there."""
    tokens = [token for token in encoding.split(",") if token.strip(" ").lower() != AWS_CHUNKED]
    return ",".join(tokens).strip(" ")


def reframed_head(left: int) -> bytes:
    """Return what goes before the next chunk of a reframed body that has so many bytes of data left."""
    return b"%x\r\n" % min(left, MAX_REFRAMED_CHUNK)


def reframed_end(trailers: Mapping[str, str]) -> bytes:
    """Return what goes after the chunks of a reframed body, the verified trailers included."""
    return b"0\r\n" + "".join([f"{name}:{value}\r\n" for name, value in trailers.items()]).encode() + b"\r\n"


def reframed_length(payload: Payload) -> int:
    """Return the Content-Length of a reframed body, which is known before any of it came."""
    value = {payload.trailer: "=" * _TRAILERS[payload.trailer.removeprefix(_CHECKSUM)]} if payload.trailer else {}
    data = payload.decoded_length or 0
    full, rest = divmod(data, MAX_REFRAMED_CHUNK)
    framing = full * _framing_of(MAX_REFRAMED_CHUNK) + (_framing_of(rest) if rest else 0)
    return framing + data + len(reframed_end(value))


def _framing_of(size: int) -> int:
    return len(reframed_head(size)) + len(CHUNK_END)


def _mode(declared: str) -> PayloadMode:
    mode = _MODES.get(declared)
    if mode is not None:
        return mode
    if _SHA256.fullmatch(declared):
        return PayloadMode.HASHED
    if declared.startswith("STREAMING-AWS4-ECDSA-"):
        raise Refused(Reason.PAYLOAD_UNSUPPORTED, f"x-amz-content-sha256 {declared[:64]!r}")
    told = f"x-amz-content-sha256 {declared[:64]!r}"
    raise S3Refused(Reason.PAYLOAD_MODE, Fault.CONTENT_SHA256_FORM, "x-amz-content-sha256", declared, detail=told)


def _decoded_length(value: str | None) -> int:
    if value is None:
        told = "x-amz-decoded-content-length is missing"
        raise S3Refused(Reason.LENGTH_REQUIRED, Fault.DECODED_LENGTH, detail=told)
    if not _LENGTH.fullmatch(value):
        told = f"x-amz-decoded-content-length {value[:32]!r}"
        raise S3Refused(Reason.HEADER_VALUE, Fault.DECODED_LENGTH, detail=told)
    length = int(value)
    if length > MAX_DECODED:
        raise Refused(Reason.ENTITY_TOO_LARGE, f"{length} bytes, at most {MAX_DECODED} are one upload")
    return length


def _carriage(mode: PayloadMode, storage: Storage) -> Carriage:
    if mode is PayloadMode.SIGNED_CHUNKS or not storage.checks_trailers:
        return Carriage.DECODED
    # Clients send unsigned trailers in HTTP's chunked coding. Chunks of our own have a length that is known.
    if mode is PayloadMode.UNSIGNED_TRAILER and storage.accepts_chunked_transfer:
        return Carriage.AS_SENT
    return Carriage.REFRAMED
