"""Whatever is taken from, added to or changed in the trail is found, and told in exact words."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from signproxy.audit import unpack
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.audit.segment import SegmentStart, line_of
from signproxy.audit.trailer import TAIL, read_trailer
from signproxy.audit.unpack import MAX_CUT, MAX_LINE, MAX_RAW, MIN_LINE, TornError, lines_of
from signproxy.audit.verify import TrailFault, Weight, check_segment
from signproxy.config.settings import AuditSettings
from tests.audit.events import encoded
from tests.audit.segment_rig import Life, faults, findings, rewritten

NAMED = "has a name that says something else than its first line"

Change = Callable[[list[Path]], object]


def three(directory: Path) -> tuple[Life, list[Path]]:
    """Return the three segments of one life: 3, 3 and 4 events."""
    life = Life(directory)
    paths = [life.rotate(3), life.rotate(3)]
    life.write(4)
    life.sink.close()
    return life, [*paths, life.sealed[-1]]


def drop(at: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [line for index, line in enumerate(lines) if index != at]


def exchanged_for_a_pipe(paths: list[Path]) -> None:
    paths[1].unlink()
    os.mkfifo(paths[1])


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "told"),
    (
        (lambda paths: paths[0].unlink(), {"segment 1 of BOOT, with events 1 to 3, is missing"}),
        (lambda paths: paths[1].unlink(), {"segment 2 of BOOT, with events 4 to 6, is missing"}),
        (
            lambda paths: [paths[0].unlink(), paths[1].unlink()],
            {"segment 1 to 2 of BOOT, with events 1 to 6, is missing"},
        ),
        (
            lambda paths: paths[2].unlink(),
            {"FILE1 is the last that is there of a life that did not end in order: sealed by rotation"},
        ),
        (
            lambda paths: rewritten(paths[1], drop(2)),
            {
                "FILE1 lacks events: 5",
                "FILE1 does not hold as many events as its last line says: 2 events, and 3 are said",
                "FILE1 was altered after it was sealed: its digest is another one",
            },
        ),
        (
            lambda paths: rewritten(paths[1], lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
            {
                "FILE1 lacks events: 5",
                "FILE1 holds events out of order, or twice: event 5 behind 6",
                "FILE1 was altered after it was sealed: its digest is another one",
            },
        ),
        (
            lambda paths: rewritten(paths[1], lambda lines: [line.replace(b"alice", b"mally") for line in lines]),
            {"FILE1 was altered after it was sealed: its digest is another one"},
        ),
        (
            lambda paths: rewritten(paths[1], lambda lines: [*lines[:2], b"no event\n", *lines[2:]]),
            {
                "FILE1 holds a line that is no event of this schema: line 3",
                "FILE1 was altered after it was sealed: its digest is another one",
            },
        ),
        (
            lambda paths: rewritten(paths[1], lambda lines: [*lines[:-1], b"\n", lines[-1]]),
            {
                "FILE1 holds a line that is no event of this schema: line 5",
                "FILE1 was altered after it was sealed: its digest is another one",
            },
        ),
        (
            lambda paths: paths[1].write_bytes(paths[1].read_bytes()[:-5]),
            {
                "FILE1 ends in the midst of a line or of packed data: packed data",
            },
        ),
        (
            lambda paths: paths[1].write_bytes(b""),
            {
                "FILE1 does not begin with the first line of a segment: it is empty",
                "segment 2 of BOOT, with events 4 to 6, is missing",
            },
        ),
        (
            lambda paths: paths[0].replace(paths[1]),
            {
                f"FILE1 {NAMED}: instance 'pod-0', life 'BOOT', first event 1",
                "segment 2 of BOOT, with events 4 to 6, is missing",
            },
        ),
        (
            lambda paths: (paths[1].parent / paths[1].name.replace("pod-0", "pod-1")).write_bytes(
                paths[1].read_bytes()
            ),
            {
                f"FILE1X {NAMED}: instance 'pod-0', life 'BOOT', first event 4",
                "FILE1X is there twice: segment 2 of BOOT",
            },
        ),
        (
            exchanged_for_a_pipe,
            {
                "FILE1 cannot be read: no regular file",
                "FILE1 does not begin with the first line of a segment: it is empty",
                "segment 2 of BOOT, with events 4 to 6, is missing",
            },
        ),
    ),
)
def test_a_change_is_told_exactly(tmp_path: Path, change: Change, told: set[str]) -> None:
    """Who changed the trail would be safe, or an auditor would have to find out alone what is missing."""
    life, paths = three(tmp_path)
    assert findings(tmp_path) == []
    change(paths)
    wanted = {
        text.replace("FILE1X", paths[1].name.replace("pod-0", "pod-1"))
        .replace("FILE1", paths[1].name)
        .replace("BOOT", life.boot_id)
        for text in told
    }
    assert {finding.text for finding in findings(tmp_path)} == wanted


def test_every_byte_of_a_sealed_segment_counts(tmp_path: Path) -> None:
    """A change somewhere in the packed data would go unnoticed."""
    _, paths = three(tmp_path)
    middle = paths[1]
    whole = middle.read_bytes()
    for at in range(len(whole)):
        flip(middle, at)
        found = [finding for finding in findings(tmp_path) if finding.fault.weight is Weight.FAULT]
        # In the last line, the bytes of gzip's own head that say nothing of the content may be anything.
        assert found or at >= len(whole) - read_trailer_size(whole)
        middle.write_bytes(whole)


def read_trailer_size(whole: bytes) -> int:
    trailer = read_trailer(whole[-TAIL:])
    assert trailer is not None
    return trailer.size


def test_a_segment_that_was_made_anew_breaks_the_chain(tmp_path: Path) -> None:
    """Who can write a segment can write a digest too; the next segment says what it was."""
    life, paths = three(tmp_path)
    other = Life(tmp_path / "other")
    other.boot_id = life.boot_id
    other.skip(3)
    other.sink._boot_id, other.sink._number = life.boot_id, 1
    trailer = read_trailer(paths[0].read_bytes()[-TAIL:])
    assert trailer is not None
    other.sink._previous = trailer.end.sha256
    forged = other.rotate(3)
    assert forged.name == paths[1].name
    forged.replace(paths[1])
    (finding,) = findings(tmp_path)
    assert finding.text == f"{paths[2].name} does not follow on the segment before it: the one before it was exchanged"


def test_events_that_were_dropped_are_told_wherever_they_are(tmp_path: Path) -> None:
    """With `on_error: allow` requests are served without proof: the trail has to say how many, and where."""
    life = Life(tmp_path)
    life.write(2)
    life.skip(1)
    life.rotate(2)
    life.skip(2)
    life.write(1)
    life.sink.close()
    assert {finding.text for finding in findings(tmp_path)} == {
        f"{life.sealed[0].name} lacks events: 3",
        f"{life.sealed[1].name} lacks events: between it and the one before: 6 to 7",
    }


def test_what_was_taken_away_before_is_no_fault_where_that_is_said(tmp_path: Path) -> None:
    """A spool whose segments are shipped would be broken for ever; a hole in its midst is one all the same."""
    life, paths = three(tmp_path)
    paths[0].unlink()
    (finding,) = findings(tmp_path, partial=True)
    assert finding.fault.weight is Weight.NOTE
    assert finding.text == (
        f"segment 1 of {life.boot_id}, with events 1 to 3, is not here, as what came before the oldest that is"
    )
    again, others = three(tmp_path / "second")
    others[1].unlink()
    (finding,) = findings(tmp_path / "second", partial=True)
    assert finding.text == f"segment 2 of {again.boot_id}, with events 4 to 6, is missing"


def test_several_lives_are_told_apart(tmp_path: Path) -> None:
    """Workers of one pod, and restarts, share a directory."""
    for _ in range(3):
        three(tmp_path)
    assert findings(tmp_path) == []


def test_an_open_segment_is_no_fault(tmp_path: Path) -> None:
    """The trail of a server that runs could never be verified."""
    life = Life(tmp_path)
    life.rotate()
    life.write(1)
    assert {finding.fault.weight for finding in findings(tmp_path)} == {Weight.NOTE}
    life.sink.close()
    assert faults(tmp_path) == set()


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", (1, 255 * 1024, 256 * 1024 - 1, 256 * 1024, MAX_LINE - 1, MAX_LINE))
def test_lines_of_any_length_are_read_whole(tmp_path: Path, size: int) -> None:
    """What fills a piece exactly would be lost between two of them."""
    path = tmp_path / "segment"
    line = b"x" * size + b"\n"
    path.write_bytes(gzip.compress(line) + gzip.compress(line * 2))
    assert list(lines_of(path)) == [line] * 3


def test_a_bomb_ends_the_reading(tmp_path: Path) -> None:
    """Who can put a file there would end the process that verifies it, by its memory."""
    path = tmp_path / "segment"
    path.write_bytes(gzip.compress(b"x" * 50_000_000))
    with pytest.raises(TornError, match="a line of more than"):
        list(lines_of(path))


@pytest.mark.parametrize("behind", (b"", b"\n"))
def test_a_line_that_is_too_long_is_none_wherever_it_ends(tmp_path: Path, behind: bytes) -> None:
    """Where the pieces happen to end would say how long a line may be."""
    path = tmp_path / "segment"
    path.write_bytes(gzip.compress(b"x\n" + b"x" * (MAX_LINE + 1) + behind))
    lines = lines_of(path)
    assert next(lines) == b"x\n"
    with pytest.raises(TornError, match="a line of more than 1048576 bytes"):
        next(lines)


def _seconds(monkeypatch: pytest.MonkeyPatch, size: int) -> float:
    """Return what lines of this size cost, of 2 MiB that come in the shortest pieces."""
    piece = b"x" * MIN_LINE
    line = [*[piece] * (size // MIN_LINE - 1), b"x" * (MIN_LINE - 1) + b"\n"]
    pieces = line * (2 * MAX_LINE // size)
    monkeypatch.setattr(unpack, "_pieces", lambda _path: iter(pieces))
    taken = []
    for _ in range(3):
        began = time.process_time()
        assert sum(map(len, lines_of(Path()))) == 2 * MAX_LINE
        taken.append(time.process_time() - began)
    return min(taken)


def test_a_line_is_looked_at_once_in_however_many_pieces_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crafted segment of some megabytes would keep an auditor waiting for half an hour."""
    # As many bytes in as many pieces. Copied with each piece, lines of 128 times the length cost 128 times as much.
    assert _seconds(monkeypatch, MAX_LINE) < 16 * _seconds(monkeypatch, MAX_LINE // 128)


@pytest.mark.parametrize(("count", "is_read"), ((MAX_CUT, True), (MAX_CUT + 1, False)))
def test_members_that_end_no_line_are_counted(tmp_path: Path, count: int, is_read: bool) -> None:
    """Each costs as much work as a long one, and millions of them make up no more than some lines."""
    path = tmp_path / "segment"
    path.write_bytes(gzip.compress(b"x" * MIN_LINE) * count + gzip.compress(b"x" * MIN_LINE + b"\n") * 3)
    if is_read:
        assert [len(line) for line in lines_of(path)] == [MIN_LINE * (count + 1) + 1, MIN_LINE + 1, MIN_LINE + 1]
    else:
        with pytest.raises(TornError, match="more than 1000 members that end in the midst of a line"):
            list(lines_of(path))


@pytest.mark.parametrize("behind", range(1, 9))
def test_a_member_ends_its_line_wherever_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """An honest trail would be told to be damaged, once some of its members ended where a piece of the file does."""
    monkeypatch.setattr(unpack, "MAX_CUT", 0)
    path = tmp_path / "segment"
    line = b"x" * MIN_LINE + b"\n"
    content = _packed(line)
    # Its name, which is never read, is as long as it takes to have its check sum or a part of it in the next piece.
    name = b"n" * (16 * 1024 + behind - len(content) - 1) + b"\0"
    path.write_bytes(content[:3] + b"\x08" + content[4:10] + name + content[10:] + content)
    assert list(lines_of(path)) == [line, line]


def test_no_more_is_unpacked_of_a_crafted_segment_than_its_members_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bounds the lines of a crafted segment would bound a tiny part of the work that it makes."""
    given: list[int] = []

    class Counted:
        def __init__(self, bits: int) -> None:
            self._unpacker = zlib.decompressobj(bits)
            given.append(0)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacker, name)

        def decompress(self, packed: bytes, most: int) -> bytes:
            given[-1] += len(packed)
            return self._unpacker.decompress(packed, most)

    _, paths = three(tmp_path)
    first = gzip.decompress(paths[1].read_bytes()).split(b"\n")[0] + b"\n"
    content = _packed(first) + UNENDED * 20
    paths[1].write_bytes(content)
    monkeypatch.setattr(unpack, "zlib", SimpleNamespace(decompressobj=Counted, error=zlib.error))
    assert any(finding.fault is TrailFault.TORN for finding in check_segment(paths[1]).findings)
    # The first line's, those that are allowed, and one too many.
    assert len(given) == MAX_CUT + 2
    # What is behind a member is handed over again with the next: at most a piece of the file each time.
    assert sum(given) < len(given) * 16 * 1024


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1, mtime=0)


def _event(seq: int, boot_id: str) -> bytes:
    text = f'{{"schema":"signproxy.audit/1","kind":"sign","boot_id":"{boot_id}","seq":{seq},"detail":"{"x" * 60}"}}\n'
    return text.encode()


_MANY = 100_000
UNENDED = _packed(b"x" * MIN_LINE) * (MAX_LINE // MIN_LINE - 1) + _packed(b"x" * (MIN_LINE - 1) + b"\n")
"""A line, nearly the longest, of thousands of members: 190 KB that were copied and looked at for a second."""
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty lines": (lambda: _packed(b"\n" * 64_000_000), "more than 1000 lines of fewer than 128 bytes"),
    "lines of a byte": (lambda: _packed(b"x\n" * 32_000_000), "more than 1000 lines of fewer than 128 bytes"),
    "members of nothing": (lambda: _packed(b"") * _MANY * 20, "more than 1000 members of fewer than 128 bytes"),
    "members of a byte": (lambda: _packed(b"x") * _MANY * 20, "more than 1000 members of fewer than 128 bytes"),
    "members of a long line": (lambda: UNENDED * 20, "more than 1000 members that end in the midst of a line"),
    "a long line": (lambda: _packed(b"x" * 500_000_000), "a line of more than 1048576 bytes"),
    "no events": (lambda: _packed((b"x" * 200 + b"\n") * 1_000_000), "1001 of 1001"),
    "nested lines": (lambda: _packed((b'{"a":' + b"[" * 5000 + b"\n") * 20_000), "1001 of 1001"),
    "another's events": (
        lambda: _packed(b"".join([_event(seq, "01J0000000000000000000000Z") for seq in range(_MANY * 3)])),
        "1001 of 1002",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_crafted_segment_ends_with_a_fault_and_not_with_an_hour(tmp_path: Path, bomb: str) -> None:
    """Who can put a file of some megabytes there would keep every auditor from proving the trail."""
    build, told = BOMBS[bomb]
    content = build()
    _, paths = three(tmp_path)
    if bomb == "another's events":
        first = gzip.decompress(paths[1].read_bytes()).split(b"\n")[0] + b"\n"
        content = _packed(first) + content
    paths[1].write_bytes(content)
    began = time.process_time()
    found = [finding.text for finding in findings(tmp_path) if paths[1].name in finding.text]
    # Read to its end, each of them takes minutes: gigabytes of lines, or millions of members.
    assert time.process_time() - began < 5.0
    assert any(told in text for text in found), found


def test_the_largest_segment_of_the_settings_is_no_bomb() -> None:
    """An honest trail would be told to be damaged."""
    largest = msgspec.json.schema(AuditSettings)["$defs"]["AuditSettings"]["properties"]["segment_mib"]["maximum"]
    assert (largest + 128) * 1024 * 1024 <= MAX_RAW


def test_no_honest_line_is_short() -> None:
    """An honest trail would be told to be damaged."""
    boot_id, ts = new_event_id(), "2026-01-01T00:00:00Z"
    start = SegmentStart(instance="a", boot_id=boot_id, number=1, first_seq=1, ts=ts, version="1")
    least = AuditEvent(
        event_id=new_event_id(), kind=Kind.ISSUE, decision=Verdict.DENY, reason="x", policy_rev="", http_status=0
    )
    for line in (line_of(start), encoded(boot_id, [(1, 0.0, least)])):
        assert len(line) > MIN_LINE, line
