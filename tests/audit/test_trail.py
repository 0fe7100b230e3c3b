"""What the trail promises: nothing accepted is lost, nothing lost is served, and the event loop never waits."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep, time
from typing import NoReturn

import pytest

from signproxy.audit import trail as trail_module
from signproxy.audit import writer as writer_module
from signproxy.audit.budget import RefusalBudget
from signproxy.audit.event import AuditEvent, Kind, Verdict, to_the_second
from signproxy.audit.sink import FileSink, StdoutSink
from signproxy.audit.trail import AuditTrail
from signproxy.audit.trail_state import OnError
from signproxy.audit.writer import BATCH_EVENTS
from signproxy.errors import Reason, Refused
from tests.audit.events import an_event, decoded, refusal
from tests.audit.sinks import MemorySink, file_size_limit
from tests.waiting import blocked_until

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe a broken sink every few milliseconds; how long the pauses are is no part of the promise."""
    monkeypatch.setattr(writer_module, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(writer_module, "LAST_RETRY_SECONDS", 0.02)


@pytest.fixture
def memory() -> Iterator[MemorySink]:
    sink = MemorySink()
    yield sink
    sink.failure = None
    sink.gate.set()


Start = Callable[..., AuditTrail]


@pytest.fixture
def start(memory: MemorySink) -> Iterator[Start]:
    """Start trails that end with the test."""
    started: list[AuditTrail] = []

    def begin(
        on_error: OnError = OnError.DENY, limit: int = 1000, sink: MemorySink | FileSink | StdoutSink | None = None
    ) -> AuditTrail:
        trail = AuditTrail(sink or memory, on_error=on_error, limit=limit)
        trail.start()
        started.append(trail)
        return trail

    yield begin
    memory.failure = None
    memory.gate.set()
    for trail in started:
        trail.close(5)


def events_in(sink: MemorySink) -> list[AuditEvent]:
    return decoded(b"".join(sink.lines))


# -- writing -----------------------------------------------------------------------------------------------------------


def test_accepted_events_are_written_in_order_and_numbered_without_holes(start: Start, memory: MemorySink) -> None:
    """The pipeline takes a hole in `seq` for a lost event, and a repeated number for tampering."""
    trail = start()
    sent = [an_event() for _ in range(700)]
    before = time()
    assert all(trail.accept(event) for event in sent)
    assert trail.close(10) == 0
    written = events_in(memory)
    assert [event.event_id for event in written] == [event.event_id for event in sent]
    assert [event.seq for event in written] == list(range(1, 701))
    assert {event.boot_id for event in written} == {trail.boot_id}
    assert written[0].ts >= to_the_second(int(before))
    assert [event.ts for event in written] == sorted(event.ts for event in written)
    assert (memory.closed, memory.flushes > 0) == (True, True)
    assert trail.state.written == 700


def test_a_single_event_does_not_wait_for_others(start: Start, memory: MemorySink) -> None:
    """An operator who looks at the trail of a quiet sidecar wants to see the last request."""
    trail = start()
    trail.accept(an_event())
    blocked_until(lambda: memory.lines)
    trail.accept(an_event())
    blocked_until(lambda: len(memory.lines) == 2)
    assert trail.state.healthy


def test_a_burst_is_written_in_batches(start: Start, memory: MemorySink) -> None:
    """One system call per event would cost more than signing does."""
    trail = start(limit=3 * BATCH_EVENTS)
    memory.gate.clear()
    for _ in range(3 * BATCH_EVENTS):
        trail.accept(an_event())
    memory.gate.set()
    blocked_until(lambda: len(memory.lines) == 3 * BATCH_EVENTS)
    assert max(memory.writes) <= BATCH_EVENTS
    assert len(memory.writes) <= 5


class TakesItsTime(MemorySink):
    """A sink whose writes take as long as a writer waits for its turns beside a busy event loop."""

    def write(self, batch: bytes, count: int) -> None:
        sleep(0.04)
        super().write(batch, count)


def test_a_writer_that_has_to_wait_for_its_turns_keeps_up(start: Start) -> None:
    """At 16,000 requests a second, up to a quarter was refused for the trail of a server that was merely busy."""
    sink = TakesItsTime()
    trail = start(sink=sink, limit=5_000)
    began = monotonic()
    sent = 0
    while (passed := monotonic() - began) < 1.2:
        while sent < 16_000 * passed:
            assert trail.accept(an_event())
            sent += 1
        sleep(0.002)
    assert trail.close(10) == 0
    assert [event.seq for event in events_in(sink)] == list(range(1, sent + 1))
    assert max(sink.writes) <= BATCH_EVENTS


def test_events_that_wait_are_written_though_no_more_come(start: Start) -> None:
    """What came while a batch was written, and was no batch of its own, would wait for the next request."""
    sink = TakesItsTime()
    trail = start(sink=sink)
    for _ in range(3):
        trail.accept(an_event())
        sleep(0.06)
    blocked_until(lambda: len(sink.lines) == 3)
    assert trail.state.queued == 0


def test_it_is_told_when_half_of_the_queue_is_full(start: Start, memory: MemorySink) -> None:
    """The server would go on to read what it then has to refuse."""
    trail = start(limit=20)
    told: list[int] = []
    trail.fell_behind = lambda: told.append(len(trail._queue))
    fill(trail, memory, 10)
    assert (told, trail.is_behind) == ([], True)
    trail.accept(an_event())
    assert told == [11]
    trail.reserve(Kind.FORWARD, ("r", 1))
    trail.fulfil(an_event())
    assert all(trail.accept(an_event()) for _ in range(8))
    assert (told, trail.state.problem, trail.is_behind) == ([11], "the queue is full", True)
    memory.gate.set()
    blocked_until(lambda: not trail.is_behind)
    memory.gate.clear()
    blocked_until(lambda: trail.accept(an_event()) and len(told) == 2)


def test_it_is_told_before_the_queue_is_full_beside_places_that_are_kept(start: Start, memory: MemorySink) -> None:
    """With half of the places kept for transfers, requests were refused for a trail that was merely busy."""
    trail = start(limit=20)
    told: list[int] = []
    trail.fell_behind = lambda: told.append(len(trail._queue))
    assert all(trail.reserve_at_once() for _ in range(11))
    fill(trail, memory, 5)
    assert (told, trail.is_behind) == ([], True)
    trail.accept(an_event())
    assert told == [6]
    assert all(trail.accept(an_event()) for _ in range(3))
    with pytest.raises(Refused, match="the queue is full"):
        trail.accept(an_event())
    assert told == [6]
    for _ in range(11):
        trail.fulfil(an_event())
    memory.gate.set()
    blocked_until(lambda: not trail.is_behind)
    assert trail._reserved == 0


def test_it_is_told_where_places_that_are_kept_leave_too_few(start: Start, memory: MemorySink) -> None:
    """The queue does not grow, and has no room all the same: the next request would be refused."""
    trail = start(limit=20)
    told: list[int] = []
    trail.fell_behind = lambda: told.append(trail._reserved)
    fill(trail, memory, 5)
    assert all(trail.reserve_at_once() for _ in range(10))
    assert (told, trail.is_behind) == ([], True)
    assert all(trail.reserve_at_once() for _ in range(5))
    assert told == [11]
    assert not trail.reserve_at_once()
    for _ in range(15):
        trail.give_back()
    assert not trail.is_behind


def test_it_is_told_again_once_something_was_written(start: Start, memory: MemorySink) -> None:
    """A slow disk that goes on would be overrun after the first pause; beside one that stands still none helps."""
    trail = start(limit=20)
    told: list[int] = []
    trail.fell_behind = lambda: told.append(len(trail._queue))
    fill(trail, memory, 20)
    assert told == [11]
    memory.gate.set()
    blocked_until(lambda: not trail._queue and not trail._writer.in_hand)
    fill(trail, memory, 20)
    assert told == [11, 11]


def test_another_thread_closes_it_while_half_of_the_queue_is_full(start: Start, memory: MemorySink) -> None:
    """What a budget put aside fills the other half; told of it, the event loop's side failed and nothing was closed."""
    trail = start(limit=20)
    fill(trail, memory, 10)

    def tell() -> NoReturn:
        raise RuntimeError("no running event loop")

    trail.fell_behind = tell
    for reason in ("token_missing", "token_expired"):
        trail._budget.put_aside(refusal(reason))
    threading.Timer(0.1, memory.gate.set).start()
    assert trail.close(5) == 0
    assert len(events_in(memory)) == 13


def test_a_trail_that_does_not_write_is_not_behind(
    start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests would wait for a disk that is full, instead of being refused at once."""
    monkeypatch.setattr(writer_module, "STALL_SECONDS", 0.2)
    trail = start(limit=20)
    fill(trail, memory, 11)
    was = [trail.is_behind]
    sleep(0.25)
    was.append(trail.is_behind)
    memory.failure = FULL
    memory.gate.set()
    blocked_until(lambda: trail.state.errors)
    was.append(trail.is_behind)
    memory.failure = None
    trail.close(5)
    assert [*was, trail.is_behind] == [True, False, False, False]


def test_what_was_written_is_flushed_soon(start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without further requests the last events of a machine that loses power must be on its disk."""
    monkeypatch.setattr(writer_module, "FLUSH_SECONDS", 0.05)
    trail = start()
    trail.accept(an_event())
    blocked_until(lambda: memory.flushes)


def test_each_boot_has_a_number_line_of_its_own(memory: MemorySink) -> None:
    """Two processes, or two lives of one, must not look like repetitions of each other."""
    boots = {AuditTrail(memory).boot_id for _ in range(3)}
    assert len(boots) == 3


def test_closing_says_how_many_events_could_not_be_written(start: Start, memory: MemorySink) -> None:
    """A shutdown with a full disk must not look like a clean one."""
    trail = start()
    memory.failure = FULL
    for _ in range(5):
        trail.accept(an_event())
    assert trail.close(0.1) == 5


def test_closing_uses_its_time_to_repair(start: Start, memory: MemorySink) -> None:
    """A disk that is freed during the drain still gets what was accepted."""
    trail = start()
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: trail.state.errors > 0)
    threading.Timer(0.1, lambda: setattr(memory, "failure", None)).start()
    assert trail.close(10) == 0
    assert len(memory.lines) == 1


@pytest.mark.parametrize("on_error", OnError)
def test_a_closed_trail_takes_nothing(start: Start, memory: MemorySink, on_error: OnError) -> None:
    """A request that outlives the trail would be served without evidence, or counted as recorded."""
    trail = start(on_error)
    trail.close(5)
    assert trail.state.problem == "closed"
    if on_error is OnError.DENY:
        with pytest.raises(Refused):
            trail.accept(an_event())
    else:
        assert trail.accept(an_event()) is False
        assert trail.state.dropped == 1
    assert memory.lines == []


def test_a_trail_that_was_not_started_takes_nothing(memory: MemorySink) -> None:
    """Forgotten wiring must refuse every request instead of recording none."""
    trail = AuditTrail(memory)
    with pytest.raises(Refused) as caught:
        trail.accept(an_event())
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
    assert trail.state.problem == "not started"
    trail.close(1)
    assert memory.closed


# -- on_error: deny ----------------------------------------------------------------------------------------------------


def test_after_a_failed_write_nothing_is_accepted_until_one_succeeds(start: Start, memory: MemorySink) -> None:
    """Serving while nothing can be recorded is what `deny` promises not to do."""
    trail = start()
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: trail.state.errors >= 3)
    assert trail.state.problem == "No space left on device"
    assert not trail.state.healthy
    for _ in range(4):
        with pytest.raises(Refused) as caught:
            trail.accept(an_event())
        assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
        assert caught.value.detail == "No space left on device"
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    assert trail.accept(an_event())
    trail.close(5)
    assert trail.state.refused == 4
    assert trail.state.dropped == 0


