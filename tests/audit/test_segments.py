"""What a segment promises: every line once, a name only when complete, whatever the disk does meanwhile."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from signproxy.audit import segment_file as segment_file_module
from signproxy.audit import segments as segments_module
from signproxy.audit.segment import SegmentName, instance_name, parse_name
from signproxy.audit.segments import SegmentSettings, SegmentSink, Sync, bytes_below, sealed_below
from tests.audit.segment_rig import Life, content, faults, findings, sequence, until_it_works
from tests.audit.sinks import segment_files


def edges(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    return msgspec.json.decode(lines[0]), msgspec.json.decode(lines[-1])


def test_a_life_is_whole_and_in_order(tmp_path: Path) -> None:
    """An auditor would find holes in a trail of which nothing is missing."""
    life = Life(tmp_path)
    lines = b"".join([life.write(3), life.write(200), life.write(1)])
    life.sink.flush()
    lines += life.write(5)
    life.sink.close()
    assert content(tmp_path) == lines
    assert findings(tmp_path) == []
    assert sealed_below(tmp_path) == life.sealed


def test_the_first_and_the_last_line_say_what_is_between_them(tmp_path: Path) -> None:
    """A reader could not tell a whole segment from one that was cut, or which comes next."""
    life = Life(tmp_path, config_digest="c0ffee")
    first, second = life.rotate(4), life.rotate(2)
    start, end = edges(first)
    assert start["schema"] == end["schema"] == "signproxy.audit/1"
    assert (start["kind"], start["first_seq"], start["previous_sha256"]) == ("segment_start", 1, "")
    assert (start["instance"], start["boot_id"], start["config_digest"]) == ("pod-0", life.boot_id, "c0ffee")
    assert (end["kind"], end["count"], end["first_seq"], end["last_seq"]) == ("segment_end", 4, 1, 4)
    assert end["sealed_by"] == "rotation"
    start, end = edges(second)
    assert (start["number"], start["first_seq"], start["previous_sha256"]) == (2, 5, edges(first)[1]["sha256"])
    life.sink.close()


def test_a_segment_is_hidden_until_it_is_complete(tmp_path: Path) -> None:
    """Spark would read half of it, and never the rest."""
    life = Life(tmp_path)
    life.write(1)
    (path,) = segment_files(tmp_path)
    assert path.name.startswith(".")
    assert path.parent.name == "dt=2026-11-18"
    life.sink.close()
    (sealed,) = segment_files(tmp_path)
    assert sealed.name == path.name.removeprefix(".")
    assert parse_name(sealed.name) == SegmentName("pod-0", life.boot_id, 1)


def test_each_flush_can_be_read_by_any_tool(tmp_path: Path) -> None:
    """Who looks at a running server's trail with `zcat` would be told that the file is broken."""
    life = Life(tmp_path)
    lines = life.write(3)
    life.sink.flush()
    (path,) = segment_files(tmp_path)
    assert gzip.decompress(path.read_bytes()).partition(b"\n")[2] == lines
    lines += life.write(3)
    life.sink.flush()
    assert gzip.decompress(path.read_bytes()).partition(b"\n")[2] == lines
    life.sink.close()


def test_a_segment_is_sealed_by_its_size(tmp_path: Path) -> None:
    """A file without end is never shipped."""
    life = Life(tmp_path, max_bytes=8_000)
    for _ in range(10):
        life.write(10)
    life.sink.close()
    assert [edges(path)[1]["sealed_by"] for path in sealed_below(tmp_path)][:-1] == ["size"] * (len(life.sealed) - 1)
    assert len(life.sealed) > 2
    assert findings(tmp_path) == []


