"""Run jobs of the pipeline one after the other in one Spark session, and tell what each of them cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from signproxy.pipeline.job import JobContext, Progress, job, run_of
from signproxy.pipeline.runs import RunRecord, run_job
from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse


class Step(msgspec.Struct, frozen=True):
    """A job, what it reads, and its options."""

    job: str
    inputs: tuple[str, ...] = ()
    options: dict[str, Any] = {}


class Asked(msgspec.Struct, frozen=True):
    """What is run where."""

    warehouse: str
    heap: str
    conf: dict[str, str]
    steps: tuple[Step, ...]


def main() -> int:
    """Run what the file `argv[1]` asks, and write the records to `argv[2]`."""
    asked = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Asked)
    records: list[RunRecord] = []
    with open_session(SessionOptions("", asked.heap, asked.conf)) as spark:
        for step in asked.steps:
            one = job(step.job)
            if one is None:
                raise SystemExit(f"there is no job {step.job}")
            options = {option.name: option.default for option in one.options} | step.options
            context = JobContext(
                spark, Warehouse(spark, asked.warehouse), Progress(), tuple(step.inputs), options=options
            )
            records.append(run_job(one, run_of(one), context)[0])
            print(f"{step.job}: {records[-1]}", file=sys.stderr, flush=True)
    Path(sys.argv[2]).write_text(json.dumps(msgspec.to_builtins(records)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
