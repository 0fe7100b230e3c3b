"""Measure processes from outside, by what the kernel says of them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Self

import msgspec

SAMPLE_SECONDS = 0.5

WARM_UP_SHARE = 1 / 3
"""Of the run, in which caches fill and the allocator finds its size; what comes after it is measured."""

WINDOWS = 10
"""What comes after it is cut into so many pieces; the first is what the others are held against."""

_MIB = 1024


class Drift(msgspec.Struct, frozen=True):
    """The memory of one process after the warm-up."""

    process: str
    first_mib: float
    last_mib: float
    least_percent: float
    most_percent: float
    """How far the medians of the windows lie from that of the first, at most."""


class Held(msgspec.Struct, frozen=True):
    """What a process holds on to."""

    files: int
    threads: int


class Memory:
    """Samples of the resident memory of processes, from entry to exit of the block."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = processes
        self._samples: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory")

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def drifts(self, seconds: float) -> list[Drift]:
        """Return how memory developed in a run of so many seconds."""
        return [drift_of(name, samples, seconds) for name, samples in self._samples.items()]

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            at = time.monotonic() - self._begun
            for name, pid in self._processes.items():
                self._samples[name].append((at, _number(pid, "VmRSS") / _MIB))


def held(pid: int) -> Held:
    """Return how many files and threads a process has."""
    return Held(len(list(Path(f"/proc/{pid}/fd").iterdir())), _number(pid, "Threads"))


def _number(pid: int, field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None, f"process {pid} has no {field}"
    return int(match[1])


def drift_of(name: str, samples: Sequence[tuple[float, float]], seconds: float) -> Drift:
    """Return how the samples of a process, of a run of so many seconds, developed."""
    warm = seconds * WARM_UP_SHARE
    length = (seconds - warm) / WINDOWS
    windows: list[list[float]] = [[] for _ in range(WINDOWS)]
    for at, mib in samples:
        if warm <= at < seconds:
            windows[min(int((at - warm) / length), WINDOWS - 1)].append(mib)
    medians = [median(window) for window in windows]
    shares = [100 * each / medians[0] - 100 for each in medians]
    rounded = (round(number, 2) for number in (medians[0], medians[-1], min(shares), max(shares)))
    return Drift(name, *rounded)
