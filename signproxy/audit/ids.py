"""Make event ids: 26 characters of Crockford's base 32 that sort by time and never repeat.

    0 1 2 3 4 5 6 7 8 9 | 10 ... 19 | 20 ... 25
    milliseconds        | random    | count within the millisecond
    48 bits             | 50 bits   | 30 bits

The random part is drawn once per process, and again after a fork: 50 bits keep apart whatever processes share a
millisecond. The count starts anew with each millisecond, so that an id, which travels in signed URIs, does not tell
how many requests other callers make.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from itertools import count
from time import time_ns

ID_LENGTH = 26

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_RANDOM_BITS = 50
_COUNT_BITS = 30
_MILLISECOND_NS = 1_000_000


_Moment = tuple[int, str, Iterator[int]]
"""The end of a millisecond, the beginning of its ids, and their count. Replaced as a whole, so that threads see it
whole."""


def new_event_id() -> str:
    """Return a new id. The clock may step back: ids then stay in the latest millisecond and go on counting."""
    source = _source
    now = time_ns()
    while True:
        end_ns, prefix, counter = source.moment
        if now >= end_ns:
            with source.lock:
                # Another thread may have begun a later millisecond meanwhile.
                if now >= source.moment[0]:
                    millisecond = now // _MILLISECOND_NS
                    # All but the last two digits change about once a second only.
                    if millisecond >> 10 != source.second:
                        source.turn(millisecond >> 10)
                    prefix = f"{source.high}{_PAIRS[millisecond & 1023]}{source.random}"
                    source.moment = ((millisecond + 1) * _MILLISECOND_NS, prefix, count())
                end_ns, prefix, counter = source.moment
        # `next` is atomic, so threads that share a moment still get different counts.
        number = next(counter)
        if number < 1024:
            return f"{prefix}0000{_PAIRS[number]}"
        if not number >> _COUNT_BITS:
            return f"{prefix}{_PAIRS[number >> 20]}{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"
        # Only a clock that stood back for days gets here: borrow the next millisecond.
        now = end_ns


def new_boot_id() -> str:
    """Return the id of a process's life; `seq` counts within it."""
    return new_event_id()


class _Source:
    """What the ids of this process are made of."""

    __slots__ = ("high", "lock", "moment", "random", "second")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Draw the random part anew: a forked child that kept its parent's would repeat the parent's ids."""
        self.lock = threading.Lock()
        self.second = -1
        self.high = ""
        self.random = _encode(secrets.randbits(_RANDOM_BITS), _RANDOM_BITS // 5)
        # Ended long ago: the first id begins one.
        self.moment: _Moment = (0, "", count())

    def turn(self, second: int) -> None:
        """Begin another 1,024 milliseconds."""
        self.second = second
        self.high = _encode(second, 8)


def _encode(number: int, characters: int) -> str:
    """Write an even number of base 32 digits."""
    return "".join(_PAIRS[number >> shift & 1023] for shift in range(5 * (characters - 2), -1, -10))


_source = _Source()
os.register_at_fork(after_in_child=_source.renew)
