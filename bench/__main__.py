"""Run the suites, record what they measured, and fail if a must is missed."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from types import FrameType

import msgspec

from bench import page, record
from bench.effort import FULL, SMOKE, Effort
from bench.figures import Result
from bench.process import LOAD_CORE, BenchFailed, end_children

SUITES = (
    "sign",
    "sigv4",
    "policy_scale",
    "reload",
    "workers",
    "saturation",
    "instructions",
    "tls",
    "fairness",
    "amplifiers",
    "startup",
    "facade",
    "overhead",
    "spark_job",
    "forward_large",
    "forward_small",
    "forward_memory",
    "pipeline_ingest",
    "pipeline",
    "pipeline_growth",
)
"""Each a module of this package with a `measure`; the order of results.json and of the page."""

_OF_FIXED_EFFORT = frozenset({"sigv4", "policy_scale"})
"""Pure computation that decides by itself how long to repeat; a smoke run takes as long."""


_ON_ITS_OWN = frozenset({"pipeline_ingest", "pipeline", "pipeline_growth"})
"""Run only where they are asked for: they take longer than all others, and gigabytes of disk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=SUITES, help="a suite to run; may be repeated")
    parser.add_argument("--smoke", action="store_true", help="run briefly and record nothing")
    parser.add_argument("--rounds", type=int, default=FULL.rounds, help="rounds of a suite; the samples follow from it")
    options = parser.parse_args(arguments)
    chosen = options.only or [suite for suite in SUITES if suite not in _ON_ITS_OWN]
    # Python ends on SIGTERM without leaving its `with` blocks, and every server of the run would go on for ever.
    signal.signal(signal.SIGTERM, _end)
    # Servers are put on the other core; whatever asks them, and computes beside them, stays on this one.
    if (os.cpu_count() or 1) > LOAD_CORE:
        os.sched_setaffinity(0, {LOAD_CORE})
    measured: dict[str, list[Result]] = {}
    broken = 0
    for suite in SUITES:
        if suite not in chosen:
            continue
        print(f"bench: {suite}", file=sys.stderr, flush=True)
        try:
            effort = SMOKE if options.smoke else msgspec.structs.replace(FULL, rounds=options.rounds)
            measured[suite] = measure(suite, effort)
        except BenchFailed as failure:
            # One suite without its tool must not cost the figures of the others; the run still fails.
            print(f"bench: {suite} could not be measured: {failure}", file=sys.stderr)
            broken += 1
            continue
        print_table(measured[suite])
    if not options.smoke:
        page.write(record.write({suite: record.stamped(rows) for suite, rows in measured.items()}, SUITES))
    missed = [row for rows in measured.values() for row in rows if not row.passes]
    for row in missed:
        print(f"bench: {row.name} is {row.value:g}, must be {row.must:g}", file=sys.stderr)
    if options.smoke:
        return int(broken > 0)
    return int(bool(missed) or broken > 0)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def measure(suite: str, effort: Effort) -> list[Result]:
    """Return what a suite measures, every name beginning with the suite's."""
    module = importlib.import_module(f"bench.{suite}")
    taken: Iterable[object] = module.measure() if suite in _OF_FIXED_EFFORT else module.measure(effort)
    return measured_rows(suite, taken)


def measured_rows(suite: str, taken: Iterable[object]) -> list[Result]:
    """Return rows, however a suite spelled them, under the suite's name."""
    rows = msgspec.convert(list(taken), list[Result], from_attributes=True)
    return [
        row if record.suite_of(row) == suite else msgspec.structs.replace(row, name=f"{suite}.{row.name}")
        for row in rows
    ]


def print_table(rows: Sequence[Result]) -> None:
    """Print results, one a line: `!!` misses its must, ` .` its goal."""
    for row in rows:
        mark = "!!" if not row.passes else " ." if not row.reaches_goal else "  "
        bars = "".join(f" {word} {bar:g}" for word, bar in (("must", row.must), ("goal", row.goal)) if bar is not None)
        low, high = row.spread
        print(f"{mark} {row.name:40} {row.value:>10g} {row.unit:8} [{low:g} - {high:g}]{bars}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        end_children()
