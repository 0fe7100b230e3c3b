"""Hold what the counters of processes are read from."""

from __future__ import annotations

import os
import subprocess
import sys

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
