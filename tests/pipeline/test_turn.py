"""Prove that two runs never work on one warehouse, and that a run that died keeps no other run off."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from signproxy.pipeline.runs import LOCK, Busy, alone

_HOLDS = """
import sys
from pathlib import Path
from signproxy.pipeline.runs import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_told_that_there_is_a_first(tmp_path: Path) -> None:
    """Two ingests of one batch would each take the other's half away."""
    with alone(tmp_path), pytest.raises(Busy, match="another run works on"), alone(tmp_path):
        pytest.fail("both have it")
    with alone(tmp_path):
        assert (tmp_path / LOCK).exists()


def test_a_run_that_was_killed_keeps_no_other_off(tmp_path: Path) -> None:
    """A node that went down must not make an operator remove a file by hand."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy), alone(tmp_path):
            pytest.fail("both have it")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with alone(tmp_path):
        pass


def test_a_file_system_without_locks_is_worked_on_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose volume has no locks must still get answers."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with alone(tmp_path), alone(None):
        assert (tmp_path / LOCK).exists()
