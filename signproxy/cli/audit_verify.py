"""Prove from the segments alone that nothing is missing, added or altered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from signproxy.audit.verify import AuditFinding, CheckedSegment, Weight, check_chain, check_segment
from signproxy.cli.audit_files import directory_argument, segments_below
from signproxy.cli.terminal import say, say_json

WHOLE = 0
BROKEN = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    directory_argument(parser)
    parser.add_argument(
        "--partial",
        action="store_true",
        help="older segments were shipped or deleted: what comes before the oldest that is there is not missed",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print what is found; return 0 where nothing is wrong, 5 otherwise."""
    checked = _check(segments_below(options.directory))
    found = [finding for each in checked for finding in each.findings]
    found += check_chain(checked, partial=options.partial)
    faults, notes = ([one for one in found if one.fault.weight is weight] for weight in (Weight.FAULT, Weight.NOTE))
    events, lives = sum(each.events for each in checked), {each.start.boot_id for each in checked if each.start}
    if options.json:
        told = {"whole": not faults, "segments": len(checked), "events": events, "lives": len(lives)}
        say_json({**told, "faults": [_as_json(one) for one in faults], "notes": [_as_json(one) for one in notes]})
    else:
        for word, findings in (("fault", faults), ("note", notes)):
            for finding in findings:
                say(f"{word}: {finding.text}")
        what = (
            f"{_many(len(checked), 'segment')} of {_many(len(lives), 'process', 'processes')}, {_many(events, 'event')}"
        )
        say(f"{what}: {_many(len(faults), 'fault')}" if faults else f"{what}: nothing is missing or altered")
    return BROKEN if faults else WHOLE


def _check(paths: Sequence[Path]) -> list[CheckedSegment]:
    checked = []
    total = sum(_size(path) for path in paths)
    done = 0
    shown = sys.stderr.isatty()
    for path in paths:
        checked.append(check_segment(path))
        done += _size(path)
        if shown:
            print(f"\r{100 * done // max(1, total)} %", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r     \r", end="", file=sys.stderr, flush=True)
    return checked


def _as_json(finding: AuditFinding) -> dict[str, str]:
    return {
        "fault": finding.fault.name.lower(),
        "file": finding.file,
        "detail": finding.detail,
        "text": finding.text,
    }


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"
