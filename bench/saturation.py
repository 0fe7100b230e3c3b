"""Saturate servers that are pinned to no core: nothing is refused, and every answer has its event."""

from __future__ import annotations

import contextlib
import gzip
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from bench import load
from bench.effort import Effort
from bench.figures import Result, result
from bench.forward_scene import stores
from bench.forward_serve import forwarding
from bench.forward_small_load import plain
from bench.serve import deploy

CONNECTIONS = (1, 8, 16, 64, 256)
"""One client that waits, a few that leave the loop a moment to sleep, and crowds."""

_SECONDS = 6
"""Of one load: a writer that falls behind has filled its queue by then."""

_SETTLE_SECONDS = 20.0
"""At most, until the writer has written what it accepted; a second is what it needs."""


class Cell(msgspec.Struct, frozen=True):
    """One way to serve, and what saturates it."""

    name: str
    words: str
    launch: Callable[[int, int], load.Running]
    """Start a load over so many connections, for so many seconds."""
    events: Callable[[], int]
    """Count the events of requests."""


def measure(effort: Effort) -> list[Result]:
    """Saturate each way to serve, one after the other, over few connections and over many."""
    rows: list[Result] = []
    with every_core():
        for open_cell in _CELLS:
            with open_cell() as cell:
                for connections in CONNECTIONS:
                    rows += saturated(cell, connections, effort)
    return rows


def saturated(cell: Cell, connections: int, effort: Effort) -> list[Result]:
    """Return what became of all that was asked over so many connections."""
    before = _settled(cell.events)
    report = load.report_of(cell.launch(connections, min(effort.rounds, _SECONDS)))
    events = _settled(cell.events) - before
    # A load ends with a request under way on each connection, of which wrk does not count the answer.
    unproven = max(0, report.requests - events) + max(0, events - report.requests - connections)
    name, words = (
        f"saturation.{cell.name}_c{connections}",
        f"{cell.words}, {connections} connections, no core of its own",
    )
    refused, rate = report.not_200 + report.broken, report.requests / report.microseconds * 1e6
    return [
        result(f"{name}_refused", [refused], unit="answers", better="lower", must=0, against=words),
        result(f"{name}_without_event", [unproven], unit="answers", better="lower", must=0, against=words),
        result(f"{name}_rate", [rate], unit="1/s", better="higher", against=f"{words}, of this machine"),
    ]


@contextlib.contextmanager
def every_core() -> Iterator[None]:
    """Let what is started within the block run wherever the kernel likes."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _signing(name: str, words: str, *, workers: int = 1, tls: bool = False, sealed: bool = False) -> Iterator[Cell]:
    with deploy(workers=workers, tls=tls, sealed=sealed) as deployment:
        events = partial(_in_segments, deployment.segments) if sealed else partial(lines_of, deployment.audit_file)
        with deployment.serve(core=None) as signer:
            yield Cell(
                name,
                words,
                lambda connections, seconds: load.launch(
                    signer, deployment.directory, connections=connections, seconds=seconds, core=None
                ),
                events,
            )


@contextlib.contextmanager
def _forwarding(name: str, words: str, *, workers: int = 1) -> Iterator[Cell]:
    with contextlib.ExitStack() as stack:
        deployment = stack.enter_context(deploy())
        store = stack.enter_context(stores(deployment.directory, core=None))
        served = stack.enter_context(forwarding(store, core=None, workers=workers))
        asking = plain(served.proxy, deployment.directory)
        yield Cell(
            name,
            words,
            lambda connections, seconds: asking.launch(
                deployment.directory, connections=connections, seconds=seconds, core=None
            ),
            partial(lines_of, served.deployment.audit_file),
        )


_CELLS = (
    partial(_signing, "sign", "sign"),
    partial(_signing, "sign_two_workers", "sign, two workers", workers=2),
    partial(_signing, "sign_tls", "sign over TLS", tls=True),
    partial(_signing, "sign_segments", "sign, events in segments", sealed=True),
    partial(_forwarding, "forward", "GET of 4 KiB"),
    partial(_forwarding, "forward_two_workers", "GET of 4 KiB, two workers", workers=2),
)


def _in_segments(directory: Path) -> int:
    """Return how many events of requests there are in segments, those that are being written among them."""
    while True:
        # One that is sealed meanwhile has another name, under which it is counted anew.
        with contextlib.suppress(FileNotFoundError):
            return sum(map(_events_of, directory.rglob("*.gz")))


def _events_of(segment: Path) -> int:
    events = 0
    # The last member of a segment that is being written has no end yet.
    with contextlib.suppress(EOFError), gzip.open(segment) as lines:
        for line in lines:
            events += b'"kind":"sign"' in line
    return events


def lines_of(audit_file: Path) -> int:
    """Return how many events there are in a file."""
    if not audit_file.exists():
        return 0
    with audit_file.open("rb") as lines:
        return sum(line.endswith(b"\n") for line in lines)


def _settled(count: Callable[[], int]) -> int:
    """Return how many events there are once there come no more."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    last, found = -1, count()
    while found != last and time.monotonic() < deadline:
        time.sleep(1.0)
        last, found = found, count()
    return found
