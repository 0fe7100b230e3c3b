"""A body ends where its framing says, however its bytes are cut on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.transfer.faults import BodyInvalid
from signproxy.transfer.faults import MessageFault as Fault
from signproxy.transfer.framing import CHUNK_LINE_LIMIT, Chunked, Sized, UntilClose


def _fed(framing: Chunked | Sized, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Return the body, and what is behind it."""
    body: list[bytes] = []
    for number, piece in enumerate(pieces):
        decoded, used = framing.decode(memoryview(piece))
        body.extend(bytes(part) for part in decoded)
        if framing.ended:
            return b"".join(body), b"".join((piece[used:], *pieces[number + 1 :]))
        assert used == len(piece)
    return b"".join(body), b""


FAULTS: tuple[tuple[str, bytes, Fault], ...] = (
    ("an extension", b"5;a=b\r\nabcde\r\n", Fault.CHUNK_EXTENSION),
    ("an empty extension", b"5;\r\nabcde\r\n", Fault.CHUNK_EXTENSION),
    ("a line feed in an extension", b"5;\nx\r\nabcde\r\n", Fault.LINE_ENDING),
    ("a line feed alone", b"5\nabcde\r\n", Fault.LINE_ENDING),
    ("a prefix", b"0x5\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("a sign", b"+5\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("negative", b"-5\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("a blank behind", b"5 \r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("a blank before", b" 5\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("an underscore, which Python reads", b"1_0\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("a carriage return", b"5\r\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("no size", b"\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("NUL", b"5\x00\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("beyond 64 bits", b"10000000000000005\r\nabcde\r\n", Fault.CHUNK_SIZE),
    ("a long line", b"0" * (CHUNK_LINE_LIMIT + 1) + b"\r\n\r\n", Fault.CHUNK_LINE_TOO_LONG),
    ("a line without end", b"0" * 500, Fault.CHUNK_LINE_TOO_LONG),
    ("a chunk that is longer", b"5\r\nabcdefg\r\n", Fault.CHUNK_END),
    ("a chunk without its end", b"5\r\nabcde0\r\n\r\n", Fault.CHUNK_END),
    ("a chunk that ends with a line feed", b"5\r\nabcde\n0\r\n\r\n", Fault.CHUNK_END),
    ("a trailer", b"0\r\nX: y\r\n\r\n", Fault.TRAILER),
    ("a length behind", b"0\r\nContent-Length: 5\r\n\r\n", Fault.TRAILER),
    ("an end with a line feed", b"0\r\n\n", Fault.TRAILER),
)


@pytest.mark.parametrize("step", (1, 2, 3, 1000))
@pytest.mark.parametrize(("data", "fault"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_chunks_in_any_other_form_are_refused(data: bytes, fault: Fault, step: int) -> None:
    """Where two hops find different ends of a body, what is between them is a request of the attacker's."""
    with pytest.raises(BodyInvalid) as raised:
        _fed(Chunked(), [data[at : at + step] for at in range(0, len(data), step)])
    assert raised.value.fault is fault


def test_the_line_of_a_chunk_has_a_limit() -> None:
    """At the limit it is read; one more is refused above."""
    line = b"0" * (CHUNK_LINE_LIMIT - 1) + b"3"
    assert _fed(Chunked(), [line + b"\r\nabc\r\n0\r\n\r\n"]) == (b"abc", b"")


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.binary(max_size=9), st.data())
def test_chunks_are_decoded_wherever_they_are_cut(chunks: list[bytes], behind: bytes, data: st.DataObject) -> None:
    """Packets are cut by networks, not by messages: what is found must not depend on it."""
    wire = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n" + behind
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    pieces = [wire[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    framing = Chunked()
    assert _fed(framing, pieces) == (b"".join(chunks), behind)
    assert framing.ended


@given(st.binary(max_size=60), st.data())
def test_whatever_comes_is_judged_alike_in_one_piece_and_byte_by_byte(junk: bytes, data: st.DataObject) -> None:
    """An attacker chooses the packets: a fault that only one cut shows is a fault that an attacker avoids."""
    wire = data.draw(st.sampled_from((b"", b"5\r\nabcde\r\n", b"0\r\n", b"3\r\nab"))) + junk
    outcomes: list[object] = []
    for pieces in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        try:
            outcomes.append(_fed(Chunked(), pieces))
        except BodyInvalid as invalid:
            outcomes.append(invalid.fault)
    assert outcomes[0] == outcomes[1]


@given(st.binary(max_size=300), st.binary(max_size=9), st.integers(1, 50))
def test_a_sized_body_ends_with_its_last_byte(body: bytes, behind: bytes, step: int) -> None:
    """The byte behind it is the next message's first."""
    wire = body + behind
    framing = Sized(len(body))
    if not body:
        assert framing.ended
        return
    assert _fed(framing, [wire[at : at + step] for at in range(0, len(wire), step)]) == (body, behind)
    assert framing.left == 0


def test_without_framing_everything_is_body() -> None:
    """Only the end of the connection ends it."""
    framing = UntilClose()
    assert framing.decode(memoryview(b"abc")) == ([memoryview(b"abc")], 3)
    assert framing.left is Chunked().left is None
    assert not framing.ended
