"""A process ends at any point, without warning: the next start finds every line that was written, and proves it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from signproxy.audit.salvage import seal_orphans
from signproxy.audit.segment import SealedBy
from signproxy.audit.trailer import trailer_of
from tests.audit.segment_rig import Life, content, faults, findings, sequence
from tests.audit.sinks import segment_files


def abandon(life: Life) -> None:
    """End the life of a process as `kill -9` does: its locks are gone, and nothing else happens."""
    assert life.sink._open is not None
    os.close(life.sink._open._fd)
    life.sink._open = None


def test_every_byte_at_which_a_process_may_end_leaves_all_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event whose request was served would be missing, or the first after it would be unreadable."""
    directory = tmp_path / "life"
    life = Life(directory)
    acknowledged: list[tuple[int, bytes]] = []
    lines = b""
    for step in range(5):
        lines += life.write(1 + step % 3)
        acknowledged.append((segment_files(directory)[0].stat().st_size, lines))
        if step % 3 == 2:
            life.sink.flush()
    abandon(life)
    (path,) = segment_files(directory)
    whole = path.read_bytes()
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, lambda _fd: None)
    for cut in range(len(whole) + 1):
        there = tmp_path / "cut"
        (there / path.parent.relative_to(directory)).mkdir(parents=True)
        (there / path.relative_to(directory)).write_bytes(whole[:cut])
        seal_orphans(there)
        found = content(there)
        promised = max((lines for size, lines in acknowledged if size <= cut), key=len, default=b"")
        assert found.startswith(promised)
        assert lines.startswith(found)
        assert faults(there) == set()
        assert not list(there.rglob(".*.gz*"))
        shutil.rmtree(there)


def test_an_orphan_is_sealed_under_its_name(tmp_path: Path) -> None:
    """A reader passes over what is not sealed, and so would never see the last events before a crash."""
    life = Life(tmp_path)
    first = life.rotate(2)
    lines = life.write(3)
    abandon(life)
    (salvaged,) = seal_orphans(tmp_path)
    assert salvaged.events == 3
    assert content(tmp_path).endswith(lines)
    trailer, digest = trailer_of(salvaged.path)
    assert trailer is not None
    assert (trailer.end.sealed_by, trailer.end.sha256, trailer.end.count) == (SealedBy.RECOVERY, digest, 3)
    assert segment_files(tmp_path) == [first, salvaged.path]
    assert [finding.fault.name for finding in findings(tmp_path)] == ["ENDLESS"]
    assert seal_orphans(tmp_path) == ()


def test_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    """Several workers start at once: one would seal what the other is writing, and all after it is lost."""
    life = Life(tmp_path)
    lines = life.write(2)
    assert seal_orphans(tmp_path) == ()
    lines += life.write(2)
    life.sink.close()
    assert content(tmp_path) == lines
    assert findings(tmp_path) == []


