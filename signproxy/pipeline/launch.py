"""Run one job as the command line asks for it: open Spark where it is needed, run, record, and end Spark again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from signproxy.pipeline.days import Days
from signproxy.pipeline.ending import ending, java_of_this_process
from signproxy.pipeline.job import Job, JobContext, Outcome
from signproxy.pipeline.progress import Progress
from signproxy.pipeline.registry import run_of
from signproxy.pipeline.runs import RunRecord, run_job
from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse


def launch(
    one: Job, warehouse: str, session: SessionOptions, inputs: Sequence[str], days: Days, options: Mapping[str, Any]
) -> tuple[RunRecord, Outcome]:
    """Run a job, and return its record and what it left. Raise Invalid where Spark cannot be had."""
    with ExitStack() as stack:
        # A job that needs none does not ask for it: starting one takes longer than most of them do.
        spark = stack.enter_context(open_session(session)) if one.needs_spark else None
        told = stack.enter_context(ending())
        told.process = java_of_this_process()
        context = JobContext(spark, Warehouse(spark, warehouse), Progress(), tuple(inputs), days, options)
        return run_job(one, run_of(one), context, told)
