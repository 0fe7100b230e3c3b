"""Trail and segments together: what is quiet is sealed, what is slow is told, and an end seals all."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from signproxy.audit import writer as writer_module
from signproxy.audit.segments import SegmentSettings, SegmentSink, Sync, sealed_below
from signproxy.audit.trail import AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.errors import Refused
from tests.audit.events import an_event
from tests.audit.segment_rig import content, faults, findings, sequence
from tests.waiting import blocked_until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush and retry soon; how long the pauses are is no part of the promise."""
    for name, seconds in (("FLUSH_SECONDS", 0.05), ("FIRST_RETRY_SECONDS", 0.005), ("LAST_RETRY_SECONDS", 0.02)):
        monkeypatch.setattr(writer_module, name, seconds)


class Trails:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[AuditTrail] = []

    def start(self, on_error: OnError = OnError.DENY, **settings: object) -> AuditTrail:
        made = SegmentSettings(self.directory, "pod-0", "1.0", **settings)  # type: ignore[arg-type]  # a test names fields
        trail = AuditTrail(SegmentSink(made), on_error=on_error, limit=200)
        trail.start()
        self.started.append(trail)
        return trail


@pytest.fixture
def trails(tmp_path: Path) -> Iterator[Trails]:
    made = Trails(tmp_path)
    yield made
    for trail in made.started:
        trail.close(5)


def test_an_end_in_order_leaves_nothing_to_prove(trails: Trails) -> None:
    """After each restart the trail would look as if the process had been killed."""
    trail = trails.start()
    for _ in range(50):
        trail.accept(an_event())
    assert trail.close(5) == 0
    assert sequence(content(trails.directory)) == list(range(1, 51))
    assert findings(trails.directory) == []


def test_a_quiet_server_seals_its_segment(trails: Trails) -> None:
    """The last events of an evening would be shipped with the first of the morning."""
    trail = trails.start(max_seconds=0.2)
    trail.accept(an_event())
    blocked_until(lambda: len(sealed_below(trails.directory)) == 1)
    trail.accept(an_event())
    blocked_until(lambda: len(sealed_below(trails.directory)) == 2)
    assert faults(trails.directory) == set()


def test_a_rotation_does_not_wait_for_an_event(trails: Trails) -> None:
    """The operator who asked for it copies the directory next."""
    trail = trails.start()
    trail.accept(an_event())
    blocked_until(lambda: trail.state.written)
    trail.reopen()
    blocked_until(lambda: sealed_below(trails.directory))


def test_the_lag_tells_what_a_crash_of_the_machine_would_lose(trails: Trails, monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise of one second could not be checked on the disk that is really there."""
    hangs = threading.Event()
    real = os.fdatasync

    def slow(fd: int) -> None:
        hangs.wait(10)
        real(fd)

    trail = trails.start()
    assert trail.state.unsafe_seconds == 0
    monkeypatch.setattr(os, "fdatasync", slow)
    trail.accept(an_event())
    sleep(0.3)
    assert trail.state.unsafe_seconds > 0.25
    # A slow synchronisation has lost nothing: the lines are written, and requests go on.
    assert trail.accept(an_event())
    assert trail.state.healthy
    hangs.set()
    blocked_until(lambda: trail.state.unsafe_seconds == 0)


def test_a_slow_disk_refuses_once_the_queue_is_full(trails: Trails, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory would grow without end, and a crash would lose what was never bounded."""
    hangs = threading.Event()
    real = os.fdatasync

    def slow(fd: int) -> None:
        hangs.wait(10)
        real(fd)

    trail = trails.start(sync=Sync.BATCH)
    monkeypatch.setattr(os, "fdatasync", slow)
    refused = 0
    for _ in range(1000):
        try:
            trail.accept(an_event())
        except Refused:
            refused += 1
    # What is in the queue, and the batch in hand.
    assert refused >= 1000 - 2 * 256
    hangs.set()
    blocked_until(lambda: not trail.state.queued)
    assert trail.accept(an_event())
    trail.close(5)
    assert faults(trails.directory) == set()


@pytest.mark.parametrize("on_error", OnError)
def test_a_disk_that_fails_for_a_while_leaves_a_trail_that_is_whole(
    trails: Trails, monkeypatch: pytest.MonkeyPatch, on_error: OnError
) -> None:
    """The repair would cost the evidence of before, or leave a hole that was not counted."""
    trail = trails.start(on_error)
    trail.accept(an_event())
    blocked_until(lambda: trail.state.written)
    with monkeypatch.context() as broken:

        def fails(*_: object) -> int:
            raise OSError(errno.EROFS, "Read-only file system")

        broken.setattr(os, "pwrite", fails)
        trail.accept(an_event())
        blocked_until(lambda: not trail.state.healthy)
        assert trail.state.problem == "Read-only file system"
        if on_error is OnError.DENY:
            with pytest.raises(Refused):
                trail.accept(an_event())
        else:
            for _ in range(300):
                trail.accept(an_event())
    blocked_until(lambda: trail.state.healthy)
    trail.accept(an_event())
    assert trail.close(5) == 0
    assert faults(trails.directory) == ({"LOST"} if trail.state.dropped else set())
    assert bool(trail.state.dropped) is (on_error is OnError.ALLOW)


def test_a_disk_that_is_full_to_the_end_does_not_hold_up_the_end(
    trails: Trails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelet would kill the server before it has let go of anything else; what is there stays readable."""
    trail = trails.start()
    trail.accept(an_event())
    blocked_until(lambda: trail.state.written)

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fails)
    trail.accept(an_event())
    blocked_until(lambda: trail.state.errors)
    began = monotonic()
    assert trail.close(0.5) == 1
    assert monotonic() - began < 5
    assert sequence(content(trails.directory)) == [1]