def test_a_failed_batch_is_not_lost(start: Start, memory: MemorySink) -> None:
    """Its requests were served: their events must be there once, in order, when the disk is free again."""
    trail = start()
    memory.gate.clear()
    sent = [an_event() for _ in range(300)]
    for event in sent:
        trail.accept(event)
    memory.failure = FULL
    memory.gate.set()
    blocked_until(lambda: trail.state.errors >= 2)
    memory.failure = None
    trail.close(10)
    assert [event.event_id for event in events_in(memory)] == [event.event_id for event in sent]
    assert [event.seq for event in events_in(memory)] == list(range(1, 301))


def test_requests_that_were_turned_away_leave_one_event_per_kind(start: Start, memory: MemorySink) -> None:
    """Their own events could not be written; how many there were must not be lost as well."""
    trail = start()
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    for kind in (Kind.SIGN, Kind.SIGN, Kind.CONFIG):
        with pytest.raises(Refused):
            trail.accept(an_event(kind=kind))
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    trail.accept(an_event())
    trail.close(5)
    _, *aside, last = events_in(memory)
    assert {(event.kind, event.count) for event in aside} == {(Kind.SIGN, 2), (Kind.CONFIG, 1)}
    assert {(event.reason, event.decision, event.policy_rev) for event in aside} == {
        ("audit_unavailable", Verdict.ERROR, "5f2c")
    }
    assert [event.seq for event in events_in(memory)] == [1, 2, 3, 4]
    assert last.count == 1


