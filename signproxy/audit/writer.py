"""Write what waits in the trail's queue, from a thread that may block instead of the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from time import monotonic, time

from signproxy.audit.sink import AuditSink
from signproxy.telemetry.log import get_logger

GATHERED_EVENTS = 1_024
BATCH_SECONDS = 0.02
"""A batch is written when there are this many events, or the first one has this age."""
BATCH_EVENTS = 4_096
"""The most in one write; what came while a batch was written goes into the next one."""
FLUSH_SECONDS = 1.0
"""An fdatasync takes 4 ms, so it is shared by what comes in a second."""
STALL_SECONDS = 5.0
"""A write that takes longer has no healthy writer behind it: a pipe that is not read, a disk that hangs."""
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0
"""A failed batch is written again after ever longer pauses; the last is how late a freed disk is noticed."""

_log = get_logger("signproxy.audit")


class TrailWriter:
    """The thread that hands batches to a sink, until it took them. Start it after forking: it does not survive one."""

    def __init__(self, sink: AuditSink, tell: Callable[[str], None]) -> None:
        """`tell` is called on the thread: with a problem, and with an empty text once the sink works again."""
        self._sink = sink
        self._tell = tell
        self.queue: list[bytes] = []
        """The lines that are to be written; set `wake` behind one where that is worth a look.

        A list, because many are taken from it in one step, which no other thread sees halfway: taken one by one, each
        batch would keep the interpreter from the event loop for longer.
        """
        self.since = time()
        """Unix time since which there are some; set it with the first."""
        self.batches = 0
        """How often some were taken."""
        self.wake = threading.Event()
        # By the clock of events, which is looked at for each of them, and by one that is never put forward.
        self.stalled_after = self._stalls_at = inf
        self.in_hand = self.written = self.errors = 0
        self.unsafe_since = 0.0
        """Unix time of the first event that was handed to the sink and not flushed; 0 where there is none."""
        self._failing = False
        self._closing = threading.Event()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signproxy-audit", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def reopen(self) -> None:
        """Let the sink begin anew under its name."""
        self._sink.reopen()
        self.wake.set()

    def close(self, timeout: float) -> int:
        """Write what is left, close the sink, and return how many events that did not succeed for."""
        self._closing.set()
        self.wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
            self._give_up.set()
        elif self._thread.ident is None:
            # Whatever failed between opening the sink and starting: nothing else closes it.
            self._sink.close()
        return self.waiting

    @property
    def waiting(self) -> int:
        """Events that the sink has not taken."""
        return len(self.queue) + self.in_hand

    @property
    def is_stalled(self) -> bool:
        """Whether a write takes too long."""
        return monotonic() > self._stalls_at

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._write_until_closed()
        except Exception as fault:  # noqa: BLE001 - the supervisor of this thread
            # A fault of ours or of the sink's must not end in requests that go unrecorded.
            self._tell(f"the writer ended: {type(fault).__name__}")
            _log.exception("audit writer ended")

    def _write_until_closed(self) -> None:
        flushed_at = monotonic()
        while True:
            closing = self._closing.is_set()
            if not closing:
                if not self.queue:
                    self.wake.wait(FLUSH_SECONDS if self.unsafe_since else self._sink.rest)
                    self.wake.clear()
                if len(self.queue) < GATHERED_EVENTS and self.queue and not self._closing.is_set():
                    self.wake.wait(BATCH_SECONDS)
                    self.wake.clear()
            while self.queue:
                if not self._write_batch():
                    return
                if not closing and len(self.queue) < GATHERED_EVENTS:
                    break  # Each batch takes the interpreter from the event loop.
            rest = self._sink.rest
            due = rest is not None and rest <= 0
            if due or (self.unsafe_since and (closing or monotonic() - flushed_at >= FLUSH_SECONDS)):
                # A slow fdatasync has lost nothing: the lines are written, and the queue bounds what comes meanwhile.
                if not self._until_it_works(self._sink.flush, stalls_after=inf):
                    return
                flushed_at = monotonic()
                self.unsafe_since = 0.0
            if closing:
                self._until_it_works(self._sink.close, stalls_after=inf)
                return

    def _write_batch(self) -> bool:
        queue, since = self.queue, self.since
        self.since = since if len(queue) > BATCH_EVENTS else time()
        batch = queue[:BATCH_EVENTS]
        count = self.in_hand = len(batch)
        del queue[:count]
        self.batches += 1
        self.unsafe_since = self.unsafe_since or since
        batch.append(b"")
        lines = b"\n".join(batch)
        if not self._until_it_works(lambda: self._sink.write(lines, count), stalls_after=STALL_SECONDS):
            return False
        self.in_hand = 0
        self.written += count
        return True

    def _until_it_works(self, action: Callable[[], None], *, stalls_after: float) -> bool:
        """Repeat an action of the sink until it succeeds; False if closing came first."""
        pause = FIRST_RETRY_SECONDS
        while True:
            self.stalled_after, self._stalls_at = time() + stalls_after, monotonic() + stalls_after
            try:
                action()
            except OSError as error:
                self.errors += 1
                self._failing = True
                self._tell(error.strerror or type(error).__name__)
                _log.error("audit write failed", error=error.strerror, errno=error.errno, retry_in=pause)
            else:
                if self._failing:
                    self._failing = False
                    self._tell("")
                    _log.info("audit writes succeed again")
                return True
            finally:
                self.stalled_after = self._stalls_at = inf
            if self._closing.wait(pause):
                # The little time that closing leaves is used.
                pause = FIRST_RETRY_SECONDS
                if self._give_up.wait(pause):
                    return False
            pause = min(2 * pause, LAST_RETRY_SECONDS)