def test_a_segment_is_sealed_by_its_age_although_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last events before a quiet night would be shipped in the morning."""
    now = [1000.0]
    monkeypatch.setattr(segments_module, "monotonic", lambda: now[0])
    monkeypatch.setattr(segment_file_module, "monotonic", lambda: now[0])
    life = Life(tmp_path, max_seconds=60.0)

    def rest() -> float | None:
        return life.sink.rest

    assert rest() is None
    life.write(1)
    assert rest() == 60.0
    now[0] += 59
    life.sink.flush()
    assert life.sealed == []
    now[0] += 1
    assert rest() == 0.0
    life.sink.flush()
    assert [edges(path)[1]["sealed_by"] for path in life.sealed] == ["time"]
    assert rest() is None


def test_a_rotation_that_was_asked_for_is_due_at_once(tmp_path: Path) -> None:
    """An operator who asks for it before a copy waits for the file."""
    life = Life(tmp_path)
    life.sink.reopen()
    life.sink.flush()
    life.write(1)
    life.sink.reopen()
    assert life.sink.rest == 0.0
    life.sink.flush()
    assert [edges(path)[1]["sealed_by"] for path in life.sealed] == ["rotation"]


def test_only_the_owner_may_read_segments(tmp_path: Path) -> None:
    """They name every principal and object of the lake."""
    old = os.umask(0)
    try:
        Life(tmp_path / "trail").rotate()
    finally:
        os.umask(old)
    (path,) = sealed_below(tmp_path / "trail")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parents[:3]} == {0o700}


# -- what a disk does --------------------------------------------------------------------------------------------------

_CALLS = ("pwrite", "fdatasync", "ftruncate", "open")


class FaultyDisk:
    """Let one of the calls to the system fail, and what is written before it be torn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool]) -> None:
        self.calls = 0
        self.faults = 0
        self._fails = fails
        for name in _CALLS:
            self._replace(monkeypatch, name)
        rename = Path.rename

        def renamed(path: Path, target: Path) -> Path:
            self._count()
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", renamed)

    def _replace(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)

        def called(*arguments: Any, **more: Any) -> Any:
            if name == "pwrite" and self._fails(self.calls + 1):
                fd, data, at = arguments
                real(fd, bytes(data)[: len(data) // 2], at)
            self._count()
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, called)

    def _count(self) -> None:
        self.calls += 1
        if self._fails(self.calls):
            self.faults += 1
            raise OSError(errno.EIO, "Input/output error")


def lived(life: Life) -> bytes:
    """Let a process live through every kind of step, each repeated until it works."""
    written = b""
    for step in range(3):
        for count in (1, 3):
            lines = life.lines(count)
            until_it_works(lambda lines=lines, count=count: life.sink.write(lines, count))  # type: ignore[misc]
            written += lines
        until_it_works(life.sink.flush)
        if step == 1:
            life.sink.reopen()
    until_it_works(life.sink.close)
    return written


@pytest.mark.parametrize("sync", Sync)
@pytest.mark.parametrize("torn", (1, 2, 3))
def test_an_error_of_the_disk_at_any_point_neither_loses_nor_doubles_a_line(
    tmp_path: Path, sync: Sync, torn: int
) -> None:
    """A disk that is full for a moment would end in events that are missing, there twice, or in a broken chain."""
    point = 0
    while True:
        point += 1
        directory = tmp_path / str(point)
        life = Life(directory, sync=sync)
        with pytest.MonkeyPatch.context() as monkeypatch:
            at = range(point, point + torn)
            disk = FaultyDisk(monkeypatch, at.__contains__)
            written = lived(life)
        assert content(directory) == written
        assert findings(directory) == []
        if not disk.faults:
            break
    assert point > 20


def test_a_batch_that_never_succeeds_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends while the disk is full: what was not written must not make what was unreadable."""
    life = Life(tmp_path, sync=Sync.BATCH)
    lines = life.write(3)
    with monkeypatch.context() as broken:
        # It is in the file, and cannot be made to stay there.
        FaultyDisk(broken, lambda call: call % 2 == 0)
        refused = life.lines(2)
        with pytest.raises(OSError, match="Input/output"):
            life.sink.write(refused, 2)
    life.sink.close()
    assert content(tmp_path) == lines
    assert findings(tmp_path) == []


def test_another_batch_may_follow_on_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packer has seen a batch that is not in the file: what follows would refer to it."""
    life = Life(tmp_path)
    lines = life.write(3)
    refused = life.lines(2)
    with monkeypatch.context() as broken:
        FaultyDisk(broken, lambda _: True)
        with pytest.raises(OSError, match="Input/output"):
            life.sink.write(refused, 2)
    lines += life.write(3)
    life.sink.close()
    assert content(tmp_path) == lines
    assert faults(tmp_path) == {"LOST"}


def test_what_a_failed_synchronisation_forgot_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a lost page once, and then holds it for written: a second attempt proves nothing."""
    life = Life(tmp_path)
    life.write(3)
    life.sink.flush()
    lines = life.write(2)
    (path,) = segment_files(tmp_path)
    whole = path.read_bytes()
    real = os.fdatasync

    def forgetful(fd: int) -> None:
        # The pages are gone from the disk, and from memory once it is needed.
        real(fd)
        monkeypatch.setattr(os, "fdatasync", real)
        size = os.fstat(fd).st_size
        os.pwrite(fd, b"\0" * (size - len(whole) + 20), len(whole) - 20)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", forgetful)
    with pytest.raises(OSError, match="Input/output"):
        life.sink.flush()
    life.sink.flush()
    life.sink.close()
    assert content(tmp_path).endswith(lines)
    assert findings(tmp_path) == []


def test_a_segment_that_is_removed_is_told_and_not_written_on(tmp_path: Path) -> None:
    """Whatever cleans up volumes would let hours of requests be served whose events will never be read."""
    life = Life(tmp_path)
    life.write(2)
    (path,) = segment_files(tmp_path)
    path.unlink()
    lines = life.lines(1)
    with pytest.raises(OSError, match="removed"):
        life.sink.write(lines, 1)
    life.sink.write(lines, 1)
    life.sink.close()
    assert content(tmp_path) == lines
    (finding,) = findings(tmp_path)
    assert finding.text == f"segment 1 of {life.boot_id}, with events 1 to 2, is missing"


def test_a_directory_that_is_removed_is_made_again(tmp_path: Path) -> None:
    """The server would refuse every request until it is restarted."""
    life = Life(tmp_path)
    path = life.rotate()
    path.unlink()
    for directory in path.parents[:3]:
        directory.rmdir()
    assert sequence(life.write(1)) == [4]
    life.sink.close()
    assert len(sealed_below(tmp_path)) == 1


@pytest.mark.parametrize("kind", ("file", "read-only", "no locks"))
def test_a_directory_that_cannot_hold_segments_is_an_error_of_the_start(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be one of the first request, and of all after it."""
    match kind:
        case "file":
            (tmp_path / "audit").touch()
        case "read-only":
            monkeypatch.setattr(os, "open", _read_only)
        case _:
            monkeypatch.setattr(fcntl, "flock", _no_locks)
    with pytest.raises(OSError, match=r"\S"):
        SegmentSink(SegmentSettings(tmp_path, "pod-0", "1.0"))


def _read_only(*_: object) -> int:
    raise OSError(errno.EROFS, "Read-only file system")


def _no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_no_segment_is_begun_beyond_what_the_spool_may_have(tmp_path: Path) -> None:
    """A pod whose volume is over its limit is evicted, and all that was not shipped goes with it."""
    life = Life(tmp_path, spool_bytes=1000)
    while bytes_below(tmp_path) < 1000:
        life.rotate(3)
    before = sealed_below(tmp_path)
    lines = life.lines(1)
    with pytest.raises(OSError, match=r"audit\.spool_mib"):
        life.sink.write(lines, 1)
    assert sealed_below(tmp_path) == before
    before[0].unlink()
    life.sink.write(lines, 1)
    life.sink.close()
    assert content(tmp_path).endswith(lines)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    (
        ("signproxy-7d9f-x2", "signproxy-7d9f-x2"),
        ("host.example", "host.example"),
        ("../../etc/passwd", "etc-passwd"),
        ("-.-", "signproxy"),
        ("", "signproxy"),
        ("a" * 80, "a" * 63),
        ("Ünïcode pod\n", "n-code-pod"),
    ),
)
def test_any_host_has_a_name_that_a_file_can_have(text: str, name: str) -> None:
    """A pod's name would lead out of the directory, or to files that no reader knows for segments."""
    assert instance_name(text) == name
    parsed = SegmentName(instance_name(text), "01JD0000000000000000000000", 7)
    assert parse_name(parsed.text) == parse_name(f".{parsed.text}") == parsed


@pytest.mark.parametrize(
    "name",
    ("", "x.ndjson.gz", "pod-01JD0000000000000000000000-000000000001.ndjson", "..ndjson.gz", "pod-1-1.ndjson.gz"),
)
def test_other_files_are_no_segments(name: str) -> None:
    """They would be sealed, shipped, or told to be broken."""
    assert parse_name(name) is None
