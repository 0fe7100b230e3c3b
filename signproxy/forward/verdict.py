"""Read from the body of an answer whether the store did what its status says: an error may come after a 200.

S3 answers a copy, or the completion of a multipart upload, with 200 before it has done it, sends blanks while it works,
and writes an error document where it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from signproxy.s3.operation import Operation
from signproxy.s3.xml_document import error_code, read_beginning, root_at

# A tuple: members are compared by identity there, while a set calls their hash, which is Python code.
SLOW = (Operation.COMPLETE_MULTIPART_UPLOAD, Operation.COPY_OBJECT, Operation.UPLOAD_PART_COPY)
"""Operations whose status comes before their result."""

COMPLETED = "completed"
UNKNOWN = "unknown"
"""Neither a result nor an error document."""

_READ = 4096
"""Bytes of the document that are looked at; an error's code stands in its first hundred."""
# The audit trail is not told just anything that a store says.
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
