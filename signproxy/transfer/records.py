"""Find where the records of TLS end, so that each is given to OpenSSL whole.

OpenSSL finds the end of a record by itself, and raises an exception each time that there is less: that costs as much as
a quarter of a record. What it is given at a time is kept in memory of its own, which is quick as long as it is small.
"""

from __future__ import annotations

_HEAD = 5
"""Bytes of a record's head: kind, version, and its length in the last two (RFC 8446, section 5.1)."""


class Records:
    """Follows one direction of a connection from its first byte, cut as the network cuts it."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a head of which the rest is still to come."""
        self._left = 0
        """Bytes that are missing of the record that has begun."""

    def ends(self, piece: memoryview) -> list[int]:
        """Return the places in what comes next at which a record is complete."""
        size, end, head = len(piece), self._left, self._head
        if head:
            missing = _HEAD - len(head)
            head += bytes(piece[:missing])
            if len(head) < _HEAD:
                self._head = head
                return []
            self._head = b""
            end = missing + (head[3] << 8 | head[4])
        found = []
        while end <= size:
            if end:
                found.append(end)
            if size - end < _HEAD:
                self._head, self._left = bytes(piece[end:]), 0
                return found
            end += _HEAD + (piece[end + 3] << 8 | piece[end + 4])
        self._left = end - size
        return found
