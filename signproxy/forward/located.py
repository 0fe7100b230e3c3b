"""Tell the client its own address of an object that it completed: the store's is one that it cannot reach.

A store that still works keeps the client waiting with blanks, before the document or behind its first line: they go on
at once.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable

from signproxy.forward.verdict import BodyVerdict
from signproxy.s3.answers import escaped

_MOST = 16 * 1024
"""Bytes of a document that are held; a key of a thousand bytes takes six thousand, escaped."""
_BEFORE = re.compile(rb"(?:\s++|<\?xml[^<>]*+\?>)*+")
_LOCATION = re.compile(rb"(<Location>)[^<]*+(</Location>)")


class Located:
    """Puts the client's address into the answer to a completed upload, and listens to the verdict."""

    __slots__ = ("_held", "_location", "_verdict")

    def __init__(self, location: str, verdict: BodyVerdict) -> None:
        self._location = escaped(location).encode()
        self._verdict = verdict
        self._held: bytes | None = b""
        """What came of the document so far; None once it has gone on."""

    def whole(self, document: bytes) -> Generator[None, None, bytes]:
        """Return a document that came whole; it is looked at in one go."""
        yield from ()
        return b"".join((*self.feed(memoryview(document)), *self.finish()))

    def feed(self, piece: memoryview) -> Iterable[bytes | memoryview]:
        """Return what may go on of the next piece."""
        self._verdict.watch(piece)
        if self._held is None:
            return (piece,)
        held = self._held + piece
        before = _BEFORE.match(held)
        at = before.end() if before is not None else 0
        self._held = held[at:]
        ready = (held[:at],) if at else ()
        if _LOCATION.search(self._held) is None and len(self._held) < _MOST:
            return ready
        return (*ready, *self.finish())

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return what was held."""
        if not self._held:
            return ()
        document, self._held = self._held, None
        return (_LOCATION.sub(lambda found: found[1] + self._location + found[2], document, count=1),)
