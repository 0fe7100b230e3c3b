"""Unpack the sample that ships: a month of a lake that never was, with planted faults and the truth beside them."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import msgspec

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.days import ALL_DAYS
from signproxy.pipeline.job import JobContext, Outcome

DIRECTORY = "demo"
"""Below the warehouse."""
SAMPLE = "sample.tar.xz"


class _Summary(msgspec.Struct, frozen=True):
    """What the sample says of itself."""

    seed: int
    first_day: str
    days: int
    written: int
    segments: int
    requests: Mapping[str, int]


def run(context: JobContext) -> Outcome:
    """Unpack the sample below the warehouse, and say what it holds and of which days it is."""
    if context.days != ALL_DAYS:
        raise Invalid(
            [Finding("", "--from and --to", "the sample's days are fixed; other jobs can look at some of them")]
        )
    directory = _local(context.warehouse.path) / DIRECTORY
    if directory.exists():
        raise Invalid([Finding(str(directory), "", "exists already: remove it, or name another warehouse")])
    _unpack(directory)
    summary = msgspec.json.decode((directory / "truth" / "summary.json").read_bytes(), type=_Summary)
    requests = sum(summary.requests.values())
    notes = (
        f"{summary.days} days, the first of them {summary.first_day}",
        f"{summary.segments:,} segments below {directory}/audit",
        f"{requests:,} requests in the stores' logs below {directory}/logs",
        f"what is to be found in them: {directory}/truth",
    )
    return Outcome(rows_out=summary.written, notes=notes, numbers={"seed": summary.seed, "requests": requests})


def _unpack(directory: Path) -> None:
    """Write every file of the sample; it holds nothing else."""
    with files("signproxy.pipeline").joinpath(SAMPLE).open("rb") as packed, tarfile.open(fileobj=packed) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                target = directory / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())


def _local(path: str) -> Path:
    plain = path.removeprefix("file://").removeprefix("file:")
    if "://" in plain:
        raise Invalid([Finding("", "--warehouse", "the demo is written to a directory of this machine")])
    return Path(plain)
