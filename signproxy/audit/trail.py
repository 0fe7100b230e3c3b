"""Take events from the event loop, and write them from a thread that may block instead of it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from time import monotonic, time

from signproxy.audit.budget import OVER_LIMIT, CallerBudget, RefusalBudget
from signproxy.audit.encode import Accepted, LineEncoder
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_boot_id
from signproxy.audit.sink import AuditSink
from signproxy.audit.trail_state import OnError, TrailState, turned_away
from signproxy.errors import Reason, Refused
from signproxy.telemetry.log import get_logger

QUEUE_LIMIT = 16_384
"""Events that wait for the writer: most of a second of the most that one process serves, and at worst 30 MB."""
GATHERED_EVENTS = 256
BATCH_SECONDS = 0.05
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

_FULL = "the queue is full"
_WAKING = (0, GATHERED_EVENTS - 1)
"""Lengths of the queue at which an arrival is worth a look, besides all from half of its limit on."""

_log = get_logger("signproxy.audit")

# Looking a member up in its class calls Python code; `accept` is called for every request.
_ALLOW = Verdict.ALLOW


class AuditTrail:
    """The one place that events go to. `accept` is called from one thread, the event loop's, and never blocks.

    Start it after forking: a thread does not survive a fork.
    """

    __slots__ = (
        "_aside", "_behind_since", "_budget", "_callers", "_changing", "_closed", "_closing", "_dropped", "_encoder",
        "_errors", "_give_up", "_in_hand", "_limit", "_on_error", "_policy", "_problem", "_queue", "_refused",
        "_reserved", "_room", "_seq", "_sink", "_stalled_after", "_stalls_at", "_thread", "_unsafe_since", "_wake",
        "_written", "boot_id", "fell_behind",
    )  # fmt: skip

    def __init__(
        self,
        sink: AuditSink,
        *,
        on_error: OnError = OnError.DENY,
        limit: int = QUEUE_LIMIT,
        budget: RefusalBudget | None = None,
    ) -> None:
        self.boot_id = new_boot_id()
        self._sink = sink
        self._budget = budget or RefusalBudget()
        self._callers = CallerBudget()
        self._on_error = on_error
        self._limit = limit
        self._reserved = 0
        self.fell_behind: Callable[[], None] = lambda: None
        """Called when half of what is not reserved is full, and again once the writer took some; never by `close`."""
        self._encoder = LineEncoder(self.boot_id)
        self._queue: deque[Accepted] = deque()
        # How long the queue may get: the limit, or 0 while nothing may be accepted. One comparison for both.
        self._room = 0
        # By the clock of events, which is looked at for each of them, and by one that is never put forward.
        self._stalled_after = self._stalls_at = inf
        self._seq = self._written = self._in_hand = self._behind_since = 0
        # Unix time of the first event that was handed to the sink and not flushed; 0 where there is none.
        self._unsafe_since = 0.0
        self._dropped = self._refused = self._errors = 0
        self._problem = "not started"
        self._aside: Counter[Kind] = Counter()
        self._policy = ("", 0)
        self._changing = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._closing = threading.Event()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signproxy-audit", daemon=True)

    def start(self) -> None:
        """Begin to write, and to accept."""
        self._problem = ""
        self._room = self._limit
        self._thread.start()

    def accept(self, event: AuditEvent) -> bool:
        """Take the event over and return True; False if it was dropped, which `on_error: allow` permits.

        Otherwise raise Refused: the request must not be served, because nothing would prove that it was. What is
        refused for being too much is counted, within a budget of its caller's.
        """
        if event.decision is not _ALLOW and event.reason in OVER_LIMIT:
            self._accept_over_limit(event)
            return True
        at = time()
        queued, room = len(self._queue), self._room
        used = queued + self._reserved
        if used >= room or at > self._stalled_after:
            return self._accept_with_care(event, at)
        self._seq += 1
        self._queue.append((self._seq, at, event))
        if queued in _WAKING or used + queued >= room:
            self._look_at(queued)
        return True

    def reserve(self, kind: Kind, policy: tuple[str, int]) -> bool:
        """Keep a place in the queue for the event of a request that is about to be served, and return True.

        False where there is none and `on_error: allow` lets the request be served all the same. Otherwise raise
        Refused, as `accept` does: what has been served cannot be taken back. `fulfil` gives the place back.
        """
        if self.reserve_at_once():
            return True
        with self._changing:
            self._policy = policy
            problem = self._open(time())
            if not problem:
                self._reserved += 1
                return True
            if self._on_error is OnError.DENY:
                self._turn_away(kind, 1)
                raise Refused(Reason.AUDIT_UNAVAILABLE, problem)
        return self.reserve_at_once()

    def reserve_at_once(self) -> bool:
        """Keep a place as `reserve` does where nothing stands against it; else False, and nothing has happened."""
        with self._changing:
            queued, room = len(self._queue), self._room
            used = queued + self._reserved
            if used >= room or time() > self._stalled_after:
                return False
            # A place that is kept is one that no other event can have.
            self._reserved += 1
        if used + queued >= room:
            self._look_at(queued)
        return True

    def give_back(self) -> None:
        """Give up a place for an event that will not come."""
        with self._changing:
            self._reserved -= 1

    def fulfil(self, event: AuditEvent) -> None:
        """Take over the event for which a place was kept, however the writer is doing by now."""
        with self._changing:
            self._reserved -= 1
            if self._closed:
                # The writer has ended: the hole in the numbers shows that one is missing.
                self._seq += 1
                self._dropped += 1
                return
            self._append(event, time())

    def accept_anonymous(self, event: AuditEvent) -> None:
        """Record a refusal of a caller whose identity is not known, within its budget.

        Never raises: nothing is served, so the answer needs no proof. What the trail does not take is counted and
        written once it does.
        """
        self.roll()
        if not (self._budget.take() and self._offer(event)):
            self._budget.put_aside(event)

    def roll(self) -> None:
        """Write what a budget's window put aside, once it is over. A timer calls it, so that it is not kept long."""
        for budget in (self._budget, self._callers):
            if budget.is_over:
                self._settle(budget)

    def reopen(self) -> None:
        """Let the sink begin anew under its name, as a rotation of files needs it."""
        self._sink.reopen()
        self._wake.set()

    def close(self, timeout: float) -> int:
        """Accept nothing more, write what was accepted, and return how many events that did not succeed for."""
        self.fell_behind = lambda: None
        self._settle(self._budget)
        self._settle(self._callers)
        with self._changing:
            self._write_aside(time())
            self._room = 0
            self._closed = True
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
            self._give_up.set()
        elif self._thread.ident is None:
            # Whatever failed between opening the sink and starting: nothing else closes it.
            self._sink.close()
        return len(self._queue) + self._in_hand

    @property
    def is_behind(self) -> bool:
        """Whether a writer that nothing is wrong with has more than a quarter of what is not reserved before it."""
        return 4 * len(self._queue) > self._limit - self._reserved and self._problem_now() in ("", _FULL)

    @property
    def state(self) -> TrailState:
        """How the trail is doing."""
        now = time()
        problem = self._problem_now()
        counts = (len(self._queue) + self._in_hand, self._written, self._dropped, self._refused, self._errors)
        oldest = self._oldest
        unsafe_since = self._unsafe_since or (now if oldest is None else oldest[1])
        return TrailState(not problem, problem, *counts, max(0.0, now - unsafe_since))

    def _accept_over_limit(self, event: AuditEvent) -> None:
        """Record it like a stranger's: nothing is served, so the answer needs no proof."""
        self.roll()
        if not (self._callers.take(event) and self._offer(event)):
            self._callers.put_aside(event)

    def _settle(self, budget: RefusalBudget | CallerBudget) -> None:
        for event in budget.settle():
            if not self._offer(event):
                # The counts grow, the number of them does not.
                budget.put_aside(event)

    def _offer(self, event: AuditEvent) -> bool:
        with self._changing:
            return not self._admit(event, time())

    def _problem_now(self) -> str:
        if self._closed or self._problem:
            return "closed" if self._closed else self._problem
        if monotonic() > self._stalls_at:
            return f"a write takes longer than {STALL_SECONDS:.0f} s"
        if len(self._queue) + self._reserved >= self._limit:
            return _FULL
        return "" if self._thread.is_alive() else "the writer is not running"

    def _accept_with_care(self, event: AuditEvent, at: float) -> bool:
        with self._changing:
            problem = self._admit(event, at)
            if not problem:
                return True
            if self._on_error is OnError.ALLOW:
                # The number is used up, so that the hole shows where the event is missing.
                self._seq += 1
                self._dropped += 1
                return False
            self._turn_away(event.kind, event.count)
        raise Refused(Reason.AUDIT_UNAVAILABLE, problem)

    def _admit(self, event: AuditEvent, at: float) -> str:
        """Take the event if that is possible, or return why it is not."""
        # Which policy was in force is all that an event of the trail's own needs to borrow.
        self._policy = (event.policy_rev, event.policy_epoch)
        problem = self._open(at)
        if problem and (self._on_error is OnError.DENY or len(self._queue) + self._reserved >= self._room):
            return problem
        self._append(event, at)
        return ""

    def _open(self, at: float) -> str:
        """Open the queue again if that is possible, or return why it is not."""
        problem = self._problem_now()
        if not problem:
            self._room = self._limit
            self._write_aside(at)
        return problem

    def _turn_away(self, kind: Kind, count: int) -> None:
        self._room = 0
        self._refused += count
        self._aside[kind] += count

    def _append(self, event: AuditEvent, at: float) -> None:
        queued = len(self._queue)
        self._seq += 1
        self._queue.append((self._seq, at, event))
        if queued in _WAKING or queued + queued + self._reserved >= self._limit:
            self._look_at(queued)

    def _look_at(self, queued: int) -> None:
        self._wake.set()
        if queued + queued + self._reserved >= self._limit:
            oldest = self._oldest
            # Once while the writer takes nothing: beside a disk that stands still, a pause helps no caller.
            if oldest is not None and oldest[0] != self._behind_since:
                self._behind_since = oldest[0]
                self.fell_behind()

    @property
    def _oldest(self) -> Accepted | None:
        try:
            return self._queue[0]
        except IndexError:
            return None  # The writer may have taken it just now.

    def _write_aside(self, at: float) -> None:
        """Leave one event per kind for the requests that were turned away because of the trail itself."""
        for kind, count in self._aside.items():
            self._append(turned_away(kind, count, self._policy), at)
        self._aside.clear()

    # -- the writer's thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._write_until_closed()
        except Exception as fault:  # noqa: BLE001 - the supervisor of this thread
            # A fault of ours or of the sink's must not end in requests that go unrecorded.
            self._fail(f"the writer ended: {type(fault).__name__}")
            _log.exception("audit writer ended")

    def _write_until_closed(self) -> None:
        flushed_at = monotonic()
        while True:
            closing = self._closing.is_set()
            if not closing:
                if not self._queue:
                    self._wake.wait(FLUSH_SECONDS if self._unsafe_since else self._sink.rest)
                    self._wake.clear()
                if len(self._queue) < GATHERED_EVENTS and self._queue and not self._closing.is_set():
                    self._wake.wait(BATCH_SECONDS)
                    self._wake.clear()
            while self._queue:
                if not self._write_batch():
                    return
                if not closing and len(self._queue) < GATHERED_EVENTS:
                    break  # Each batch takes the interpreter from the event loop some ten times.
            rest = self._sink.rest
            due = rest is not None and rest <= 0
            if due or (self._unsafe_since and (closing or monotonic() - flushed_at >= FLUSH_SECONDS)):
                # A slow fdatasync has lost nothing: the lines are written, and the queue bounds what comes meanwhile.
                if not self._until_it_works(self._sink.flush, stalls_after=inf):
                    return
                flushed_at = monotonic()
                self._unsafe_since = 0.0
            if closing:
                self._until_it_works(self._sink.close, stalls_after=inf)
                return

    def _write_batch(self) -> bool:
        queue = self._queue
        batch = [queue.popleft() for _ in range(min(len(queue), BATCH_EVENTS))]
        count = self._in_hand = len(batch)
        self._unsafe_since = self._unsafe_since or batch[0][1]
        lines = self._encoder.encode(batch)
        # The events, not the lines, hold on to the objects of their requests.
        batch.clear()
        if not self._until_it_works(lambda: self._sink.write(lines, count), stalls_after=STALL_SECONDS):
            return False
        self._in_hand = 0
        self._written += count
        return True

    def _until_it_works(self, action: Callable[[], None], *, stalls_after: float) -> bool:
        """Repeat an action of the sink until it succeeds; False if closing came first."""
        pause = FIRST_RETRY_SECONDS
        while True:
            self._stalled_after, self._stalls_at = time() + stalls_after, monotonic() + stalls_after
            try:
                action()
            except OSError as error:
                self._errors += 1
                self._fail(f"{error.strerror or type(error).__name__}")
                _log.error("audit write failed", error=error.strerror, errno=error.errno, retry_in=pause)
            else:
                self._recover()
                return True
            finally:
                self._stalled_after = self._stalls_at = inf
            if self._closing.wait(pause):
                # The little time that closing leaves is used.
                pause = FIRST_RETRY_SECONDS
                if self._give_up.wait(pause):
                    return False
            pause = min(2 * pause, LAST_RETRY_SECONDS)

    def _fail(self, problem: str) -> None:
        with self._changing:
            self._problem = problem
            if self._on_error is OnError.DENY:
                self._room = 0

    def _recover(self) -> None:
        if self._problem:
            with self._changing:
                # The next `accept` opens the queue again, behind the event for those that were turned away.
                self._problem = ""
            _log.info("audit writes succeed again")
