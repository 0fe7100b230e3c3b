"""Write lines of the log from a thread of their own: a reader that is slow, or stuck, holds up no request."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

MAX_WAITING = 2_000
"""Lines; at most some megabytes, and more than any second of a server brings."""

PAUSE_SECONDS = 1.0
"""Before lines are tried again on a descriptor that took none."""


class LineWriter:
    """A stream for `log.configure`. What does not fit is dropped, counted, and told once lines are written again."""

    def __init__(self, fd: int, *, write: Callable[[int, bytes], int] = os.write) -> None:
        self._fd = fd
        self._write_some = write
        self._waiting: deque[str] = deque()
        self.dropped = 0
        """Lines that were lost, and are not told of yet."""
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="signproxy-log", daemon=True)
        self._thread.start()

    def write(self, text: str, /) -> object:
        """Take a line over; never wait, never fail."""
        if len(self._waiting) >= MAX_WAITING or self._closing:
            self.dropped += 1
            return None
        self._waiting.append(text)
        self._wake.set()
        return None

    def flush(self) -> object:
        """Do nothing: lines are written as soon as they are taken."""
        return None

    def close(self, seconds: float) -> None:
        """Take no more, and wait until what was taken over is written, but no longer than that."""
        self._closing = True
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            # Read first: what was taken over before the end was asked for is waiting by then.
            closing = self._closing
            while self._waiting:
                if not self._written(self._waiting[0]):
                    # The reader is gone, or the disk is full: the next lines may find it otherwise.
                    self.dropped += 1
                    time.sleep(PAUSE_SECONDS)
                elif self.dropped:
                    lost, self.dropped = self.dropped, 0
                    self._written(_lost(lost))
                self._waiting.popleft()
            if closing:
                return

    def _written(self, line: str) -> bool:
        rest = line.encode("utf-8", "backslashreplace")
        try:
            while rest:
                rest = rest[self._write_some(self._fd, rest) :]
        except OSError:
            return False
        return True


def _lost(count: int) -> str:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    event = "log lines were not written"
    return f'{{"ts":"{now}","level":"warning","event":"{event}","logger":"signproxy.log","count":{count}}}\n'
