"""What every audit sink promises, and what each of them promises besides."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from signproxy.audit.sink import FileSink, StdoutSink
from tests.audit.sinks import RIGS, FileRig, Rig, rig_of

LINE = b'{"schema":"signproxy.audit/1","boot_id":"01JD0000000000000000000000","seq":%7d,"ts":"2026-11-19T00:00:00Z"}\n'


def batch(first: int, count: int) -> bytes:
    return b"".join(LINE % number for number in range(first, first + count))


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=RIGS, ids=lambda kind: kind.__name__)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with rig_of(request.param) as made:
        yield made


def test_batches_arrive_whole_and_in_order(rig: Rig) -> None:
    """Lines out of order or missing look like tampering."""
    rig.sink.write(batch(1, 3), 3)
    rig.sink.write(batch(4, 300), 300)
    rig.sink.flush()
    assert rig.content() == batch(1, 303)


@pytest.mark.parametrize(
    "room",
    (
        0,  # not a byte fits
        1,
        len(LINE % 0) * 2,  # the fault falls between two lines
        len(LINE % 0) * 2 + 5,  # and within one
        len(LINE % 0) * 10 - 1,  # all but the last line end
    ),
)
def test_a_failed_batch_that_is_written_again_is_there_once_and_whole(rig: Rig, room: int) -> None:
    """A full disk that is freed again must leave neither torn lines nor twice the same event."""
    rig.sink.write(batch(1, 2), 2)
    second = batch(3, 10)
    with rig.full_after(room):
        for _ in range(3):
            with pytest.raises(OSError, match=r"\S"):
                rig.sink.write(second, 10)
    rig.sink.write(second, 10)
    rig.sink.write(batch(13, 1), 1)
    assert rig.content() == batch(1, 13)


def test_reopening_loses_nothing(rig: Rig) -> None:
    """A tool that rotates files calls this on every sink."""
    rig.sink.write(batch(1, 1), 1)
    rig.sink.reopen()
    rig.sink.write(batch(2, 1), 1)
    assert rig.content() == batch(1, 2)


def test_closing_twice_does_no_harm(rig: Rig) -> None:
    """A shutdown that is interrupted by another closes everything again."""
    rig.sink.write(batch(1, 1), 1)
    rig.sink.close()
    rig.sink.close()
    assert rig.content() == batch(1, 1)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    """It names every principal and object of the lake."""
    path = tmp_path / "audit.ndjson"
    old = os.umask(0)
    try:
        FileSink(path).close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_restart_continues_the_file(tmp_path: Path) -> None:
    """Truncating it at start would let every user that can restart the pod erase the trail."""
    path = tmp_path / "audit.ndjson"
    for number in (1, 2):
        sink = FileSink(path)
        sink.write(batch(number, 1), 1)
        sink.close()
    assert path.read_bytes() == batch(1, 2)


def test_a_rotated_file_is_let_go_and_begun_anew(tmp_path: Path) -> None:
    """Without it the disk of a rotated file is never freed, and the collector sees no new lines."""
    path, rotated = tmp_path / "audit.ndjson", tmp_path / "audit.ndjson.1"
    sink = FileSink(path)
    sink.write(batch(1, 1), 1)
    path.rename(rotated)
    sink.write(batch(2, 1), 1)
    sink.reopen()
    sink.write(batch(3, 1), 1)
    sink.close()
    assert rotated.read_bytes() == batch(1, 2)
    assert path.read_bytes() == batch(3, 1)


def test_a_reopening_that_fails_is_tried_again(tmp_path: Path) -> None:
    """A directory that is not there for a moment must neither lose events nor end the writer."""
    directory = tmp_path / "logs"
    directory.mkdir()
    path = directory / "audit.ndjson"
    sink = FileSink(path)
    directory.rename(tmp_path / "moved")
    sink.reopen()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            sink.write(batch(1, 1), 1)
    directory.mkdir()
    sink.write(batch(1, 1), 1)
    sink.close()
    assert path.read_bytes() == batch(1, 1)


@pytest.mark.parametrize(
    ("left", "kept"),
    (
        (b"", b""),
        (batch(1, 2), batch(1, 2)),
        (batch(1, 2) + b'{"seq":00', batch(1, 2)),
        (b'{"seq":00', b""),
        # The last line end lies more than one search step back.
        (batch(1, 2) + b"x" * 200_000, batch(1, 2)),
    ),
)
def test_what_a_killed_process_left_of_a_line_is_cut_off(tmp_path: Path, left: bytes, kept: bytes) -> None:
    """Appended to a torn line, the first event after a crash would be unreadable too."""
    path = tmp_path / "audit.ndjson"
    path.write_bytes(left)
    sink = FileSink(path)
    sink.write(batch(7, 1), 1)
    sink.close()
    assert path.read_bytes() == kept + batch(7, 1)


@pytest.mark.parametrize("kind", ("directory", "fifo", "symlink", "missing directory"))
def test_only_a_regular_file_is_written(tmp_path: Path, kind: str) -> None:
    """A symbolic link in a shared directory could lead the server's writes anywhere."""
    path = tmp_path / "audit"
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "symlink":
            path.symlink_to(tmp_path / "elsewhere")
        case _:
            path = tmp_path / "none" / "audit"
    with pytest.raises(OSError, match=r"\S"):
        FileSink(path)
    assert not (tmp_path / "elsewhere").exists()


MANY = 2000
"""Batches that take longer to write than it takes to see that all have begun; 72 MB each if they are not killed."""

