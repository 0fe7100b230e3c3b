"""Make the ids of the generated month: events' sort by time as the server's own do; all follow from the seed."""

from __future__ import annotations

from random import Random

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_MASK = (1 << 64) - 1
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number: multiplying by it gives each number below 2^64 another one, and no two the same."""


def drawn(*parts: object) -> Random:
    """Return a source of numbers that follow from these parts alone; nothing that is drawn is a secret."""
    return Random("/".join(map(str, parts)))  # noqa: S311 - see the docstring


class EventIds:
    """Ids of one instance: ten characters of time, ten of the instance, six that count."""

    def __init__(self, random: Random) -> None:
        self._own = _digits(random.getrandbits(50), 10)
        self._count = random.getrandbits(10)
        self._second = -1
        self._high = ""

    def at(self, moment: float) -> str:
        """Return a new id of an event at this Unix time."""
        millisecond = int(moment * 1000)
        if millisecond >> 10 != self._second:
            self._second = millisecond >> 10
            self._high = _digits(self._second, 8)
        self._count += 1
        number = self._count
        return (
            f"{self._high}{_PAIRS[millisecond & 1023]}{self._own}"
            f"{_PAIRS[number >> 20 & 1023]}{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"
        )


class RequestIds:
    """The store's own ids of requests; no two of all instances are the same."""

    def __init__(self, instance: int, random: Random) -> None:
        self._next = (instance << 48) + random.getrandbits(47)

    def new(self) -> str:
        """Return a new one, as S3 writes it."""
        self._next += 1
        return f"{self._next * _SPREAD & _MASK:016X}"


def _digits(number: int, characters: int) -> str:
    return "".join(_PAIRS[number >> shift & 1023] for shift in range(5 * (characters - 2), -1, -10))
