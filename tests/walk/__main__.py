"""Count the calls of one request of each way: `python -m tests.walk`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.walk.record import RECORD, recorded_of, save
from tests.walk.steps import Walk
from tests.walk.ways import WAYS, walk_of

_HEADINGS = ("way", "calls", "files", "switches of file", "switches of room")


def main(arguments: Sequence[str]) -> int:
    """Print the table, or the functions of one way; write the record where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.walk", description=__doc__)
    parser.add_argument("--list", choices=WAYS, metavar="WAY", help=f"number the functions of {', '.join(WAYS)}")
    parser.add_argument(
        "--record",
        nargs="?",
        type=Path,
        const=RECORD,
        metavar="FILE",
        help="write the counts that a test compares with",
    )
    options = parser.parse_args(arguments)
    if options.list:
        for number, function in enumerate(walk_of(options.list).functions, 1):
            print(f"{number:4} {function}")
        return 0
    walks = {name: walk_of(name) for name in WAYS}
    print(table(walks))
    if options.record:
        save({name: recorded_of(walk) for name, walk in walks.items()}, options.record)
    return 0


def table(walks: dict[str, Walk]) -> str:
    """Return the counts, one way in each line."""
    rows = [_HEADINGS, *((name, *map(str, walk.counts)) for name, walk in walks.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)] for row in rows)
    return "\n".join("  ".join((row[0].ljust(widths[0]), *line)) for row, line in zip(rows, lines, strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
