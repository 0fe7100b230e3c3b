"""Framed bodies are taken apart as S3 does, nothing unverified reaches its end, and every change is refused."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.aws_chunked import ChunkedPayload, UnsignedWatch
from signproxy.s3.chunk_framing import MAX_LINE
from signproxy.s3.payload import PayloadMode
from signproxy.s3.verify import SeedSignature
from tests.s3.chunked_world import CRC32, SCOPE, crc_of, payload, seed, signed, unsigned

DATA = hashlib.shake_256(b"data").digest(66_560)
SIGNED, SIGNED_TRAILER = PayloadMode.SIGNED_CHUNKS, PayloadMode.SIGNED_CHUNKS_TRAILER
UNSIGNED = PayloadMode.UNSIGNED_TRAILER


_NEAR = 200
"""Bytes: a chunk's head, its signature and a trailer are shorter."""


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


def cut_at_frames(body: bytes, size: int) -> list[bytes]:
    """Cut what frames the chunks into pieces of a size; no cut in the midst of their data tells more than another."""
    pieces, start = [], 0
    for line_end in (*(found.start() for found in re.finditer(rb"\r\n", body)), len(body)):
        if line_end - start > 2 * _NEAR + size:
            pieces += cut(body[start : start + _NEAR], size)
            start += _NEAR
            pieces.append(body[start : line_end - _NEAR])
            start = line_end - _NEAR
        while start < line_end:
            pieces.append(body[start : start + size])
            start += size
    return pieces


def taken(
    body: bytes,
    mode: PayloadMode,
    length: int,
    trailer: str = "",
    *,
    step: int = 4096,
    by: SeedSignature | None = None,
) -> tuple[bytes, dict[str, str]]:
    """Return the data of a body and its trailers."""
    chunks = ChunkedPayload(payload(mode, length, trailer), by or seed())
    data = [bytes(each) for piece in cut_at_frames(body, step) for each in chunks.feed(piece)]
    left, trailers = chunks.finish()
    return b"".join([*data, *left]), trailers


def refusal(
    body: bytes, mode: PayloadMode, length: int, trailer: str = "", *, step: int = 4096
) -> tuple[Reason, bytes]:
    """Return why a body is refused, and what was released before that."""
    chunks = ChunkedPayload(payload(mode, length, trailer), seed())
    released = bytearray()

    def take() -> None:
        for piece in cut(body, step):
            released.extend(b"".join(bytes(each) for each in chunks.feed(piece)))
        released.extend(b"".join(bytes(each) for each in chunks.finish()[0]))

    with pytest.raises(Refused) as refused:
        take()
    return refused.value.reason, bytes(released)


def test_the_example_of_aws_is_verified() -> None:
    """A chain that differs from AWS' own in one byte refuses every upload of every SDK."""
    data = b"a" * 66_560
    body = (
        b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
        + data[:65_536]
        + b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
        + data[65_536:]
        + b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
    )
    assert taken(body, SIGNED, 66_560) == (data, {})


@pytest.mark.parametrize("step", (1, 2, 3, 5, 90, 4096, 1_000_000))
@pytest.mark.parametrize("sizes", ((66_560,), (65_536, 1024), (8192, 8192, 50_176), ()))
def test_every_mode_gives_its_data(step: int, sizes: tuple[int, ...]) -> None:
    """A body arrives in pieces that end anywhere: in a head, in a signature, between the two bytes of a line end."""
    data = DATA[: sum(sizes)]
    trailers = {CRC32: crc_of(data)}
    assert taken(signed(data, sizes), SIGNED, len(data), step=step) == (data, {})
    body = signed(data, sizes, trailers=trailers)
    assert taken(body, SIGNED_TRAILER, len(data), CRC32, step=step) == (data, trailers)
    body = unsigned(data, sizes, trailers=trailers)
    assert taken(body, UNSIGNED, len(data), CRC32, step=step) == (data, trailers)
    assert taken(unsigned(data, sizes), UNSIGNED, len(data), step=step) == (data, {})
    watch = UnsignedWatch(payload(UNSIGNED, len(data), CRC32), verifies=True)
    for piece in cut_at_frames(body, step):
        watch.feed(piece)
    assert watch.ended
    assert watch.finish() == trailers


def test_a_client_that_ends_the_trailer_twice_is_understood() -> None:
    """MinIO's SDKs write a line feed of their own before the line's end, and sign it only once."""
    data, trailers = DATA[:9000], {CRC32: crc_of(DATA[:9000])}
    body = signed(data, (9000,), trailers=trailers, line_feed="\n")
    assert taken(body, SIGNED_TRAILER, 9000, CRC32) == (data, trailers)
    body = unsigned(data, (9000,), trailers={CRC32: trailers[CRC32] + "\n"})
    assert taken(body, UNSIGNED, 9000, CRC32) == (data, trailers)


