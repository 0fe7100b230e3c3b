"""Say what happens to the body of an upload on its way to the store: how it is framed there, and what is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.forward.inspections import BodyCheck, ChecksumCheck, Decoded, HashCheck, follower_of, witness_of
from signproxy.s3.aws_chunked import ChunkedPayload, UnsignedWatch
from signproxy.s3.checksums import is_known
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.forwarded import Forwardable
from signproxy.s3.operation import Operation
from signproxy.s3.payload import (
    CHUNK_END,
    MAX_REFRAMED_CHUNK,
    Carriage,
    Payload,
    PayloadMode,
    reframed_end,
    reframed_head,
    reframed_length,
)
from signproxy.s3.storage import Storage
from signproxy.s3.verify import SeedSignature
from signproxy.transfer.body import Inspect
from signproxy.transfer.head import BodyFraming, RequestHead

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

SMALL = 64 * 1024
"""Bytes of data up to which a body is read whole before the store is asked: then one write carries the request."""
SMALL_FRAMED = 256 * 1024
"""Bytes that so much data may have with its framing; more of it is cut into chunks that no client cuts."""

_CHECKSUM = "x-amz-checksum-"
_NO_BODY = BodyFraming.NONE
_SIZED = BodyFraming.SIZED
_CHUNKED = BodyFraming.CHUNKED
_HASHED = PayloadMode.HASHED


class BodyTransfer(msgspec.Struct, frozen=True, gc=False):
    """How a body gets to the store."""

    body: BodyFraming
    length: int = 0
    """For the store, in bytes; 0 for one that goes in chunks."""
    small: bool = False
    """Whether it is read whole first."""
    inspect: Inspect | None = None
    checksum: str = ""
    """The algorithms that are verified on the way."""


WITHOUT = BodyTransfer(_NO_BODY)
"""Of a request without one."""


def transfer_of(forwardable: Forwardable, head: RequestHead, seed: SeedSignature | None) -> BodyTransfer:
    """Return how the body of a request is sent on; raise Refused where it cannot be."""
    payload, storage = forwardable.payload, forwardable.request.storage
    if payload.mode.chunked:
        return _chunked(payload, storage, head, seed)
    if head.body is _NO_BODY or (head.body is _SIZED and not head.length):
        if payload.mode is _HASHED and payload.declared != EMPTY_SHA256:
            told = f"declared {payload.declared}, and there is no body"
            raise S3Refused(Reason.PAYLOAD_HASH, Fault.CONTENT_SHA256, payload.declared, EMPTY_SHA256, detail=told)
        return WITHOUT
    length = head.length if head.body is _SIZED else None
    if length is None and not storage.accepts_chunked_transfer:
        raise Refused(Reason.LENGTH_REQUIRED, f"storage {storage.name!r} takes no body without its length")
    checks: list[BodyCheck] = [HashCheck(payload.declared)] if payload.mode is _HASHED else []
    if not storage.checks_payload_hash:
        checks += _declared_checksums(forwardable)
    inspect = witness_of(checks, length) if checks else None
    names = ",".join([check.name for check in checks])
    if length is None:
        return BodyTransfer(_CHUNKED, inspect=inspect, checksum=names)
    return BodyTransfer(_SIZED, length, length <= SMALL, inspect, names)


def _chunked(payload: Payload, storage: Storage, head: RequestHead, seed: SeedSignature | None) -> BodyTransfer:
    """Return how a body goes that is framed as aws-chunked."""
    decoded = payload.decoded_length
    if decoded is None:
        raise Refused(Reason.LENGTH_REQUIRED, "no x-amz-decoded-content-length")
    small = decoded <= SMALL
    algorithm = payload.trailer.removeprefix(_CHECKSUM)
    if payload.carriage is Carriage.AS_SENT:
        verifies = not storage.checks_trailers
        length = head.length if head.body is _SIZED else None
        inspect = follower_of(UnsignedWatch(payload, verifies=verifies), length)
        body = _CHUNKED if length is None else _SIZED
        return BodyTransfer(body, length or 0, small, inspect, algorithm if verifies else "")
    chunks = ChunkedPayload(payload, seed)
    if payload.carriage is Carriage.REFRAMED:
        return BodyTransfer(_SIZED, reframed_length(payload), small, Reframed(chunks, payload), algorithm)
    return BodyTransfer(_SIZED, decoded, small, Decoded(chunks), algorithm)


def _declared_checksums(forwardable: Forwardable) -> list[BodyCheck]:
    """Return checks of what the headers say of the body, for a store that would not look."""
    checks: list[BodyCheck] = []
    completes = forwardable.request.operation is Operation.COMPLETE_MULTIPART_UPLOAD
    for spelled, value in forwardable.headers:
        name = spelled.lower()
        if name == "content-md5":
            checks.append(ChecksumCheck("md5", value, Reason.CONTENT_MD5))
        elif name.startswith(_CHECKSUM) and not completes:
            # Of a completion they are those of the whole object, which only the store knows.
            algorithm = name.removeprefix(_CHECKSUM)
            # `algorithm`, `type` and `mode` say something else.
            if is_known(algorithm):
                checks.append(ChecksumCheck(algorithm, value, Reason.CHECKSUM_MISMATCH))
    return checks


class Reframed:
    """Takes a client's chunks apart, and puts what was verified of them into chunks of its own."""

    __slots__ = ("_chunks", "_in_chunk", "_left")

    def __init__(self, chunks: ChunkedPayload, payload: Payload) -> None:
        self._chunks = chunks
        # Of the whole body, which the client's framing is checked against: it cannot bring more or less.
        self._left = payload.decoded_length or 0
        self._in_chunk = 0

    def feed(self, piece: memoryview) -> Iterator[bytes | memoryview]:
        """Take the next piece of the client's framing; return what goes to the store."""
        # Some of it is held until more follows, and the piece does not live that long.
        return self._framed(self._chunks.feed(bytes(piece)))

    def finish(self) -> Iterator[bytes | memoryview]:
        """Return the end: nothing of it before the client's own was seen and matches."""
        pieces, trailers = self._chunks.finish()
        yield from self._framed(pieces)
        yield reframed_end(trailers)

    def _framed(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for whole in pieces:
            piece = whole
            while piece:
                if not self._in_chunk:
                    yield reframed_head(self._left)
                    self._in_chunk = min(self._left, MAX_REFRAMED_CHUNK)
                part, piece = piece[: self._in_chunk], piece[self._in_chunk :]
                yield part
                self._in_chunk -= len(part)
                self._left -= len(part)
                if not self._in_chunk:
                    yield CHUNK_END
