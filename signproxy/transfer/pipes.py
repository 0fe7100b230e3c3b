"""Lend the pipes through which the kernel moves bodies from socket to socket."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import NamedTuple

SIZE = 1024 * 1024
"""The most that a user without privileges may have, and in no more than 64 pipes:
https://man7.org/linux/man-pages/man7/pipe.7.html . Beyond that the kernel grants smaller ones."""

LEAST = 64 * 1024
"""Smaller ones cost more calls than reading and writing."""

KEPT = 16
OPEN = 256
"""Each stream takes four descriptors for as long as it lasts; beyond, bodies move through memory."""


class Pipe(NamedTuple):
    """An empty pipe that never blocks."""

    source: int
    sink: int
    size: int


class Pipes:
    """The pipes of a process. What is given back empty is lent again."""

    __slots__ = ("_idle", "_make", "open")

    def __init__(self, make: Callable[[], Pipe | None]) -> None:
        self.open = 0
        self._idle: list[Pipe] = []
        self._make = make

    def borrow(self) -> Pipe | None:
        """Return a pipe, or None where none is to be had."""
        if self._idle:
            return self._idle.pop()
        if self.open >= OPEN:
            return None
        pipe = self._make()
        if pipe is not None:
            self.open += 1
        return pipe

    def give_back(self, pipe: Pipe, left_in: int) -> None:
        """Take back a pipe: one that still holds something of a body must never carry another."""
        if left_in or len(self._idle) >= KEPT:
            self._close(pipe)
        else:
            self._idle.append(pipe)

    def close(self) -> None:
        """Close what is not lent."""
        while self._idle:
            self._close(self._idle.pop())

    def _close(self, pipe: Pipe) -> None:
        self.open -= 1
        os.close(pipe.source)
        os.close(pipe.sink)


def make_pipe() -> Pipe | None:
    """Return a new pipe, or None if there is none, or none of use, to be had."""
    try:
        source, sink = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        # Not granted to a user with many of them; what is granted instead is seen below.
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, SIZE)
    size = fcntl.fcntl(sink, fcntl.F_GETPIPE_SZ)
    if size < LEAST:
        os.close(source)
        os.close(sink)
        return None
    return Pipe(source, sink, size)


shared = Pipes(make_pipe)
"""The pipes of this process."""
