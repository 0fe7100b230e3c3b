"""Records of TLS are found wherever the network cuts them."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from signproxy.transfer.tls_channel import Records

LENGTHS = st.lists(st.integers(0, 40) | st.sampled_from((255, 256, 257, 16_640, 65_535)), max_size=12)


def record(length: int) -> bytes:
    """Return a record; its content looks like heads of others."""
    return (
        b"\x17\x03\x03" + length.to_bytes(2) + b"\x17\x03\x03\x00\x01"[: length % 5] + b"\x01" * (length - length % 5)
    )


@given(LENGTHS, st.integers(0, 1_004), st.integers(0))
def test_ends_are_found_however_the_bytes_are_cut(lengths: list[int], more: int, seed: int) -> None:
    """What is taken for an end and is none costs an exception; one that is missed holds an answer back."""
    whole = b"".join(map(record, lengths))
    expected, end = [], 0
    for length in lengths:
        end += 5 + length
        expected.append(end)
    # Somewhere within one more record.
    whole += record(1_000)[:more]
    records, found, at, cuts = Records(), list[int](), 0, Random(seed)
    while at < len(whole):
        # Often within a head, and seldom many times within the content of one record.
        size = cuts.choice((cuts.randint(1, 7), cuts.randint(1, len(whole) - at)))
        found += [at + each for each in records.ends(memoryview(whole[at : at + size]))]
        at += size
    assert found == expected


def test_a_piece_may_be_empty() -> None:
    """The end of a connection is one."""
    records = Records()
    assert records.ends(memoryview(b"")) == []
    assert records.ends(memoryview(record(3)[:4])) == []
    assert records.ends(memoryview(b"")) == []
    assert records.ends(memoryview(record(3)[4:] + record(0))) == [4, 9]
