"""Hold what the counters of processes are read from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.process import BenchFailed, cpu_seconds, memory_mib, running, wait_until

_BUSY = "import threading\ndef spin():\n for _ in range(2_000_000): pass\nt=threading.Thread(target=spin);t.start()\n"


def test_cpu_time_counts_every_living_thread() -> None:
    """The audit's writer thread would be free of charge."""
    program = _BUSY + "t.join(); " + _BUSY.replace("\n", "\n") + "t.join()\nprint('done',flush=True);input()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        assert cpu_seconds([process.pid]) > 0
        assert cpu_seconds([process.pid, process.pid]) > cpu_seconds([process.pid])
        process.communicate("\n")


def test_resident_memory_is_read_in_mib() -> None:
    """KiB taken for MiB would miss the bar by a factor of a thousand, or meet it."""
    assert 5 < memory_mib(os.getpid(), "VmRSS") < 100_000
    with pytest.raises(BenchFailed):
        memory_mib(os.getpid(), "VmNothing")


def test_a_server_that_ends_instead_of_serving_fails_the_run_with_its_log(tmp_path: object) -> None:
    """The run would wait a minute, and then say nothing about why."""
    with (
        running([sys.executable, "-c", "raise SystemExit(3)"], core=None) as process,
        pytest.raises(BenchFailed, match="exit 3"),
    ):
        wait_until(lambda: False, process)


def test_a_run_that_is_ended_takes_its_servers_with_it() -> None:
    """Servers of an ended run would go on for ever, and disturb every later measurement."""
    run = subprocess.Popen([sys.executable, "-m", "bench", "--only", "startup", "--smoke"], stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    started: list[str] = []
    while not started and run.poll() is None:
        time.sleep(0.01)
        started = children.read_text().split()
    run.send_signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert started
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