def test_trailer_names_are_read_in_any_case() -> None:
    """Header names have no case, and a trailer is a header that comes late."""
    data = DATA[:10]
    body = unsigned(data, (10,), trailers={"X-Amz-Checksum-CRC32": f" {crc_of(data)} "})
    assert taken(body, UNSIGNED, 10, CRC32) == (data, {CRC32: crc_of(data)})


def test_a_caller_without_a_signature_of_ours_sends_chunks_that_cannot_be_verified() -> None:
    """An SDK that carries a bearer token signs its chunks with a secret that means nothing; its form still counts."""
    data = DATA[:9000]
    body = signed(data, (9000,), trailers={CRC32: crc_of(data)}, secret="none")
    chunks = ChunkedPayload(payload(SIGNED_TRAILER, 9000, CRC32), None)
    released = chunks.feed(body)
    left, _ = chunks.finish()
    assert b"".join(bytes(each) for each in (*released, *left)) == data
    with pytest.raises(Refused):
        ChunkedPayload(payload(SIGNED_TRAILER, 9000, CRC32), None).feed(unsigned(data, (9000,)))


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 1_000_000), flip=st.integers(1, 255), trailer=st.booleans())
def test_no_changed_byte_of_a_signed_body_gets_through(at: int, flip: int, trailer: bool) -> None:
    """What was changed on its way must not become an object: the end is never released."""
    data = DATA[:17_000]
    trailers = {CRC32: crc_of(data)} if trailer else None
    body = bytearray(signed(data, (8192, 8808), trailers=trailers))
    body[at % len(body)] ^= flip
    mode, name = (SIGNED_TRAILER, CRC32) if trailer else (SIGNED, "")
    try:
        changed, _ = taken(bytes(body), mode, len(data), name)
    except Refused:
        return
    # Letters of a size and of a trailer's name have two cases.
    assert changed == data


@settings(max_examples=150, deadline=None)
@given(end=st.integers(0, 17_300), mode=st.sampled_from((SIGNED, SIGNED_TRAILER, UNSIGNED)))
def test_a_body_that_was_cut_off_never_reaches_its_end(end: int, mode: PayloadMode) -> None:
    """A store that counts what it was promised makes no object of a body that broke off."""
    data = DATA[:17_000]
    trailers = {CRC32: crc_of(data)}
    body = {
        SIGNED: signed(data, (8192, 8808)),
        SIGNED_TRAILER: signed(data, (8192, 8808), trailers=trailers),
        UNSIGNED: unsigned(data, (8192, 8808), trailers=trailers),
    }[mode]
    reason, released = refusal(body[: min(end, len(body) - 1)], mode, len(data), "" if mode is SIGNED else CRC32)
    assert reason is Reason.CHUNK_INCOMPLETE
    assert len(released) < len(data)
    assert data.startswith(released)


_BODY = signed(DATA[:17_000], (8192, 8808))
_TRAILED = signed(DATA[:17_000], (8192, 8808), trailers={CRC32: crc_of(DATA[:17_000])})
_PLAIN = unsigned(DATA[:17_000], (8192, 8808), trailers={CRC32: crc_of(DATA[:17_000])})


def _without_final(body: bytes) -> bytes:
    return body[: body.rindex(b"0;chunk")]


