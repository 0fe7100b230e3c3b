"""Unpack the sample that ships: a month of a lake that never was, with planted faults and the truth beside them."""

from __future__ import annotations

import json
import tarfile
from importlib.resources import files
from pathlib import Path

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import ALL_DAYS, JobContext, JobOutcome
from signproxy.pipeline.warehouse import local_directory

DIRECTORY = "demo"
"""Below the warehouse."""
SAMPLE = "sample.tar.xz"


def run(context: JobContext) -> JobOutcome:
    """Unpack the sample below the warehouse, and say what it holds and of which days it is."""
    if context.days != ALL_DAYS:
        raise Invalid(
            [Finding("", "--from and --to", "the sample's days are fixed; other jobs can look at some of them")]
        )
    place = local_directory(context.warehouse.path, "--warehouse", "the demo is written to a directory of this machine")
    directory = place / DIRECTORY
    if directory.exists():
        raise Invalid([Finding(str(directory), "", "exists already: remove it, or name another warehouse")])
    _unpack(directory)
    summary = json.loads((directory / "truth" / "summary.json").read_bytes())
    requests = sum(summary["requests"].values())
    notes = (
        f"{summary['days']} days, the first of them {summary['first_day']}",
        f"{summary['segments']:,} segments below {directory}/audit",
        f"{requests:,} requests in the stores' logs below {directory}/logs",
        f"what is to be found in them: {directory}/truth",
    )
    return JobOutcome(rows_out=summary["written"], notes=notes, numbers={"seed": summary["seed"], "requests": requests})


def _unpack(directory: Path) -> None:
    """Write every file of the sample; it holds nothing else."""
    with files("signproxy.pipeline").joinpath(SAMPLE).open("rb") as packed, tarfile.open(fileobj=packed) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                target = directory / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