def test_a_segment_that_lacked_only_its_name_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shutdown that was killed a moment too early would look like a crash for ever."""
    life = Life(tmp_path)
    lines = life.write(3)
    with monkeypatch.context() as killed:

        def end(*_: object) -> None:
            raise KeyboardInterrupt

        killed.setattr(Path, "rename", end)
        with pytest.raises(KeyboardInterrupt):
            life.sink.close()
    abandon(life)
    (salvaged,) = seal_orphans(tmp_path)
    trailer, _ = trailer_of(salvaged.path)
    assert trailer is not None
    assert trailer.end.sealed_by is SealedBy.CLOSE
    assert content(tmp_path) == lines
    assert findings(tmp_path) == []


@pytest.mark.parametrize("call", ("open", "fdatasync", "write", "rename", "unlink"))
def test_a_recovery_that_ends_in_its_midst_is_done_again(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that crashes in a loop would lose by mending what the first crash had left."""
    life = Life(tmp_path)
    lines = life.write(3)
    abandon(life)
    with monkeypatch.context() as killed:

        def end(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        killed.setattr(Path if call in ("rename", "unlink") else os, call, end)
        with pytest.raises(KeyboardInterrupt):
            seal_orphans(tmp_path)
    seal_orphans(tmp_path)
    assert content(tmp_path) == lines
    assert faults(tmp_path) == set()
    assert not list(tmp_path.rglob(".*.gz*"))


def test_a_repeated_recovery_makes_the_same_file(tmp_path: Path) -> None:
    """What was shipped meanwhile would be another object under the same name: a conflict that cannot be resolved."""
    life = Life(tmp_path)
    life.write(3)
    (orphan,) = segment_files(tmp_path)
    left = orphan.read_bytes()
    abandon(life)
    (salvaged,) = seal_orphans(tmp_path)
    first = salvaged.path.read_bytes()
    salvaged.path.unlink()
    orphan.write_bytes(left)
    (salvaged,) = seal_orphans(tmp_path)
    assert salvaged.path.read_bytes() == first


@pytest.mark.parametrize("instance", ("pod-0", "mended-pod", "damaged-1"))
def test_no_name_of_a_pod_makes_its_segments_disappear(tmp_path: Path, instance: str) -> None:
    """The name of a pod would decide which events are thrown away."""
    life = Life(tmp_path, instance=instance)
    lines = life.write(2)
    abandon(life)
    assert len(seal_orphans(tmp_path)) == 1
    assert content(tmp_path) == lines


def test_a_file_without_a_first_line_is_cleared_away(tmp_path: Path) -> None:
    """It never had an event, and would be told as unsealed for ever."""
    life = Life(tmp_path)
    life.write(1)
    (orphan,) = segment_files(tmp_path)
    abandon(life)
    orphan.write_bytes(b"")
    assert seal_orphans(tmp_path) == ()
    assert segment_files(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    (
        lambda whole: whole[: len(whole) // 2] + b"\0" * 4096,
        lambda whole: whole + b"\0" * 4096,
        lambda whole: b"\0" * len(whole),
        lambda whole: whole + whole,
    ),
)
def test_what_cannot_be_read_is_kept_beside_what_can(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A crash of the machine leaves holes in files: who looks into it later needs all of it."""
    life = Life(tmp_path)
    lines = life.write(3)
    life.sink.flush()
    lines += life.write(3)
    (orphan,) = segment_files(tmp_path)
    left = damage(orphan.read_bytes())
    orphan.write_bytes(left)
    abandon(life)
    seal_orphans(tmp_path)
    (kept,) = tmp_path.rglob("*.damaged")
    assert kept.read_bytes() == left
    assert lines.startswith(content(tmp_path))
    assert faults(tmp_path) == {"DAMAGED"}
    assert seal_orphans(tmp_path) == ()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Who may write to a shared volume would have another file of the server's replaced."""
    life = Life(tmp_path)
    life.write(1)
    (orphan,) = segment_files(tmp_path)
    abandon(life)
    elsewhere = tmp_path / "elsewhere"
    orphan.rename(elsewhere)
    orphan.symlink_to(elsewhere)
    assert seal_orphans(tmp_path) == ()
    assert orphan.is_symlink()


def test_starts_at_once_seal_each_orphan_once(tmp_path: Path) -> None:
    """Workers start together: two that mend one file would take it from each other."""
    wanted = b""
    for _ in range(10):
        life = Life(tmp_path)
        wanted += life.write(20)
        abandon(life)
    salvaged: list[object] = []
    starts = [threading.Thread(target=lambda: salvaged.extend(seal_orphans(tmp_path))) for _ in range(4)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert len(salvaged) == 10
    assert sorted(content(tmp_path).splitlines()) == sorted(wanted.splitlines())
    assert faults(tmp_path) == set()


WRITER = """
import os, sys
from pathlib import Path
from tests.audit.segment_rig import Life
life = Life(Path(sys.argv[1]), max_bytes=40_000)
count = 0
while True:
    count += 1
    life.write(5)
    # What is told is written: a killed process must have left it.
    os.write(1, b"%d\\n" % (5 * count))
    if count % 7 == 0:
        life.sink.flush()
"""


ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


def test_a_process_that_is_killed_at_any_moment_leaves_what_it_told_of(tmp_path: Path) -> None:
    """The kernel kills without warning when memory runs out, in the midst of a write, a seal or a rename."""
    for number in range(12):
        directory = tmp_path / str(number)
        command = [sys.executable, "-c", WRITER, str(directory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as writer:
            assert writer.stdout is not None
            # Another moment each time: after so many lines, wherever that is in the next batch.
            told = [writer.stdout.readline() for _ in range(1 + 17 * number)]
            writer.kill()
            told += writer.stdout.readlines()
        last = int([line for line in told if line.endswith(b"\n")][-1])
        seal_orphans(directory)
        found = sequence(content(directory))
        assert found == list(range(1, len(found) + 1))
        assert last <= len(found) <= last + 5
        assert faults(directory) == set()
