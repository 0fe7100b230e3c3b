"""Compare a body on its way to the store with everything that was said about it.

Its end is withheld until all of that was found true: a store that was promised a length and gets less of it makes no
object, and neither does one that never sees the last chunk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from signproxy.errors import Reason
from signproxy.s3.aws_chunked import ChunkedPayload, UnsignedWatch
from signproxy.s3.checksums import checksum
from signproxy.s3.faults import Fault, S3Refused


class BodyCheck(Protocol):
    """One thing that was said about a body."""

    name: str
    """The algorithm, for the audit trail."""

    def update(self, piece: memoryview) -> None:
        """Take note of the next piece."""

    def verify(self) -> None:
        """Raise Refused where what was said is not true."""


class HashCheck:
    """The SHA-256 that the caller's signature binds."""

    __slots__ = ("_declared", "_hash", "name", "update")

    def __init__(self, declared: str) -> None:
        self.name = "sha256"
        self._declared = declared
        self._hash = hashlib.sha256()
        self.update = self._hash.update

    def verify(self) -> None:
        """Raise Refused with PAYLOAD_HASH."""
        found = self._hash.hexdigest()
        if found != self._declared:
            told = f"declared {self._declared}, found {found}"
            raise S3Refused(Reason.PAYLOAD_HASH, Fault.CONTENT_SHA256, self._declared, found, detail=told)


class ChecksumCheck:
    """A checksum in a header: Content-MD5, or one of x-amz-checksum-*."""

    __slots__ = ("_checksum", "_declared", "_reason", "name", "update")

    def __init__(self, name: str, declared: str, reason: Reason) -> None:
        self.name = name
        self._declared = declared
        self._reason = reason
        self._checksum = checksum(name)
        self.update = self._checksum.update

    def verify(self) -> None:
        """Raise Refused with CONTENT_MD5 or CHECKSUM_MISMATCH."""
        found = self._checksum.base64()
        if found != self._declared:
            told = f"{self.name}: declared {self._declared[:128]!r}, found {found}"
            if self._reason is Reason.CONTENT_MD5:
                raise S3Refused(self._reason, Fault.CONTENT_MD5, self._declared, found, detail=told)
            raise S3Refused(self._reason, Fault.CHECKSUM, self.name.upper(), detail=told)


class Witness:
    """Shows a body to a function, and lets it end once another one approves of the whole."""

    __slots__ = ("_approve", "_approved", "_left", "_see")

    def __init__(self, see: Callable[[memoryview], object], approve: Callable[[], None], length: int | None) -> None:
        """`length` is None for a body that ends with a last chunk, which is not written before `finish` has passed."""
        self._see = see
        self._approve = approve
        self._left = length
        self._approved = False

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return the piece; the one that completes the body only if all of it is approved of."""
        self._see(piece)
        if self._left is not None:
            self._left -= len(piece)
            if self._left <= 0:
                self._approve()
                self._approved = True
        return (piece,)

    def finish(self) -> Iterable[bytes | memoryview]:
        """Raise unless all of it is approved of."""
        if not self._approved:
            self._approve()
        return ()


def witness_of(checks: Sequence[BodyCheck], length: int | None) -> Witness:
    """Return what shows a body to the checks, and lets it end once all of them are content."""
    if len(checks) == 1:
        return Witness(checks[0].update, checks[0].verify, length)

    def see(piece: memoryview) -> None:
        for check in checks:
            check.update(piece)

    def approve() -> None:
        for check in checks:
            check.verify()

    return Witness(see, approve, length)


def follower_of(watch: UnsignedWatch, length: int | None) -> Witness:
    """Return what lets chunks without signatures go on as they are, followed to their exact end."""

    def approve() -> None:
        watch.finish()

    return Witness(watch.feed, approve, length)


class Decoded:
    """The data of chunks, without their framing."""

    __slots__ = ("_payload",)

    def __init__(self, payload: ChunkedPayload) -> None:
        self._payload = payload

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return what was verified so far."""
        # Some of it is held until more follows, and the piece does not live that long.
        return self._payload.feed(bytes(piece))

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return the end; raise Refused where the last chunk, or the trailer, is missing or wrong."""
        return self._payload.finish()[0]
