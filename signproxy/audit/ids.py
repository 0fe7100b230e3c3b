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
from typing import NamedTuple

ID_LENGTH = 26

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_RANDOM_BITS = 50
_COUNT_BITS = 30
_MILLISECOND_NS = 1_000_000


class _Moment(NamedTuple):
    """One millisecond, and what has been counted in it. Replaced as a whole, so that threads see it whole."""

    end_ns: int
    prefix: str
    counter: Iterator[int]


def new_event_id() -> str:
    """Return a new id. The clock may step back: ids then stay in the latest millisecond and go on counting."""
    end_ns, prefix, counter = _source.moment
    now = time_ns()
    if now >= end_ns:
        _, prefix, counter = _source.advance(now)
    # `next` is atomic, so threads that share a moment still get different counts.
    number = next(counter)
    if number < 1024:
        return f"{prefix}0000{_PAIRS[number]}"
    if number >> _COUNT_BITS:
        # Only a clock that stood back for days gets here: borrow the next millisecond.
        _source.advance(end_ns)
        return new_event_id()
    return f"{prefix}{_PAIRS[number >> 20]}{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"


def new_boot_id() -> str:
    """Return the id of a process's life; `seq` counts within it."""
    return new_event_id()


class _Source:
    """The ids of this process."""

    __slots__ = ("_high", "_lock", "_random", "_second", "moment")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Draw the random part anew: a forked child that kept its parent's would repeat the parent's ids."""
        self._lock = threading.Lock()
        self._second = -1
        self._high = ""
        self._random = _encode(secrets.randbits(_RANDOM_BITS), _RANDOM_BITS // 5)
        self.moment = self._moment_of(time_ns())

    def advance(self, now_ns: int) -> _Moment:
        """Begin a later millisecond, unless another thread already did."""
        with self._lock:
            if now_ns >= self.moment.end_ns:
                self.moment = self._moment_of(now_ns)
            return self.moment

    def _moment_of(self, now_ns: int) -> _Moment:
        millisecond = now_ns // _MILLISECOND_NS
        # All but the last two digits change about once a second only.
        if millisecond >> 10 != self._second:
            self._second = millisecond >> 10
            self._high = _encode(self._second, 8)
        prefix = f"{self._high}{_PAIRS[millisecond & 1023]}{self._random}"
        return _Moment((millisecond + 1) * _MILLISECOND_NS, prefix, count())


def _encode(number: int, characters: int) -> str:
    """Write an even number of base 32 digits."""
    return "".join(_PAIRS[number >> shift & 1023] for shift in range(5 * (characters - 2), -1, -10))


_source = _Source()
os.register_at_fork(after_in_child=_source.renew)
