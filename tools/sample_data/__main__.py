"""Generate a month of a lake that never was: `python -m tools.sample_data DIRECTORY [--events N] [--seed N] …`."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from signproxy.cli.terminal import complain, say
from signproxy.errors import Invalid
from signproxy.pipeline.job import Progress
from tools.sample_data.generate import Size, generate

INVALID = 2
_SEED_BITS = 32
_NUMBERS = {
    "events": "audit events in all",
    "tables": "tables of the lake",
    "principals": "principals that read and write them",
    "days": "days of the month",
    "instances": "servers that the events are of",
    "processes": "processes that generate; what they write does not depend on it",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Generate; without a seed, draw one, and print it: with it, and the same size, the same comes again."""
    parser = argparse.ArgumentParser(prog="python -m tools.sample_data", description=__doc__, allow_abbrev=False)
    parser.add_argument("directory", type=Path, help="where to; it must not exist yet")
    parser.add_argument("--seed", type=int, help="what all follows from; without it one is drawn, and printed")
    least = Size(seed=0)
    for name, meaning in _NUMBERS.items():
        default = getattr(least, name)
        parser.add_argument(f"--{name}", metavar="N", type=_count, default=default, help=f"{meaning} ({default})")
    parser.add_argument(
        "--first-day", metavar="DAY", type=date.fromisoformat, help=f"the month's first day ({least.first_day})"
    )
    options = parser.parse_args(argv)
    size = Size(
        seed=secrets.randbits(_SEED_BITS) if options.seed is None else options.seed,
        first_day=least.first_day if options.first_day is None else options.first_day.isoformat(),
        **{name: getattr(options, name) for name in _NUMBERS},
    )
    progress = Progress()
    progress.begin("sample data", size.events, "events")
    try:
        summary = generate(options.directory, size, progress.advance)
    except Invalid as invalid:
        for finding in invalid.findings:
            complain(str(finding))
        return INVALID
    progress.end()
    say(f"seed {size.seed}")
    say(f"{summary.written:,} events in {summary.segments:,} segments below {options.directory}/audit")
    say(f"{sum(summary.requests.values()):,} requests in the stores' logs below {options.directory}/logs")
    say(f"what is to be found in them: {options.directory}/truth")
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


if __name__ == "__main__":
    # Each process that generates imports this module once more, under another name.
    sys.exit(main())
