"""Checksums are S3's, for any length and however a body is cut into pieces."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64decode, b64encode
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from signproxy.s3.checksums import checksum, is_known

# The check values of the catalogue of CRC algorithms, and what `openssl dgst` says, for these nine digits.
_NINE = {
    "crc32": "cbf43926",
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}
_POLYNOMIALS = {"crc32c": (32, 0x82F63B78), "crc64nvme": (64, 0x9A6C9329AC4BC9B5)}


def of(algorithm: str, *pieces: bytes) -> str:
    computed = checksum(algorithm)
    for piece in pieces:
        computed.update(piece)
    return computed.base64()


def bit_by_bit(algorithm: str, data: bytes) -> str:
    """Return a cyclic code as its definition has it, a bit at a time."""
    width, polynomial = _POLYNOMIALS[algorithm]
    register = (1 << width) - 1
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (polynomial if register & 1 else 0)
    return b64encode((register ^ ((1 << width) - 1)).to_bytes(width // 8, "big")).decode()


@pytest.mark.parametrize(("algorithm", "expected"), _NINE.items())
def test_the_published_value_is_computed(algorithm: str, expected: str) -> None:
    """A checksum that no other implementation computes refuses every upload."""
    assert b64decode(of(algorithm, b"123456789")).hex() == expected


@pytest.mark.parametrize("algorithm", ("crc32", *_POLYNOMIALS, "md5", "sha1", "sha256", "sha512"))
def test_an_empty_body_has_a_checksum(algorithm: str) -> None:
    """Clients send the checksum of an empty object too."""
    expected = {"crc32": "AAAAAA==", "crc32c": "AAAAAA==", "crc64nvme": "AAAAAAAAAAA="}.get(algorithm)
    assert of(algorithm) == (expected or b64encode(hashlib.new(algorithm).digest()).decode())


@pytest.mark.parametrize("algorithm", _POLYNOMIALS)
@settings(max_examples=60, deadline=None)
@given(seed=st.binary(min_size=1, max_size=64), length=st.integers(0, 20_000))
@example(seed=b"\0", length=2047)
@example(seed=b"\0", length=2048)
@example(seed=b"\xff", length=2049)
def test_folding_gives_what_the_definition_gives(algorithm: str, seed: bytes, length: int) -> None:
    """A fold that is wrong for one length in a thousand refuses one upload in a thousand."""
    data = (seed * (length // len(seed) + 1))[:length]
    assert of(algorithm, data) == bit_by_bit(algorithm, data)


@pytest.mark.parametrize("algorithm", ("crc32", *_POLYNOMIALS, "sha256"))
@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 300_000), max_size=5))
def test_pieces_add_up(algorithm: str, cuts: list[int]) -> None:
    """A body arrives in pieces of any size."""
    data = hashlib.shake_256(b"body").digest(300_000)
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    whole = of(algorithm, data)
    assert of(algorithm, *pieces) == whole
    assert of(algorithm, *(bytes(bytearray(piece)) for piece in pieces)) == whole
    computed = checksum(algorithm)
    for piece in pieces:
        computed.update(memoryview(piece))
    assert computed.base64() == whole


def test_the_library_s_own_code_is_used_where_it_has_one() -> None:
    """The code that most clients send must not be the slow one."""
    assert of("crc32", b"abc") == b64encode(zlib.crc32(b"abc").to_bytes(4, "big")).decode()


def test_what_is_not_known_is_said_so() -> None:
    """A checksum that cannot be verified must not pass for one that was."""
    assert not any(is_known(name) for name in ("xxhash64", "crc-32", "", "CRC32"))
    assert all(is_known(name) for name in ("crc32", "crc32c", "crc64nvme", "md5", "sha1", "sha256", "sha512"))
    with pytest.raises(KeyError):
        checksum("xxhash64")
