"""Say what a job is given and what it leaves: the same for all, so that any of them runs alone or in a chain.

The jobs are those that `jobs.toml` declares; none is imported before it is run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import date
from enum import IntEnum
from importlib import import_module
from importlib.resources import files
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import msgspec

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


class Days(NamedTuple):
    """The days that a job looks at, both included; None where it does not end."""

    first: date | None = None
    last: date | None = None


ALL_DAYS = Days()


_EVERY_SECONDS = 2.0


class Progress:
    """Rows, percent and rate of what is under way."""

    def __init__(
        self, out: TextIO | None = None, *, clock: Callable[[], float] = monotonic, every: float = _EVERY_SECONDS
    ) -> None:
        """Without `out`, nothing is shown unless standard error is a terminal's."""
        self._out = out if out is not None else (sys.stderr if sys.stderr.isatty() else None)
        self._clock = clock
        self._every = every
        self._began = self._shown = clock()
        self._what = ""
        self._total = 0
        self._unit = ""
        self._done = 0

    def begin(self, what: str, total: int, unit: str = "rows") -> None:
        """Begin to count something else; a total of 0 is not known."""
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._began = self._shown = self._clock()

    def advance(self, count: int) -> None:
        """Count what was done; show it if some time has passed."""
        self._done += count
        if self._clock() - self._shown >= self._every:
            self._show()

    def end(self) -> None:
        """Show the last count."""
        self._show()

    @property
    def line(self) -> str:
        """What is shown."""
        seconds = max(self._clock() - self._began, 1e-9)
        of = f" of {self._total:,} ({100 * self._done / self._total:.0f} %)" if self._total else ""
        return f"{self._what}: {self._done:,}{of} {self._unit}, {self._done / seconds:,.0f}/s"

    def _show(self) -> None:
        self._shown = self._clock()
        if self._out is not None:
            self._out.write(f"{self.line}\n")
            self._out.flush()


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


class JobOutcome(msgspec.Struct, frozen=True):
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


Run = Callable[[JobContext], JobOutcome]


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An option of a job, beside those that all have."""

    flag: str
    help: str
    default: str | int | float | None = None
    is_count: bool = False
    """Whether it is a whole number, where no default says so."""

    @property
    def type(self) -> type:
        """What its text becomes."""
        if self.default is not None:
            return type(self.default)
        return int if self.is_count else str

    @property
    def name(self) -> str:
        """The option as a job finds it in its context."""
        return self.flag.lstrip("-").replace("-", "_")


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job as the command line offers it."""

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    removed: tuple[str, ...] = ()
    """Flags of options that it once had."""
    instead: str = ""
    """What to do instead of these, as the refusal says it."""
    needs_spark: bool = True
    """Without it, none is started: the context has no session, and its warehouse is a path alone."""

    @property
    def module(self) -> str:
        """Below `signproxy.pipeline.jobs`; imported when the job is run. It holds `run`."""
        return self.name.replace("-", "_")


JOBS = msgspec.toml.decode(
    files("signproxy.pipeline").joinpath("jobs.toml").read_bytes(), type=dict[str, tuple[Job, ...]]
)["jobs"]


def job(name: str) -> Job | None:
    """Return a job by its name."""
    return next((one for one in JOBS if one.name == name), None)


def run_of(one: Job) -> Run:
    """Import a job and return what runs it."""
    return cast("Run", import_module(f"signproxy.pipeline.jobs.{one.module}").run)


def options_of(context: JobContext, name: str) -> dict[str, Any]:
    """Return a job's options as they were given, and by default where they were not."""
    declared = {option.name: option.default for one in JOBS if one.name == name for option in one.options}
    return declared | {option: value for option, value in context.options.items() if value not in (None, "")}