_REFUSED: tuple[tuple[str, bytes, PayloadMode, int, str, Reason], ...] = (
    ("empty", b"", SIGNED, 0, "", Reason.CHUNK_INCOMPLETE),
    ("no final chunk", _without_final(_BODY), SIGNED, 17_000, "", Reason.CHUNK_INCOMPLETE),
    ("no final line", _BODY[:-2], SIGNED, 17_000, "", Reason.CHUNK_INCOMPLETE),
    ("more announced", _BODY, SIGNED, 17_001, "", Reason.CHUNK_INCOMPLETE),
    ("less announced", _BODY, SIGNED, 16_999, "", Reason.CHUNK_INCOMPLETE),
    ("bytes after the end", _BODY + b"x", SIGNED, 17_000, "", Reason.CHUNK_MALFORMED),
    ("a second body", _BODY + _BODY, SIGNED, 17_000, "", Reason.CHUNK_MALFORMED),
    ("another key", signed(DATA[:9000], (9000,), secret="other"), SIGNED, 9000, "", Reason.CHUNK_SIGNATURE),
    ("unsigned chunks", _PLAIN, SIGNED_TRAILER, 17_000, CRC32, Reason.CHUNK_MALFORMED),
    ("signed chunks", _BODY, UNSIGNED, 17_000, "", Reason.CHUNK_MALFORMED),
    ("small chunks", signed(DATA[:300], (100, 100, 100)), SIGNED, 300, "", Reason.CHUNK_MALFORMED),
    ("a trailer without one", _TRAILED, SIGNED, 17_000, "", Reason.CHUNK_MALFORMED),
    ("no trailer", _BODY, SIGNED_TRAILER, 17_000, CRC32, Reason.CHUNK_INCOMPLETE),
    ("no unsigned trailer", unsigned(b"ab", (2,)), UNSIGNED, 2, CRC32, Reason.CHUNK_INCOMPLETE),
    ("trailer not announced", _PLAIN, UNSIGNED, 17_000, "", Reason.CHUNK_MALFORMED),
    ("another trailer", _PLAIN, UNSIGNED, 17_000, "x-amz-checksum-sha256", Reason.CHUNK_MALFORMED),
    (
        "trailer without its signature",
        signed(b"", ()).removesuffix(b"\r\n") + f"{CRC32}:{crc_of(b'')}\r\n\r\n".encode(),
        SIGNED_TRAILER, 0, CRC32, Reason.CHUNK_INCOMPLETE,
    ),
    (
        "trailer exchanged",
        _TRAILED.replace(crc_of(DATA[:17_000]).encode(), b"AAAAAA=="),
        SIGNED_TRAILER, 17_000, CRC32, Reason.CHUNK_SIGNATURE,
    ),
    (
        "wrong checksum, signed",
        signed(b"ab", (2,), trailers={CRC32: "AAAAAA=="}),
        SIGNED_TRAILER, 2, CRC32, Reason.CHECKSUM_MISMATCH,
    ),
    (
        "wrong checksum",
        unsigned(b"ab", (2,), trailers={CRC32: "AAAAAA=="}),
        UNSIGNED, 2, CRC32, Reason.CHECKSUM_MISMATCH,
    ),
    ("no size", b"\r\n\r\n", UNSIGNED, 0, "", Reason.CHUNK_MALFORMED),
    ("a sign", b"+2\r\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("a prefix", b"0x2\r\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("an underscore", b"0_2\r\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("white space", b" 2\r\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("an extension", b"2;a=b\r\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("a bare line feed", b"2\nab\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("a size that wraps", b"1" + b"0" * 16 + b"\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("a size beyond the rest", b"f" * 16 + b"\r\n", UNSIGNED, 2, "", Reason.CHUNK_INCOMPLETE),
    ("a longer chunk", b"2\r\nabc\r\n0\r\n\r\n", UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("an endless head", b"1" * (MAX_LINE + 2), UNSIGNED, 2, "", Reason.CHUNK_MALFORMED),
    ("an endless trailer", b"0\r\n" + b"a" * (MAX_LINE + 2), UNSIGNED, 0, "", Reason.CHUNK_MALFORMED),
    ("no colon", b"0\r\nx-amz\r\n\r\n", UNSIGNED, 0, "", Reason.CHUNK_MALFORMED),
    ("a control character", b"0\r\na:\x00\r\n\r\n", UNSIGNED, 0, "", Reason.CHUNK_MALFORMED),
    ("many trailers", b"0\r\n" + b"a:b\r\n" * 5 + b"\r\n", UNSIGNED, 0, "", Reason.CHUNK_MALFORMED),
    (
        "one trailer twice",
        b"0\r\n" + b"x-amz-checksum-crc32:AAAAAA==\r\n" * 2 + b"\r\n",
        UNSIGNED, 0, CRC32, Reason.CHUNK_MALFORMED,
    ),
    (
        "a signature of an unsigned trailer",
        b"0\r\nx-amz-trailer-signature:" + b"a" * 64 + b"\r\n\r\n",
        UNSIGNED, 0, "", Reason.CHUNK_MALFORMED,
    ),
)  # fmt: skip


@pytest.mark.parametrize("step", (1, 7, 100_000))
@pytest.mark.parametrize(
    ("body", "mode", "length", "trailer", "reason"), [row[1:] for row in _REFUSED], ids=[row[0] for row in _REFUSED]
)
def test_what_is_not_exactly_the_framing_is_refused(
    body: bytes, mode: PayloadMode, length: int, trailer: str, reason: Reason, step: int
) -> None:
    """What two readers take apart differently is one object for the one and another for the other."""
    found, released = refusal(body, mode, length, trailer, step=step)
    assert found is reason
    assert not length or len(released) < length


@pytest.mark.parametrize("place", ("first", "second", "final"))
def test_a_wrong_signature_is_found_before_its_chunk_is_released(place: str) -> None:
    """A chunk whose signature is looked at too late is at the store already."""
    number = ("first", "second", "final").index(place)
    parts = _BODY.split(b";chunk-signature=")
    parts[number + 1] = b"f" * 64 + parts[number + 1][64:]
    reason, released = refusal(b";chunk-signature=".join(parts), SIGNED, 17_000, step=1000)
    assert reason is Reason.CHUNK_SIGNATURE
    assert len(released) < (8192, 17_000, 17_000)[number]


def test_the_whole_of_a_chunk_is_never_kept() -> None:
    """A client that sends a gigabyte in one chunk would cost a gigabyte of memory."""
    chunks = ChunkedPayload(payload(SIGNED, 66_560), seed())
    fed = released = 0
    for piece in cut(signed(DATA, (66_560,)), 1000):
        fed += len(piece)
        released += sum(len(each) for each in chunks.feed(piece))
        # The piece that is held, and the framing.
        assert fed - released <= 1300


def test_chunks_of_a_byte_are_given_out_together() -> None:
    """Each piece of memory has a price of its own: a body in chunks of a byte would cost two hundred times its size."""
    chunks = ChunkedPayload(payload(UNSIGNED, 3000), None)
    released = chunks.feed(unsigned(DATA[:3000], (1,) * 3000))
    assert len(released) < 300
    left, _ = chunks.finish()
    assert b"".join(bytes(each) for each in (*released, *left)) == DATA[:3000]


def test_what_is_held_does_not_change_with_the_caller_s_buffer() -> None:
    """A reader that uses one buffer again and again would write the next piece over the one that is held."""
    body = bytearray(unsigned(b"abcdef", (6,)))
    chunks = ChunkedPayload(payload(UNSIGNED, 6), None)
    assert chunks.feed(body) == []
    body[:] = b"\0" * len(body)
    left, _ = chunks.finish()
    assert [bytes(each) for each in left] == [b"abcdef"]
    assert chunks.finish()[0] == []


def test_the_watch_follows_without_verifying_where_the_store_does() -> None:
    """A checksum that is computed twice costs twice; one that is not known here is the store's to look at."""
    wrong = unsigned(b"ab", (2,), trailers={CRC32: "AAAAAA=="})
    watch = UnsignedWatch(payload(UNSIGNED, 2, CRC32), verifies=False)
    watch.feed(wrong)
    assert watch.finish() == {CRC32: "AAAAAA=="}
    with pytest.raises(Refused) as refused:
        UnsignedWatch(payload(UNSIGNED, 2, CRC32), verifies=True).feed(wrong)
    assert refused.value.reason is Reason.CHECKSUM_MISMATCH
    foreign = "x-amz-checksum-xxhash64"
    watch = UnsignedWatch(payload(UNSIGNED, 2, foreign), verifies=True)
    watch.feed(unsigned(b"ab", (2,), trailers={foreign: "x"}))
    assert watch.finish() == {foreign: "x"}
    with pytest.raises(Refused) as refused:
        UnsignedWatch(payload(UNSIGNED, 2), verifies=False).finish()
    assert refused.value.reason is Reason.CHUNK_INCOMPLETE


@settings(deadline=None)
@given(
    st.lists(
        st.binary(max_size=6) | st.sampled_from((b"\r\n", b"0\r\n", b"1\r\nx\r\n", CRC32.encode(), b":")), max_size=20
    ),
    st.sampled_from((SIGNED, SIGNED_TRAILER, UNSIGNED)),
)
def test_whatever_is_sent_is_an_answer_and_no_error(pieces: list[bytes], mode: PayloadMode) -> None:
    """A body that breaks the reader would be a fault of the server, and tried again for minutes."""
    trailer = "" if mode is SIGNED else CRC32
    chunks, watch = ChunkedPayload(payload(mode, 3, trailer), seed()), UnsignedWatch(payload(mode, 3), verifies=True)
    for reader in (chunks, watch):
        with suppress(Refused):
            for piece in pieces:
                reader.feed(piece)
            reader.finish()


def test_no_signature_is_in_a_refusal() -> None:
    """The right signature in a message would sign the wrong chunk."""
    with pytest.raises(Refused) as refused:
        taken(signed(DATA[:9000], (9000,), secret="other"), SIGNED, 9000)
    assert SCOPE not in refused.value.detail
    assert refused.value.detail == "signature of a chunk"
