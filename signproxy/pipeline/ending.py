"""End a run that is told to end, and the Java that it started: alone, that would work on for as long as it has work."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from pyspark import SparkContext


class Process(Protocol):
    """The Java of a run."""

    def kill(self) -> None:
        """End it, whatever it is at."""
        ...


class Ending:
    """What a run is told of its end."""

    def __init__(self) -> None:
        self.signal = ""
        """The name of the signal that ended it; empty while it goes on."""
        self.process: Process | None = None

    def obey(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what a handler gets
        """End the Java; what waits for it is told at once, and the run ends as one whose Spark died."""
        self.signal = signal.Signals(number).name
        # What waits for the Java would tell of its end with a trace, and the operator knows why it ended.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        if self.process is not None:
            # No job needs to be asked: each of them may be killed at any point.
            self.process.kill()


@contextmanager
def ending() -> Iterator[Ending]:
    """Obey SIGTERM until the block ends."""
    told = Ending()
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
        yield told
        return
    before = signal.signal(signal.SIGTERM, told.obey)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)


def java_of_this_process() -> Process | None:
    """Return the Java that Spark started for this process; None where another program did."""
    gateway = SparkContext._gateway  # noqa: SLF001 - Spark has no name for it
    process: Process | None = getattr(gateway, "proc", None)
    return process
