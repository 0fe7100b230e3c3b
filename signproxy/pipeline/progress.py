"""Show how far long work is: a line now and then, and none without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import TextIO

_EVERY_SECONDS = 2.0


class Progress:
    """Rows, percent and rate of what is under way."""

    def __init__(
        self, out: TextIO | None = None, *, clock: Callable[[], float] = monotonic, every: float = _EVERY_SECONDS
    ) -> None:
        """Without `out`, nothing is shown unless standard error is a terminal's."""
        self._out = out if out is not None else (sys.stderr if sys.stderr.isatty() else None)
        self._clock = clock
        self._every = every
        self._began = self._shown = clock()
        self._what = ""
        self._total = 0
        self._unit = ""
        self._done = 0

    def begin(self, what: str, total: int, unit: str = "rows") -> None:
        """Begin to count something else; a total of 0 is not known."""
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._began = self._shown = self._clock()

    def advance(self, count: int) -> None:
        """Count what was done; show it if some time has passed."""
        self._done += count
        if self._clock() - self._shown >= self._every:
            self._show()

    def end(self) -> None:
        """Show the last count."""
        self._show()

    @property
    def line(self) -> str:
        """What is shown."""
        seconds = max(self._clock() - self._began, 1e-9)
        of = f" of {self._total:,} ({100 * self._done / self._total:.0f} %)" if self._total else ""
        return f"{self._what}: {self._done:,}{of} {self._unit}, {self._done / seconds:,.0f}/s"

    def _show(self) -> None:
        self._shown = self._clock()
        if self._out is not None:
            self._out.write(f"{self.line}\n")
            self._out.flush()
