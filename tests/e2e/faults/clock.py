"""Set the wall clock of a server while it runs, and leave alone the clock that knows no steps."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.faults import install
from tests.e2e.faults.deployment import replace

NOTICED_SECONDS = 1.3
"""The library reads the file in the first call of each real second. Whenever it is asked would be too often: two
threads that read at once may see no file, and for a moment the real time."""


class Clock:
    """The wall clock of the processes that are started with `env`."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self._offsets = [0.0]
        replace(self._file, "+0")
        self.env = {
            "LD_PRELOAD": str(install.libfaketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "0",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def now(self) -> float:
        """Return the time that the server has."""
        return time.time() + self._offsets[-1]

    def moments(self) -> tuple[float, ...]:
        """Return the time that the server has or, just after a step, had when it answered."""
        return tuple(time.time() + offset for offset in self._offsets)

    def step(self, offset: float) -> None:
        """Put the clock so many seconds before the real one, and wait until every process has noticed."""
        self._offsets = [*self._offsets[-1:], offset]
        replace(self._file, f"{offset:+.0f}")
        time.sleep(NOTICED_SECONDS)
