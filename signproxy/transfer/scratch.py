"""Hold the memory that all connections of an event loop read into: each hands on what it got before the next reads."""

from __future__ import annotations

import threading

PIECE = 128 * 1024
"""Read at a time. More makes large bodies no quicker, and is kept by each connection whose receiver stalls."""

SEALED = 256 * 1024
"""The same of what is encrypted. It costs more to hand on, so that small pieces cost more."""

_RECORD = 16 * 1024
"""The most that one record of TLS holds; the beginning of one may have been received before."""


class Scratch(threading.local):
    """The memory of one thread, and so of one event loop."""

    def __init__(self) -> None:
        self.plain = memoryview(bytearray(PIECE))


class SealedScratch(threading.local):
    """The same for what is encrypted, and for what comes out of it."""

    def __init__(self) -> None:
        self.sealed = memoryview(bytearray(SEALED))
        self.opened = memoryview(bytearray(SEALED + _RECORD))
