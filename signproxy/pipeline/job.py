"""Say what a job is given and what it leaves: the same for all, so that any of them runs alone or in a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from signproxy.pipeline.days import ALL_DAYS, Days
from signproxy.pipeline.progress import Progress

if TYPE_CHECKING:
    # What lists the jobs must do without Spark: it is not installed where they never run.
    from pyspark.sql import SparkSession

    from signproxy.pipeline.warehouse import Warehouse


class Exit(IntEnum):
    """How a run ended, as the command's exit status."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    """There are findings as severe as `--fail-on`."""
    BAD_DATA = 4
    """More of the input could not be read than `--max-bad-ratio`."""
    AUDIT_GAP = 5
    """Events are missing, or segments contradict one another."""


class Severity(IntEnum):
    """How much a finding matters."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def word(self) -> str:
        """The severity as it stands in tables."""
        return self.name.lower()


class JobContext(msgspec.Struct, frozen=True):
    """What a job may use."""

    session: SparkSession | None
    """None for a job that needs none."""
    warehouse: Warehouse
    progress: Progress
    inputs: tuple[str, ...] = ()
    days: Days = ALL_DAYS
    options: Mapping[str, Any] = {}
    """The job's own, by name, as its declaration types them."""

    @property
    def spark(self) -> SparkSession:
        """The session."""
        if self.session is None:
            raise TypeError("this job was declared to need no Spark")
        return self.session


class Outcome(msgspec.Struct, frozen=True):
    """What a job leaves besides the tables that it wrote."""

    rows_in: int = 0
    rows_out: int = 0
    rows_bad: int = 0
    exit: Exit = Exit.OK
    notes: tuple[str, ...] = ()
    """For people, a line each."""
    severities: Mapping[str, int] = {}
    """How many findings there are, by the word of their severity."""
    numbers: Mapping[str, float] = {}
    text: str = ""
    """Printed instead of a summary, by a job that is asked for that alone."""


Run = Callable[[JobContext], Outcome]


class Option(msgspec.Struct, frozen=True):
    """An option of a job, beside those that all have."""

    flag: str
    help: str
    type: type = str
    default: Any = None

    @property
    def name(self) -> str:
        """The option as a job finds it in its context."""
        return self.flag.lstrip("-").replace("-", "_")


class Job(msgspec.Struct, frozen=True):
    """A job as the command line offers it."""

    name: str
    summary: str
    module: str
    """Below `signproxy.pipeline.jobs`; imported when the job is run. It holds `run`."""
    options: tuple[Option, ...] = ()
    removed: Mapping[str, str] = {}
    """Options that it once had, by their flags: what to do instead, as the refusal says it."""
    needs_spark: bool = True
    """Without it, none is started: the context has no session, and its warehouse is a path alone."""