def test_requests_that_were_turned_away_are_counted_at_closing_too(start: Start, memory: MemorySink) -> None:
    """No request may come after the repair to bring the count along."""
    trail = start(limit=2)
    fill(trail, memory, 2)
    with pytest.raises(Refused):
        trail.accept(an_event())
    memory.gate.set()
    trail.close(5)
    assert events_in(memory)[-1].reason == "audit_unavailable"
    assert trail.state.queued == 0


def fill(trail: AuditTrail, memory: MemorySink, limit: int) -> None:
    """Block the writer with one event in its hands, and accept as many as the queue holds."""
    memory.gate.clear()
    assert trail.accept(an_event())
    blocked_until(lambda: trail._writer.in_hand == 1)
    assert all(trail.accept(an_event()) for _ in range(limit))


def test_a_full_queue_refuses_and_opens_again(start: Start, memory: MemorySink) -> None:
    """A slow disk must slow the callers down, not fill the memory; nor may it refuse what the operator allowed."""
    trail = start(limit=10)
    fill(trail, memory, 10)
    assert trail.state.problem == "the queue is full"
    with pytest.raises(Refused):
        trail.accept(an_event())
    with pytest.raises(Refused) as caught:
        trail.accept(an_event())
    assert (caught.value.reason, caught.value.detail) == (Reason.AUDIT_UNAVAILABLE, "the queue is full")
    memory.gate.set()
    blocked_until(lambda: trail.state.healthy)
    assert trail.accept(an_event())
    trail.close(5)
    assert [event.count for event in events_in(memory)] == [1] * 11 + [2, 1]


