"""Compute the checksums that S3 knows, piece by piece.

The two that Python's library lacks are cyclic codes. A table with a step for each byte would take minutes for a
gigabyte, so a piece is taken as one polynomial, whose beginning is folded onto its rest until little is left for the
table: ten times as fast.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from binascii import crc32
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

_FOLDED_FROM = 2048
"""Bytes; shorter pieces go through the table."""
_SEARCHED = 8192
"""Powers that are looked at for one that is written with few terms."""

Data = bytes | bytearray | memoryview


class Checksum(Protocol):
    """A checksum over what was fed so far."""

    def update(self, data: Data) -> None:
        """Take the next piece."""

    def base64(self) -> str:
        """Return the checksum as S3 writes it."""


def is_known(algorithm: str) -> bool:
    """Whether the checksum can be computed here."""
    return algorithm in _MAKERS


def checksum(algorithm: str) -> Checksum:
    """Return a new checksum by S3's name of it, in lower case; raise KeyError for one that is not known."""
    return _MAKERS[algorithm]()


class _Hash:
    """A checksum of the library's."""

    __slots__ = ("_hash",)

    def __init__(self, name: str) -> None:
        self._hash = hashlib.new(name, usedforsecurity=False)

    def update(self, data: Data) -> None:
        self._hash.update(data)

    def base64(self) -> str:
        return b64encode(self._hash.digest()).decode()


class _Crc32:
    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Data) -> None:
        self._value = crc32(data, self._value)

    def base64(self) -> str:
        return b64encode(self._value.to_bytes(4, "big")).decode()


class _Cyclic:
    """A reflected cyclic code that begins with ones and is inverted at the end."""

    __slots__ = ("_code", "_value")

    def __init__(self, width: int, polynomial: int) -> None:
        self._code = _code(width, polynomial)
        self._value = self._code.ones

    def update(self, data: Data) -> None:
        self._value = self._code.advance(self._value, data)

    def base64(self) -> str:
        value = self._value ^ self._code.ones
        return b64encode(value.to_bytes(self._code.width // 8, "big")).decode()


class _Code:
    """What all checksums of one polynomial share.

    A piece is read as a number whose bit i is the coefficient of y^i. The register after n bits is that number,
    combined with the register before, times y^-n modulo the polynomial.
    """

    __slots__ = ("_power", "_table", "_terms", "ones", "width")

    def __init__(self, width: int, polynomial: int) -> None:
        self.width = width
        self.ones = (1 << width) - 1
        self._table = [_shifted(byte, polynomial, 8) for byte in range(256)]
        self._power, self._terms = _sparse_power(polynomial)

    def advance(self, register: int, data: Data) -> int:
        """Return the register after a piece."""
        if len(data) >= _FOLDED_FROM:
            folded = int.from_bytes(data, "little") ^ register
            data = self._fold(folded, 8 * len(data))
            register = 0
        table = self._table
        for byte in data:
            register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
        return register

    def _fold(self, number: int, bits: int) -> bytes:
        """Return fewer bytes that lead to the same register: y^-k times the first k bits joins the others.

        Squaring a sum of powers doubles each exponent, so one sparse y^-k gives sparse ones for k's doublings.
        """
        scale = 1
        while 2 * scale * (self._power + self.width) * 2 <= bits:
            scale *= 2
        while scale:
            k = self._power * scale
            while bits >= k + scale * self.width + k:
                first = number & ((1 << k) - 1)
                number >>= k
                for term in self._terms:
                    number ^= first << (term * scale)
                bits -= k
            scale //= 2
        return number.to_bytes(bits // 8, "little")


def _shifted(register: int, polynomial: int, bits: int) -> int:
    for _ in range(bits):
        register = (register >> 1) ^ (polynomial if register & 1 else 0)
    return register


def _sparse_power(polynomial: int) -> tuple[int, tuple[int, ...]]:
    """Return the whole number of bytes k, in bits, whose y^-k has the fewest terms, and their exponents."""
    best, register, power = polynomial, 1, 0
    for k in range(8, _SEARCHED, 8):
        register = _shifted(register, polynomial, 8)
        # A short power would be folded many times.
        if k >= _SEARCHED // 8 and register.bit_count() < best.bit_count():
            best, power = register, k
    return power, tuple(exponent for exponent in range(best.bit_length()) if best >> exponent & 1)


_code = lru_cache(maxsize=4)(_Code)


_MAKERS: dict[str, Callable[[], Checksum]] = {
    "crc32": _Crc32,
    "crc32c": lambda: _Cyclic(32, 0x82F63B78),
    "crc64nvme": lambda: _Cyclic(64, 0x9A6C9329AC4BC9B5),
    "md5": lambda: _Hash("md5"),
    "sha1": lambda: _Hash("sha1"),
    "sha256": lambda: _Hash("sha256"),
    "sha512": lambda: _Hash("sha512"),
}
