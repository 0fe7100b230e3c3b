"""Keep the counts of each way, and say what became longer or shorter since they were recorded."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.walk.steps import Walk

RECORD = Path(__file__).with_name("record.json")
ANEW = "python -m tests.walk --record"

SHORTER_PERCENT = 5
"""A way that is shorter by more than this is recorded anew: the calls that it saved could come back unnoticed."""


class Recorded(msgspec.Struct, frozen=True):
    """One way as it was when it was recorded."""

    calls: int
    files: int
    file_switches: int
    room_switches: int
    functions: tuple[str, ...]


def recorded_of(walk: Walk) -> Recorded:
    """Return what is kept of a walk."""
    return Recorded(*walk.counts, functions=tuple(walk.functions))


def load(path: Path = RECORD) -> dict[str, Recorded]:
    """Return what is recorded of each way."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Recorded])


def save(record: dict[str, Recorded], path: Path = RECORD) -> None:
    """Write it anew."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def difference(name: str, before: Recorded, now: Recorded) -> str:
    """Say how far a way is longer than its record, or clearly shorter; nothing where it is neither."""
    counts = [field for field in Recorded.__struct_fields__ if field != "functions"]
    changed = [
        f"{getattr(now, count)} {count.replace('_', ' ')} instead of {getattr(before, count)}"
        for count in counts
        if _differs(getattr(before, count), getattr(now, count))
    ]
    if not changed:
        return ""
    new = [function for function in now.functions if function not in before.functions]
    gone = [function for function in before.functions if function not in now.functions]
    return "\n  ".join(
        (
            f"{name}: {', '.join(changed)}",
            f"new: {', '.join(new) or 'none'}",
            f"gone: {', '.join(gone) or 'none'}",
            f"If that is meant, record it: {ANEW}",
        )
    )


def _differs(before: int, now: int) -> bool:
    return now > before or (before - now) * 100 > before * SHORTER_PERCENT
