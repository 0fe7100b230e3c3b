"""Run one job, and leave a record: what it was asked, what it read and wrote, how long it took, and how it ended."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from time import perf_counter
from types import FrameType
from typing import IO, Any

import msgspec
import pyspark
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from signproxy import __version__
from signproxy.audit.ids import new_event_id
from signproxy.errors import SignproxyError
from signproxy.pipeline.compaction import finish
from signproxy.pipeline.job import Days, Exit, Job, JobContext, JobOutcome, Progress, Run, run_of
from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse

LOCK = ".lock"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a run, as JSON below `runs/` of the warehouse."""

    run_id: str
    job: str
    began_at: str
    seconds: float
    cpu_seconds: float
    """Of this process and of those that it started: all there is where Spark runs here, and little elsewhere."""
    exit: int
    rows_in: int = 0
    rows_out: int = 0
    rows_bad: int = 0
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, float] = {}
    problem: str = ""
    inputs: tuple[str, ...] = ()
    first_day: str = ""
    last_day: str = ""
    options: Mapping[str, Any] = {}
    versions: Mapping[str, str] = {}


class Ending:
    """What a run is told of its end. The Java that it started ends with it: alone, that would work on."""

    def __init__(self) -> None:
        self.signal = ""
        """The name of the signal that ended it; empty while it goes on."""
        self.process: Popen[bytes] | None = None

    def obey(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what a handler gets
        """End the Java; what waits for it is told at once, and the run ends as one whose Spark died."""
        self.signal = signal.Signals(number).name
        # What waits for the Java would tell of its end with a trace, and the operator knows why it ended.
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        if self.process is not None:
            # No job needs to be asked: each of them may be killed at any point.
            self.process.kill()


def run_job(one: Job, run: Run, context: JobContext, ending: Ending | None = None) -> tuple[RunRecord, JobOutcome]:
    """Run a job and record it, whatever becomes of it; `ending` knows whether it was told to end."""
    began_at = datetime.now(UTC)
    began, cpu = perf_counter(), cpu_seconds()
    problem = ""
    # Asked now: a Spark that ran out of memory answers nothing afterwards.
    local = _local(context)
    try:
        if context.session is None:
            outcome = run(context)
        else:
            with alone(local):
                # A compaction that was killed left a day in two places, of which one counts.
                finish(context.session, context.warehouse)
                outcome = run(context)
    except Busy as busy:
        outcome, problem = JobOutcome(exit=Exit.FAILED), str(busy)
    except AnalysisException as error:
        # What was named is not there; all else that Spark cannot make sense of is a fault of this program.
        is_missing = error.getCondition() == "PATH_NOT_FOUND"
        outcome, problem = JobOutcome(exit=Exit.USAGE if is_missing else Exit.FAILED), _told(error)
    except SignproxyError as error:
        outcome, problem = JobOutcome(exit=Exit.USAGE), str(error)
    except Exception as error:  # noqa: BLE001 - a run that failed is recorded like any other
        ended = ending.signal if ending is not None else ""
        outcome, problem = JobOutcome(exit=Exit.FAILED), f"ended by {ended}" if ended else _told(error)
    record = RunRecord(
        run_id=new_event_id(),
        job=one.name,
        began_at=began_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        seconds=round(perf_counter() - began, 3),
        cpu_seconds=round(cpu_seconds() - cpu, 3),
        exit=int(outcome.exit),
        **{name: getattr(outcome, name) for name in ("rows_in", "rows_out", "rows_bad", "notes", "numbers")},
        problem=problem,
        inputs=context.inputs,
        first_day=str(context.days.first or ""),
        last_day=str(context.days.last or ""),
        options={name: value for name, value in context.options.items() if value is not None},
        versions={"signproxy": __version__, "spark": pyspark.__version__, "python": platform.python_version()},
    )
    _leave(context, record, local)
    return record, outcome


def cpu_seconds() -> float:
    """Return what this process and its children have used so far; only its own where the system does not tell."""
    ticks = os.sysconf("SC_CLK_TCK")
    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a process may hold anything, and stands in brackets.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def _leave(context: JobContext, record: RunRecord, local: Path | None) -> None:
    """Write the record, through Spark where only Spark knows the warehouse's file system."""
    line = json.dumps(msgspec.to_builtins(record), sort_keys=True)
    name = f"{record.run_id}.json"
    path = f"{context.warehouse.path}/runs/{name}"
    try:
        if local is None:
            context.spark.createDataFrame([(line,)], "value string").coalesce(1).write.mode("overwrite").text(path)
            return
        runs = local / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        # Under its name it is there whole or not at all.
        draft = runs / f".{name}"
        draft.write_text(f"{line}\n")
        draft.rename(runs / name)
    except Exception as error:  # noqa: BLE001 - Spark may be what failed; the run is told of all the same
        sys.stderr.write(f"the record of the run was not written to {path}: {_told(error)}\n")


def _local(context: JobContext) -> Path | None:
    """Return the warehouse as a directory of this machine; None where it is none, or Spark's side may be another."""
    path = context.warehouse.path
    scheme, colon, rest = path.partition(":")
    if os.environ.get("SPARK_REMOTE") or (colon and scheme != "file"):
        return None
    if colon:
        return Path("/" + rest.lstrip("/"))
    # Where a job needs no Spark, none was started.
    known = context.session.conf.get("spark.master", "") if context.session is not None else ""
    master = known or "local"
    return Path(path) if master.startswith("local") else None


def _told(error: Exception) -> str:
    """Return what went wrong in a line, with where it did: Spark's own messages go on for pages."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((frame for frame in reversed(frames) if "signproxy" in frame.filename), None)
    where = f" ({ours.name}, line {ours.lineno})" if ours is not None else ""
    return f"{type(error).__name__}: {first[:500]}{where}"


@contextmanager
def ending() -> Iterator[Ending]:
    """Obey SIGTERM until the block ends."""
    told = Ending()
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's.
        yield told
        return
    before = signal.signal(signal.SIGTERM, told.obey)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)


def java_of_this_process() -> Popen[bytes] | None:
    """Return the Java that Spark started for this process; None where another program did."""
    gateway = SparkContext._gateway  # noqa: SLF001 - Spark has no name for it
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def launch(
    one: Job, warehouse: str, session: SessionOptions, inputs: Sequence[str], days: Days, options: Mapping[str, Any]
) -> tuple[RunRecord, JobOutcome]:
    """Run a job, and return its record and what it left. Raise Invalid where Spark cannot be had."""
    with ExitStack() as stack:
        # A job that needs none does not ask for it: starting one takes longer than most of them do.
        spark = stack.enter_context(open_session(session)) if one.needs_spark else None
        told = stack.enter_context(ending())
        told.process = java_of_this_process()
        context = JobContext(spark, Warehouse(spark, warehouse), Progress(), tuple(inputs), days, options)
        return run_job(one, run_of(one), context, told)


class Busy(SignproxyError):
    """Raise where another run works on the warehouse."""


@contextmanager
def alone(warehouse: Path | None) -> Iterator[None]:
    """Keep the warehouse for this run, or raise Busy; None for one on a file system that only Spark knows.

    The lock is the kernel's: it ends with the process that has it, however that ends.
    """
    with ExitStack() as stack:
        # A directory that cannot be written to is the job's to complain of; a network's file system may have no locks,
        # and there, as with an object store, the operator has to see to it.
        with suppress(OSError):
            if warehouse is not None:
                warehouse.mkdir(parents=True, exist_ok=True)
                _lock(stack.enter_context((warehouse / LOCK).open("a")))
        yield


def _lock(file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        place = Path(file.name).parent
        raise Busy(f"another run works on {place}: run this one again when that has ended") from None
