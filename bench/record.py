"""Keep results.json: the newest results of every suite, in the order of the suites."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.figures import Result
from bench.process import BenchFailed, output_of

RESULTS = Path(__file__).with_name("results.json")


def read(path: Path = RESULTS) -> list[Result]:
    """Return the recorded results; none where nothing was measured yet."""
    return msgspec.json.decode(path.read_bytes(), type=list[Result]) if path.exists() else []


def write(measured: Mapping[str, Iterable[Result]], suites: Sequence[str], path: Path = RESULTS) -> list[Result]:
    """Replace the results of the suites that were measured, keep those of the others, and return all of them.

    A result belongs to the suite that its name begins with. What no suite claims any more is dropped.
    """
    recorded = read(path)
    kept: list[Result] = []
    for suite in suites:
        kept += measured[suite] if suite in measured else (old for old in recorded if suite_of(old) == suite)
    lines = ",\n".join("  " + msgspec.json.encode(result).decode() for result in kept)
    path.write_text(f"[\n{lines}\n]\n" if kept else "[]\n")
    return kept


def suite_of(result: Result) -> str:
    """Return the suite that a result belongs to."""
    return result.name.partition(".")[0]


def stamped(results: Iterable[Result]) -> list[Result]:
    """Return the results with today's date and the commit that was measured."""
    date = dt.datetime.now(dt.UTC).date().isoformat()
    commit = _commit()
    return [msgspec.structs.replace(result, date=date, commit=commit) for result in results]


def _commit() -> str:
    """Return the commit of the working tree, `+` behind it if the product differs from it."""
    git = [shutil.which("git") or "git", "-C", str(RESULTS.parent.parent)]
    try:
        head = output_of([*git, "rev-parse", "--short=12", "HEAD"]).strip()
    except BenchFailed:
        return "none"  # before the first commit
    return f"{head}+" if output_of([*git, "status", "--porcelain", "--", "signproxy"]) else head
