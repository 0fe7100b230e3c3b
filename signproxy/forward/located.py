"""Tell the client its own address of an object that it completed: the store's is one that it cannot reach.

A store that still works keeps the client waiting with blanks, before the document or behind its first line: they go on
at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from signproxy.forward.verdict import BodyVerdict
from signproxy.s3.answers import escaped
from signproxy.s3.xml_document import PIECE, read_beginning, replaced, root_at

_LOCATION = "Location"


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
