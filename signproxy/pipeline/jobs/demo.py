"""Write a month of a lake that never was: segments, stores' logs and a policy, with planted faults and the truth."""

from __future__ import annotations

import secrets
from datetime import date
from pathlib import Path

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.demo.generate import Size, generate
from signproxy.pipeline.job import JobContext, Outcome

DIRECTORY = "demo"
"""Below the warehouse."""
_FIRST_DAY = date(2026, 10, 1)
_DAYS = 30
_SEED_BITS = 32


def run(context: JobContext) -> Outcome:
    """Generate; without a seed, draw one. The notes say which: with it, and the same size, the same comes again."""
    options = context.options
    seed = options.get("seed")
    size = Size(
        seed=secrets.randbits(_SEED_BITS) if seed is None else int(seed),
        events=int(options.get("events", 100_000)),
        tables=int(options.get("tables", 10_000)),
        principals=int(options.get("principals", 200)),
        first_day=(context.days.first or _FIRST_DAY).isoformat(),
        days=_days(context),
        instances=int(options.get("instances", 4)),
        processes=int(options.get("processes", 1)),
    )
    directory = _local(context.warehouse.path) / DIRECTORY
    context.progress.begin("demo", size.events, "events")
    summary = generate(directory, size, context.progress.advance)
    context.progress.end()
    requests = sum(summary.requests.values())
    notes = (
        f"seed {size.seed}",
        f"{summary.segments:,} segments below {directory}/audit",
        f"{requests:,} requests in the stores' logs below {directory}/logs",
        f"what is to be found in them: {directory}/truth",
    )
    return Outcome(rows_out=summary.written, notes=notes, numbers={"seed": size.seed, "requests": requests})


def _days(context: JobContext) -> int:
    days = context.days
    if days.last is None:
        return _DAYS
    count = (days.last - (days.first or _FIRST_DAY)).days + 1
    if count < 1:
        raise Invalid([Finding("", "--to", "lies before --from")])
    return count


def _local(path: str) -> Path:
    plain = path.removeprefix("file://").removeprefix("file:")
    if "://" in plain:
        raise Invalid([Finding("", "--warehouse", "the demo is written to a directory of this machine")])
    return Path(plain)
