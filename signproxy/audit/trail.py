"""Take events from the event loop: decide which are recorded, and which requests are not served for want of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from time import time

from signproxy.audit.budget import CALLERS_PER_WINDOW, EVENTS_PER_CALLER, OVER_LIMIT, RefusalBudget
from signproxy.audit.encode import LineEncoder
from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_boot_id
from signproxy.audit.sink import AuditSink
from signproxy.audit.trail_state import OnError, TrailState, turned_away
from signproxy.audit.writer import GATHERED_EVENTS, STALL_SECONDS, TrailWriter
from signproxy.errors import Reason, Refused

QUEUE_LIMIT = 16_384
"""Events that wait for the writer: most of a second of the most that one process serves, and at worst 30 MB."""

_FULL = "the queue is full"
_WAKING = (0, GATHERED_EVENTS - 1)
"""Lengths of the queue at which an arrival is worth a look, besides all from half of its limit on."""

# Looking a member up in its class calls Python code; `accept` is called for every request.
_ALLOW = Verdict.ALLOW


class AuditTrail:
    """The one place that events go to. `accept` is called from one thread, the event loop's, and never blocks.

    Start it after forking: a thread does not survive a fork.
    """

    def __init__(
        self,
        sink: AuditSink,
        *,
        on_error: OnError = OnError.DENY,
        limit: int = QUEUE_LIMIT,
        budget: RefusalBudget | None = None,
    ) -> None:
        self.boot_id = new_boot_id()
        self._writer = TrailWriter(sink, self._told)
        self._line = LineEncoder(self.boot_id).line
        self._queue = self._writer.queue
        self._budget = budget or RefusalBudget()
        self._callers = RefusalBudget(EVENTS_PER_CALLER, callers=CALLERS_PER_WINDOW)
        self._on_error = on_error
        self._limit = limit
        self._reserved = 0
        self.fell_behind: Callable[[], None] = lambda: None
        """Called when half of what is not reserved is full, and again once the writer took some; never by `close`."""
        # How long the queue may get: the limit, or 0 while nothing may be accepted. One comparison for both.
        self._room = 0
        self._seq = 0
        self._behind_at = -1
        self._dropped = self._refused = 0
        self._problem = "not started"
        self._aside: Counter[Kind] = Counter()
        self._policy = ("", 0)
        self._changing = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Begin to write, and to accept."""
        self._problem = ""
        self._room = self._limit
        self._writer.start()

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
        if used >= room or at > self._writer.stalled_after:
            return self._accept_with_care(event, at)
        self._seq += 1
        self._queue.append(self._line(self._seq, at, event))
        if queued in _WAKING or used + queued >= room:
            self._look_at(queued, at)
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
            if used >= room or time() > self._writer.stalled_after:
                return False
            # A place that is kept is one that no other event can have.
            self._reserved += 1
        if used + queued >= room:
            self._look_at(queued, time())
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
        if not (self._budget.take(event) and self._offer(event)):
            self._budget.put_aside(event)

    def roll(self) -> None:
        """Write what a budget's window put aside, once it is over. A timer calls it, so that it is not kept long."""
        for budget in (self._budget, self._callers):
            if budget.is_over:
                self._settle(budget)

    def reopen(self) -> None:
        """Let the sink begin anew under its name, as a rotation of files needs it."""
        self._writer.reopen()

    def close(self, timeout: float) -> int:
        """Accept nothing more, write what was accepted, and return how many events that did not succeed for."""
        self.fell_behind = lambda: None
        self._settle(self._budget)
        self._settle(self._callers)
        with self._changing:
            self._write_aside(time())
            self._room = 0
            self._closed = True
        return self._writer.close(timeout)

    @property
    def is_behind(self) -> bool:
        """Whether a writer that nothing is wrong with has more than a quarter of what is not reserved before it."""
        return 4 * len(self._queue) > self._limit - self._reserved and self._problem_now() in ("", _FULL)

    @property
    def state(self) -> TrailState:
        """How the trail is doing."""
        now, problem, writer = time(), self._problem_now(), self._writer
        counts = (writer.waiting, writer.written, self._dropped, self._refused, writer.errors)
        unsafe_since = writer.unsafe_since or (writer.since if self._queue else now)
        return TrailState(not problem, problem, *counts, max(0.0, now - unsafe_since))

    def _accept_over_limit(self, event: AuditEvent) -> None:
        """Record it like a stranger's: nothing is served, so the answer needs no proof."""
        self.roll()
        if not (self._callers.take(event) and self._offer(event)):
            self._callers.put_aside(event)

    def _settle(self, budget: RefusalBudget) -> None:
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
        if self._writer.is_stalled:
            return f"a write takes longer than {STALL_SECONDS:.0f} s"
        if len(self._queue) + self._reserved >= self._limit:
            return _FULL
        return "" if self._writer.is_alive else "the writer is not running"

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
        self._queue.append(self._line(self._seq, at, event))
        if queued in _WAKING or queued + queued + self._reserved >= self._limit:
            self._look_at(queued, at)

    def _look_at(self, queued: int, at: float) -> None:
        """Tell the writer, and those that fill the queue, how many lines it had at a Unix time."""
        writer = self._writer
        if queued == 0:
            writer.since = at
        writer.wake.set()
        # Once while the writer takes nothing: beside a disk that stands still, a pause helps no caller.
        if queued + queued + self._reserved >= self._limit and writer.batches != self._behind_at:
            self._behind_at = writer.batches
            self.fell_behind()

    def _write_aside(self, at: float) -> None:
        """Leave one event per kind for the requests that were turned away because of the trail itself."""
        for kind, count in self._aside.items():
            self._append(turned_away(kind, count, self._policy), at)
        self._aside.clear()

    def _told(self, problem: str) -> None:
        with self._changing:
            # Once it is over the next `accept` opens the queue, behind the event for those that were turned away.
            self._problem = problem
            if problem and self._on_error is OnError.DENY:
                self._room = 0