def test_a_write_that_never_returns_is_a_problem(
    start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that is not read fails no write: without a limit in time a whole queue would be served unrecorded."""
    monkeypatch.setattr(writer_module, "STALL_SECONDS", 0.05)
    trail = start()
    memory.gate.clear()
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    assert "takes longer" in trail.state.problem
    with pytest.raises(Refused):
        trail.accept(an_event())
    memory.gate.set()
    blocked_until(lambda: trail.state.healthy)
    assert trail.accept(an_event())


def test_a_clock_that_is_put_forward_makes_no_write_late(
    start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests would be refused because the machine's clock was corrected while a line was written."""
    trail = start()
    memory.gate.clear()
    trail.accept(an_event())
    blocked_until(lambda: trail._writer.stalled_after < float("inf"))
    monkeypatch.setattr(trail_module, "time", lambda: time() + 7_200)
    assert trail.accept(an_event())
    assert trail.reserve(Kind.FORWARD, ("r1", 1))
    trail.fulfil(an_event())
    assert trail.state.healthy
    memory.gate.set()
    blocked_until(lambda: trail.state.written == 3)
    assert trail.state.refused == 0


class SlowToFlush(MemorySink):
    """A sink on a disk that is busy with another process's pages."""

    def __init__(self) -> None:
        super().__init__()
        self.flushing = threading.Event()
        self.done = threading.Event()

    def flush(self) -> None:
        self.flushing.set()
        assert self.done.wait(10)


def test_a_slow_flush_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that fills the disk's cache must not stop every engine; the queue bounds what it costs."""
    monkeypatch.setattr(writer_module, "STALL_SECONDS", 0.02)
    monkeypatch.setattr(writer_module, "FLUSH_SECONDS", 0.0)
    sink = SlowToFlush()
    trail = AuditTrail(sink, limit=100)
    trail.start()
    trail.accept(an_event())
    assert sink.flushing.wait(10)
    sleep(0.06)
    assert trail.state.healthy
    assert all(trail.accept(an_event()) for _ in range(100))
    with pytest.raises(Refused, match="the queue is full"):
        trail.accept(an_event())
    sink.done.set()
    trail.close(5)
    assert len(events_in(sink)) == 102


class FullOnFlush(MemorySink):
    """A sink that takes everything and keeps nothing while `full`."""

    full = True

    def flush(self) -> None:
        if self.full:
            raise FULL


def test_a_flush_that_fails_is_a_problem(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some disks report that they are full only when asked to keep what they took."""
    monkeypatch.setattr(writer_module, "FLUSH_SECONDS", 0.05)
    sink = FullOnFlush()
    trail = start(sink=sink)
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    with pytest.raises(Refused):
        trail.accept(an_event())
    sink.full = False
    blocked_until(lambda: trail.state.healthy)
    assert trail.accept(an_event())


class FaultySink(MemorySink):
    """A sink with a fault of its own."""

    def write(self, batch: bytes, count: int) -> NoReturn:
        raise LookupError(f"{count} events in {len(batch)} bytes")


def test_a_writer_that_ended_refuses_for_good(start: Start) -> None:
    """A fault in a sink must not end in requests that are not recorded."""
    trail = start(sink=FaultySink())
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    assert "LookupError" in trail.state.problem
    with pytest.raises(Refused):
        trail.accept(an_event())
    # The event, and the one that counts the request that was turned away.
    assert trail.close(1) == 2


def test_a_forked_child_cannot_use_its_parents_trail(start: Start) -> None:
    """The thread does not survive the fork: what a child accepts would never be written."""
    trail = start()
    child = os.fork()
    if child == 0:
        os._exit(0 if trail.state.problem == "the writer is not running" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert trail.state.healthy


def test_closing_does_not_wait_for_a_disk_that_stays_full(start: Start) -> None:
    """The orchestrator kills what does not end in time, and then nothing at all is orderly."""
    trail = start(sink=FullOnFlush())
    trail.accept(an_event())
    blocked_until(lambda: trail.state.written == 1)
    assert trail.close(0.05) == 0
    blocked_until(lambda: not trail._writer._thread.is_alive())
    assert trail.state.errors > 0


def test_a_rotation_reaches_the_sink(start: Start, memory: MemorySink) -> None:
    """SIGHUP after a rename is how log files are rotated everywhere."""
    start().reopen()
    assert memory.reopened == 1


# -- on_error: allow ---------------------------------------------------------------------------------------------------


def test_allow_keeps_serving_and_shows_the_hole(start: Start, memory: MemorySink) -> None:
    """An operator who chose availability must still be told what is missing, and where."""
    trail = start(OnError.ALLOW, limit=10)
    memory.failure = FULL
    taken = [trail.accept(an_event()) for _ in range(300)]
    dropped = taken.count(False)
    assert dropped > 0
    assert trail.state.dropped == dropped
    assert not trail.state.healthy
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    assert trail.accept(an_event())
    trail.close(5)
    numbers = [event.seq for event in events_in(memory)]
    assert numbers == [seq for seq, was_taken in enumerate([*taken, True], 1) if was_taken]
    assert trail.state.refused == 0


def test_allow_goes_on_taking_while_writes_fail(start: Start, memory: MemorySink) -> None:
    """The queue is there to be used: a short fault need not cost a single event."""
    trail = start(OnError.ALLOW)
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    assert all(trail.accept(an_event()) for _ in range(50))
    memory.failure = None
    trail.close(5)
    assert [event.seq for event in events_in(memory)] == list(range(1, 52))


def test_allow_serves_through_a_stuck_write(start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stuck pipe is a reason for `allow`, not against it."""
    monkeypatch.setattr(writer_module, "STALL_SECONDS", 0.02)
    trail = start(OnError.ALLOW, limit=20)
    memory.gate.clear()
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    taken = [trail.accept(an_event()) for _ in range(30)]
    assert (taken.count(True), taken.count(False)) == (20, 10)


# -- refusals without an identity --------------------------------------------------------------------------------------


def test_an_anonymous_flood_is_a_handful_of_events(memory: MemorySink) -> None:
    """Any client can send requests without a token: these must fill neither the queue nor the disk."""
    trail = AuditTrail(memory, limit=50, budget=RefusalBudget(events=5, window=3600))
    trail.start()
    for _ in range(10_000):
        trail.accept_anonymous(refusal())
    for _ in range(500):
        trail.accept_anonymous(refusal("token_expired"))
    assert trail.accept(an_event())
    assert trail.close(5) == 0
    events = events_in(memory)
    assert len(events) == 5 + 1 + 2
    assert sum(event.count for event in events if event.reason == "token_missing") == 10_000
    assert sum(event.count for event in events if event.reason == "token_expired") == 500


def _too_much(principal: str = "idp/alice") -> AuditEvent:
    return an_event(principal=principal, decision=Verdict.DENY, reason=Reason.RATE_LIMITED.code, http_status=429)


def test_a_callers_flood_is_a_handful_of_events(start: Start, memory: MemorySink) -> None:
    """A job that runs wild must not fill the disk; whose it was, and how many requests, must stay known."""
    trail = start(limit=100)
    for _ in range(10_000):
        assert trail.accept(_too_much())
    assert trail.accept(_too_much("idp/bob"))
    # Every other refusal is evidence of its own.
    for _ in range(20):
        assert trail.accept(an_event(decision=Verdict.DENY, reason=Reason.OUTSIDE_TABLE.code, http_status=403))
    assert trail.close(5.0) == 0
    events = events_in(memory)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    counted = [(event.principal, event.count) for event in events if event.reason == "rate_limited"]
    assert counted == [("idp/alice", 1)] * 5 + [("idp/bob", 1), ("idp/alice", 9_995)]
    assert sum(event.reason == "outside_table" for event in events) == 20


def test_a_refusal_for_too_much_never_fails(start: Start, memory: MemorySink) -> None:
    """Nothing is served, so nothing needs proof; and a flood on a full disk must not look like another trouble."""
    trail = start()
    memory.failure = FULL
    assert trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    for _ in range(50):
        assert trail.accept(_too_much())
    assert trail.state.refused == 0
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    assert trail.close(5.0) == 0
    assert sum(event.count for event in events_in(memory) if event.reason == "rate_limited") == 50


def test_counts_of_callers_are_written_when_their_window_ends(
    start: Start, memory: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood that stopped would be told of at the end of the process, days later."""
    monkeypatch.setattr(trail_module, "EVENTS_PER_CALLER", 1)
    trail = start()
    for _ in range(3):
        trail.accept(_too_much())
    trail.roll()
    blocked_until(lambda: len(events_in(memory)) == 1)
    trail._callers._ends = 0.0
    trail.roll()
    blocked_until(lambda: len(events_in(memory)) == 2)
    assert events_in(memory)[1].count == 2


def test_an_anonymous_refusal_never_fails(start: Start, memory: MemorySink) -> None:
    """Nothing is served, so 401 stays the answer; what the trail cannot take now is counted and written later."""
    trail = start()
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    for _ in range(3):
        trail.accept_anonymous(refusal())
    assert trail.state.refused == 0
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    trail.close(5)
    assert sum(event.count for event in events_in(memory) if event.reason == "token_missing") == 3


def test_counts_that_cannot_be_written_are_kept(memory: MemorySink) -> None:
    """A window that ends while the disk is full must not forget its refusals."""
    now = [0.0]
    trail = AuditTrail(memory, budget=RefusalBudget(events=0, window=60, clock=lambda: now[0]))
    trail.accept_anonymous(refusal())
    now[0] = 60
    trail.roll()
    trail.accept_anonymous(refusal())
    trail.start()
    now[0] = 120
    trail.roll()
    trail.close(5)
    (event,) = events_in(memory)
    assert (event.reason, event.count) == ("token_missing", 2)


# -- real faults -------------------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_trail_and_tears_nothing(start: Start, tmp_path: Path) -> None:
    """Events that span the end of the disk must be whole, single and in order once there is room."""
    path = tmp_path / "audit.ndjson"
    trail = start(sink=FileSink(path))
    for _ in range(10):
        trail.accept(an_event())
    blocked_until(lambda: trail.state.written == 10)
    with file_size_limit(path.stat().st_size + 1000):
        for _ in range(40):
            trail.accept(an_event())
        blocked_until(lambda: trail.state.errors >= 3)
        assert trail.state.problem == "File too large"
        decoded(path.read_bytes())
    blocked_until(lambda: trail.state.healthy)
    assert trail.close(10) == 0
    assert [event.seq for event in decoded(path.read_bytes())] == list(range(1, 51))


def test_a_blocked_pipe_never_blocks_the_caller(start: Start) -> None:
    """A pipe of `kubectl logs` that is not read must not stop the event loop, and so every request of the pod."""
    reading, writing = os.pipe()
    trail = start(sink=StdoutSink(writing), limit=300)
    accepted: list[bool] = []
    with pytest.raises(Refused) as caught:
        accepted.extend(trail.accept(an_event()) for _ in range(20_000))
    # It came back, with a refusal and not with the time-out of this test.
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
    assert 300 <= len(accepted) < 20_000
    arrived = bytearray()

    def read() -> None:
        while chunk := os.read(reading, 65_536):
            arrived.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    blocked_until(lambda: trail.state.queued == 0)
    assert trail.close(10) == 0
    os.close(writing)
    reader.join(10)
    os.close(reading)
    events = decoded(bytes(arrived))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len([event for event in events if event.reason == "allowed"]) == len(accepted)


KILLED = """
import sys
from pathlib import Path
from signproxy.audit.sink import FileSink
from signproxy.audit.trail import AuditTrail
from tests.audit.events import an_event
trail = AuditTrail(FileSink(Path(sys.argv[1])), limit=100_000)
trail.start()
print("ready", flush=True)
for _ in range(40_000):
    trail.accept(an_event())
"""


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    """What is on the disk after the kernel killed the pod must be readable to its last line."""
    path = tmp_path / "audit.ndjson"
    repository = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=repository) as process:
        try:
            blocked_until(lambda: path.exists() and path.stat().st_size > 100_000)
        finally:
            process.kill()
    sink = FileSink(path)
    sink.write(b"", 0)
    sink.close()
    events = decoded(path.read_bytes())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len(events) > 100


# -- places that are kept ----------------------------------------------------------------------------------------------

POLICY = ("5f2c", 1)


def taken(give: Callable[[], bool]) -> bool:
    """Whether the trail takes it, or turns it away."""
    try:
        return give()
    except Refused:
        return False


def test_what_has_a_place_is_written_though_others_are_turned_away(start: Start, memory: MemorySink) -> None:
    """What was streamed cannot be taken back, so its event must not depend on what comes meanwhile."""
    trail = start(limit=3)
    memory.gate.clear()
    assert trail.reserve(Kind.FORWARD, POLICY)
    trail.accept(an_event())
    filled = 0
    while taken(lambda: trail.accept(an_event())):
        filled += 1
    # The place of the one is not there for others, though it is still empty.
    assert filled <= 2
    with pytest.raises(Refused) as caught:
        trail.reserve(Kind.FORWARD, POLICY)
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
    trail.fulfil(an_event(event_id="kept"))
    memory.gate.set()
    assert trail.close(10) == 0
    events = events_in(memory)
    assert "kept" in {event.event_id for event in events}
    assert sorted(event.seq for event in events) == list(range(1, len(events) + 1))


def test_places_come_back(start: Start, memory: MemorySink) -> None:
    """A place that is lost with each transfer would end in a trail that takes nothing."""
    trail = start(limit=4)
    kept = 0
    for _ in range(50):
        places = 0
        while taken(lambda: trail.reserve(Kind.FORWARD, POLICY)):
            places += 1
        # The events for those that were turned away take a place until they are written.
        assert places in (2, 3, 4)
        with pytest.raises(Refused):
            trail.accept(an_event())
        for _ in range(places):
            trail.fulfil(an_event())
        kept += places
        blocked_until(lambda: not trail.state.queued)
    assert trail.accept(an_event())
    assert trail.close(10) == 0
    events = events_in(memory)
    assert sum(event.count for event in events if event.reason == "audit_unavailable") == 100
    assert len([event for event in events if event.reason == "allowed"]) == kept + 1


def test_no_place_is_kept_while_nothing_can_be_written(start: Start, memory: MemorySink) -> None:
    """Gigabytes would be served before an operator notices that nothing proves it."""
    trail = start()
    assert trail.reserve(Kind.FORWARD, POLICY)
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    with pytest.raises(Refused) as caught:
        trail.reserve(Kind.FORWARD, POLICY)
    assert caught.value.detail == "No space left on device"
    # What has its place keeps it.
    trail.fulfil(an_event(event_id="kept"))
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    assert trail.reserve(Kind.FORWARD, POLICY)
    trail.fulfil(an_event(event_id="later"))
    assert trail.close(10) == 0
    told = {event.event_id: event for event in events_in(memory)}
    assert {"kept", "later"} <= set(told)
    (turned_away,) = [event for event in told.values() if event.reason == "audit_unavailable"]
    assert (turned_away.kind, turned_away.count, turned_away.policy_rev) == (Kind.FORWARD, 1, "5f2c")


def test_where_errors_are_allowed_a_request_is_served_without_a_place(start: Start, memory: MemorySink) -> None:
    """That is what `on_error: allow` says; but while there is room, the event has its place."""
    trail = start(OnError.ALLOW, limit=2)
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    assert trail.reserve(Kind.FORWARD, POLICY)
    assert trail.reserve(Kind.FORWARD, POLICY)
    assert not trail.reserve(Kind.FORWARD, POLICY)
    assert trail.accept(an_event()) is False
    trail.fulfil(an_event())
    trail.fulfil(an_event())
    memory.failure = None
    assert trail.close(10) == 0
    assert len(memory.lines) == 3


def test_a_request_that_outlives_the_trail_leaves_a_hole(start: Start, memory: MemorySink) -> None:
    """A transfer that ends after the drain must show as missing, and must not raise into the answer."""
    trail = start()
    assert trail.reserve(Kind.FORWARD, POLICY)
    trail.close(5)
    trail.fulfil(an_event())
    assert trail.state.dropped == 1
    assert memory.lines == []


def test_a_place_that_is_not_used_is_given_back(start: Start, memory: MemorySink) -> None:
    """Requests that begin anew would use up the trail without an event."""
    trail = start(limit=3)
    for _ in range(10):
        assert trail.reserve_at_once()
        assert trail.reserve_at_once()
        trail.give_back()
        trail.give_back()
    for _ in range(3):
        assert trail.reserve_at_once()
    assert not trail.reserve_at_once()
    for _ in range(3):
        trail.give_back()
    # No request was turned away: it was only asked whether there is a place.
    assert trail.state.refused == 0
    assert trail.reserve(Kind.FORWARD, POLICY)
    trail.fulfil(an_event())
    memory.failure = FULL
    trail.accept(an_event())
    blocked_until(lambda: not trail.state.healthy)
    memory.failure = None
    blocked_until(lambda: trail.state.healthy)
    assert trail.close(10) == 0
