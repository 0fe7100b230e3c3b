"""Fail where a change makes a request longer: instructions of this tree against those of another commit's.

Run it as `python -m bench.growth --against COMMIT`.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.callgrind import Count
from bench.instructions import TREE, counted
from bench.process import BenchFailed, output_of

GATED = ("sign", "get", "get_ordinary", "load_table")
"""The requests that a change must not lengthen; that of a large object over TLS is as long as its pieces arrive."""

MOST_GROWTH = 1.01
"""A change that makes a request longer than by this is decided on, and not let in."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Count both trees; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--against", required=True, help="the commit that is compared with")
    revision: str = parser.parse_args(arguments).against
    try:
        with checked_out(revision) as tree:
            counts = {name: (counted(name, TREE), counted(name, tree)) for name in GATED}
    except BenchFailed as failure:
        print(f"instructions could not be counted: {failure}", file=sys.stderr)
        return 2
    print(told(counts, revision), flush=True)
    return int(any(growth(*pair) > MOST_GROWTH for pair in counts.values()))


def growth(now: Count, before: Count) -> float:
    """Return by how much a request became longer."""
    return now.per_request / before.per_request


def told(counts: Mapping[str, tuple[Count, Count]], revision: str) -> str:
    """Return what the gate found, in one line."""
    found = (f"{name} {growth(now, before):.4f} ({now.per_request:,.0f})" for name, (now, before) in counts.items())
    return f"instructions of {revision}, times: {', '.join(found)}; at most {MOST_GROWTH}"


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Put the packages of another commit into a directory of its own."""
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name:
        archive = Path(name) / "tree.tar"
        output_of([git, "-C", str(TREE), "archive", f"--output={archive}", revision, "signproxy"])
        with tarfile.open(archive) as tar:
            tar.extractall(name, filter="data")
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