APPENDER = """
import sys
from pathlib import Path
from signproxy.audit.sink import FileSink, StdoutSink
number = int(sys.argv[2])
sink = StdoutSink() if sys.argv[1] == "-" else FileSink(Path(sys.argv[1]))
line = b'{"n":%d,"text":"' % number + b"x" * 900 + b'"}\\n'
for times in range(int(sys.argv[3])):
    sink.write(line * 40, 40)
    if not times:
        print("begun", file=sys.stderr, flush=True)
"""


@contextmanager
def appenders(where: str, times: int, stdout: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run three writers, which end with the block at the latest."""
    with ExitStack() as stack:
        running = []
        for number in (1, 2, 3):
            command = [sys.executable, "-c", APPENDER, where, str(number), str(times)]
            process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        yield running


def whole_lines(content: bytes) -> list[int]:
    """Return who wrote each line; fail on a line that is torn or mixed."""
    lines = content.splitlines(keepends=True)
    wanted = {number: b'{"n":%d,"text":"' % number + b"x" * 900 + b'"}\n' for number in (1, 2, 3)}
    writers = [next((number for number, line in wanted.items() if line == found), 0) for found in lines]
    assert 0 not in writers
    return writers


def test_processes_that_share_a_file_never_mix_lines(tmp_path: Path) -> None:
    """Workers of one pod append to one file."""
    path = tmp_path / "audit.ndjson"
    with appenders(str(path), 30) as running:
        for process in running:
            _, errors = process.communicate(timeout=30)
            assert (process.returncode, errors) == (0, b"begun\n")
    writers = whole_lines(path.read_bytes())
    assert [writers.count(number) for number in (1, 2, 3)] == [1200, 1200, 1200]


def test_processes_that_share_standard_output_never_mix_lines() -> None:
    """Workers share the container's pipe, which keeps together only 4 KiB by itself."""
    reading, writing = os.pipe()
    with appenders("-", 30, stdout=writing) as running:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            content = pipe.read()
        for process in running:
            process.communicate(timeout=30)
            assert process.returncode == 0
    writers = whole_lines(content)
    assert [writers.count(number) for number in (1, 2, 3)] == [1200, 1200, 1200]


def test_killing_a_writer_leaves_whole_lines_for_the_next(tmp_path: Path) -> None:
    """The kernel kills without warning when memory runs out, in the middle of a write too."""
    path = tmp_path / "audit.ndjson"
    for _ in range(3):
        with appenders(str(path), MANY) as running:
            # Killed in the midst of it, wherever that is.
            for process in running:
                assert process.stderr is not None
                assert process.stderr.readline() == b"begun\n"
            for process in running:
                process.kill()
        sink = FileSink(path)
        sink.write(b"", 0)
        sink.close()
        assert whole_lines(path.read_bytes())
        path.unlink()


def test_a_forked_process_has_a_lock_of_its_own(tmp_path: Path) -> None:
    """A child shares its parent's opened file and so its lock: neither would keep the other out."""
    path = tmp_path / "audit.ndjson"
    sink = FileSink(path)
    child = os.fork()
    if child == 0:
        for number in range(200):
            sink.write((b"c" * 5000 + b"\n") * 3, number)
        os._exit(0)
    for number in range(200):
        sink.write((b"p" * 5000 + b"\n") * 3, number)
    os.waitpid(child, 0)
    sink.close()
    lines = path.read_bytes().splitlines()
    assert sorted({(line[:1], len(line), len(set(line))) for line in lines}) == [(b"c", 5000, 1), (b"p", 5000, 1)]
    assert len(lines) == 1200


# -- standard output ---------------------------------------------------------------------------------------------------


def test_a_full_device_is_an_error_and_not_a_loss() -> None:
    """`/dev/full` is what a full disk behind standard output looks like."""
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space"):
            StdoutSink(fd).write(batch(1, 1), 1)
    finally:
        os.close(fd)


def test_a_descriptor_that_cannot_be_written_is_an_error() -> None:
    """Nor can it be locked, which must not hide the fault."""
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            StdoutSink(fd).write(batch(1, 1), 1)
    finally:
        os.close(fd)


def test_a_reader_that_went_away_is_an_error() -> None:
    """A log collector that died must stop the serving, not the process."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(BrokenPipeError):
            StdoutSink(writing).write(batch(1, 1), 1)
    finally:
        os.close(writing)


def test_a_pipe_that_was_made_non_blocking_is_waited_for() -> None:
    """A shell or a parent may have set it; every write would then fail as soon as the reader is slow."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    capacity = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    lines = batch(1, 2 * capacity // len(LINE % 0))
    earlier = b"\n" * capacity
    arrived = bytearray()

    def read() -> None:
        while len(arrived) < len(earlier) + len(lines):
            arrived.extend(os.read(reading, 4096))

    # Full to begin with, and read only once the sink must have found that out.
    assert os.write(writing, earlier) == capacity
    reader = threading.Timer(0.05, read)
    reader.start()
    StdoutSink(writing).write(lines, 0)
    reader.join(30)
    os.close(writing)
    os.close(reading)
    assert bytes(arrived) == earlier + lines


def test_a_file_rig_really_runs_full(tmp_path: Path) -> None:
    """The contract above proves nothing if its fault does not happen."""
    made = FileRig(tmp_path)
    with made.full_after(3), pytest.raises(OSError, match="too large"):
        made.sink.write(batch(1, 1), 1)
    made.sink.close()
