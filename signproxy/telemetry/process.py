"""Measure this process as the kernel sees it: memory, open files, CPU time.

Where there is no `/proc` the numbers are left out, which is what Prometheus' own clients do.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMORY = Path("/proc/self/statm")
_FILES = Path("/proc/self/fd")

_NOTHING: Mapping[tuple[str, ...], float] = {}


def resident_memory() -> Mapping[tuple[str, ...], float]:
    """Return the bytes of memory in use, pages shared with other processes included."""
    try:
        return {(): int(_MEMORY.read_text().split()[1]) * _PAGE}
    except OSError:
        return _NOTHING


def open_files() -> Mapping[tuple[str, ...], float]:
    """Return how many files and sockets are open."""
    try:
        # Listing them opens one more.
        return {(): sum(1 for _ in _FILES.iterdir()) - 1}
    except OSError:
        return _NOTHING


def most_files() -> Mapping[tuple[str, ...], float]:
    """Return how many files and sockets may be open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {(): inf if limit == resource.RLIM_INFINITY else limit}


def cpu_time() -> Mapping[tuple[str, ...], float]:
    """Return the seconds of CPU that were used, in user and kernel mode."""
    return {(): time.process_time()}
