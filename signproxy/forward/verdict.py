"""Read from the body of an answer whether the store did what its status says: an error may come after a 200.

S3 answers a copy, or the completion of a multipart upload, with 200 before it has done it, sends blanks while it works,
and writes an error document where it failed. A completed upload's document names an address of the object that the
client cannot reach, and is told its own instead.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable

from signproxy.s3.answers import escaped
from signproxy.s3.operation import Operation
from signproxy.s3.xml_document import PIECE, error_code, read_beginning, replaced, root_at

# A tuple: members are compared by identity there, while a set calls their hash, which is Python code.
SLOW = (Operation.COMPLETE_MULTIPART_UPLOAD, Operation.COPY_OBJECT, Operation.UPLOAD_PART_COPY)
"""Operations whose status comes before their result."""

COMPLETED = "completed"
UNKNOWN = "unknown"
"""Neither a result nor an error document."""

_READ = 4096
"""Bytes of the document that are looked at; an error's code stands in its first hundred."""
# The audit trail is not told just anything that a store says.
_LOCATION = "Location"
_NAME = re.compile(r"[A-Za-z]{1,64}")


class BodyVerdict:
    """Watches the body of an answer pass by."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, piece: memoryview) -> Iterable[memoryview]:
        """Let the next piece pass, and take note of it."""
        self.watch(piece)
        return (piece,)

    def finish(self) -> Iterable[memoryview]:
        """Let the end pass; nothing was withheld."""
        return ()

    def watch(self, piece: bytes | memoryview) -> None:
        """Take note of the next piece."""
        if len(self._kept) < _READ:
            # The blanks before the document may be many.
            kept = self._kept + piece
            self._kept = kept[root_at(kept) :][:_READ]

    def result(self) -> str:
        """Return `completed`, the code of the error document, or `unknown`."""
        root = read_beginning(self._kept)
        if not _NAME.fullmatch(root.name):
            return UNKNOWN
        if root.name != "Error":
            return COMPLETED
        return error_code(root) or "Error"


class Located:
    """Puts the client's address into the answer to a completed upload, and listens to the verdict.

    Its document is held until it has ended, or as much of it has come as is read: a key of a thousand bytes takes six
    thousand, escaped. What cannot be read goes on as it came: the object is there, whatever is told of it.
    """

    __slots__ = ("_held", "_location", "_verdict")

    def __init__(self, location: str, verdict: BodyVerdict) -> None:
        self._location = f"<{_LOCATION}>{escaped(location)}".encode()
        self._verdict = verdict
        self._held: bytes | None = b""
        """What came of the document so far; None once it has gone on."""

    def whole(self, document: bytes) -> Generator[None, None, bytes]:
        """Return a document that came whole; no more of it is read than in one go."""
        yield from ()
        return b"".join((*self.feed(memoryview(document)), *self.finish()))

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return what may go on of the next piece."""
        self._verdict.watch(piece)
        if self._held is None:
            return (piece,)
        held = self._held + piece
        at = root_at(held)
        self._held = held[at:]
        ready = (held[:at],) if at else ()
        if len(self._held) < PIECE:
            return ready
        return (*ready, *self.finish())

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return what was held."""
        if not self._held:
            return ()
        document, self._held = self._held, None
        found = [each for each in read_beginning(document).all(_LOCATION) if not each.is_short]
        return (replaced(document, [(each.start, each.end, self._location) for each in found]),)
