"""A request is like the one before in all that anything is found by, byte for byte."""

from __future__ import annotations

import pytest

from signproxy.server.s3.likeness import Like, Likeness
from signproxy.transfer.head import read_request_head

LINES = (
    "GET /data/wh/t1/a.parquet HTTP/1.1",
    "Host: lake",
    "Range: bytes=0-3",
    "User-Agent: sdk",
    "X-Amz-Date: 20270115T080000Z",
    "amz-sdk-invocation-id: one",
    "Authorization: AWS4-HMAC-SHA256 Credential=K, Signature=aa",
    "X-Amz-Content-Sha256: e3",
)
SENT = {"Range": 0, "User-Agent": 1}
SIGNED = (0, 1, 6)
"""Host, Range, and the payload; the date counts for itself."""


def bytes_of(lines: tuple[str, ...] = LINES) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def likeness(signed: tuple[int, ...] | None = SIGNED) -> Likeness:
    return Likeness(read_request_head(bytes_of()), SENT, signed)


def changed(at: int, line: str) -> bytes:
    return bytes_of((*LINES[:at], line, *LINES[at + 1 :]))


ITSELF: Like = ("a.parquet", {}, "aa", "20270115T080000Z", {})


@pytest.mark.parametrize(
    ("data", "like"),
    (
        (bytes_of(), ITSELF),
        (changed(0, "GET /data/wh/t1/b HTTP/1.1"), ("b", *ITSELF[1:])),
        (changed(0, "GET /data/wh/t1/ HTTP/1.1"), ("", *ITSELF[1:])),
        # Sent on, and signed by the caller; sent nowhere; the signature, and its date.
        (changed(2, "Range: bytes=5-"), ("a.parquet", {0: "Range: bytes=5-\r\n"}, *ITSELF[2:4], {1: "bytes=5-"})),
        (changed(5, "amz-sdk-invocation-id: two"), ITSELF),
        (changed(6, LINES[6][:-2] + "bb"), ("a.parquet", {}, "bb", *ITSELF[3:])),
        (changed(4, "X-Amz-Date: 20270115T080001Z"), ("a.parquet", {}, "aa", "20270115T080001Z", {})),
    ),
)
def test_what_may_be_another_one_is_read(data: bytes, like: Like) -> None:
    """The store would be asked for the object before, or what the caller signed would be verified for another value."""
    assert likeness().read(data) == like


@pytest.mark.parametrize("at", range(len(bytes_of())))
def test_a_byte_that_counts_is_missed_by_no_request(at: int) -> None:
    """What the ordinary way refuses, or serves as another caller's, would be served as this one's."""
    whole = bytes_of()
    assert likeness().read(whole[:at]) is None
    assert likeness().read(whole[:at] + whole[at + 1 :]) != ITSELF or whole[at : at + 1] in b"one"
    said = likeness().read(whole[:at] + b"\r" + whole[at + 1 :])
    # The name, the signature and its date are looked at whole by what reads this.
    assert said is None or (said[0], *said[2:4]) != (ITSELF[0], *ITSELF[2:4]) or whole[at : at + 1] == b"\r"


@pytest.mark.parametrize(
    "data",
    (
        bytes_of() + b"G",
        bytes_of() + bytes_of(),
        bytes_of((*LINES, "X-Amz-Meta-A: b")),
        bytes_of(LINES[:-1]),
        changed(0, "HEAD /data/wh/t1/a.parquet HTTP/1.1"),
        changed(0, "GET /data/wh/t2/a.parquet HTTP/1.1"),
        changed(0, "GET /data/wh/t1/a.parquet HTTP/1.0"),
        changed(0, "GET /data/wh/t1/a.parquet"),
        changed(0, f"GET /data/wh/t1/{'a' * 16_384} HTTP/1.1"),
        changed(1, "Host: other"),
        changed(2, "range: bytes=0-3"),
        changed(2, "Range:  bytes=0-3"),
        changed(2, "Range: bytes=0-3 "),
        changed(2, "Range: bytes=0-\x013"),
        changed(2, "Range: bytes=0-\xb23"),
        changed(2, "Range: a\nX-Amz-Copy-Source: b"),
        changed(2, "Range: a\r\nX-Amz-Copy-Source: b"),
        changed(6, LINES[6].replace("Credential=K", "Credential=L")),
    ),
)
def test_what_differs_elsewhere_is_left_to_the_ordinary_way(data: bytes) -> None:
    """What no reader of a whole head would read so is not to be judged by what was read before."""
    assert likeness().read(data) is None


def test_where_a_token_is_the_proof_a_date_is_text_as_any_other() -> None:
    """Nothing else would look at it, and the ordinary way refuses what is no text."""
    around = likeness(())
    assert around.read(changed(4, "X-Amz-Date: tomorrow")) == ITSELF
    assert around.read(changed(4, "X-Amz-Date: 20270115T080000Z\x7f")) is None
    assert around.read(changed(4, "X-Amz-Date: a\nb")) is None
    # The time would be read from another header.
    assert around.read(changed(4, "X-Amz-Date: ")) is None


def test_a_caller_without_a_signature_has_to_show_the_very_same() -> None:
    """Another token in the same place would be taken for this one."""
    bearer = likeness(None)
    assert bearer.read(bytes_of()) == ("a.parquet", {}, "", "", {})
    assert bearer.read(changed(6, LINES[6][:-2] + "bb")) is None
    assert bearer.read(changed(4, "X-Amz-Date: 20270115T080001Z")) is None


def test_a_head_that_was_read_is_known_again() -> None:
    """What was found of a connection's requests would be found anew for each of them."""
    assert likeness().has(read_request_head(bytes_of()))
    assert likeness().has(read_request_head(changed(2, "Range: bytes=5-")))
    assert not likeness().has(read_request_head(changed(3, "User-Agent: other")))
