"""Run a job of the pipeline: from audit segments and stores' logs to answers."""

from __future__ import annotations

import argparse
import json
from datetime import date
from typing import TYPE_CHECKING, NoReturn

import msgspec

from signproxy.cli.terminal import complain
from signproxy.errors import Finding, Invalid
from signproxy.pipeline.job import JOBS, Days, Exit, Job, Severity

if TYPE_CHECKING:
    from signproxy.pipeline.job import JobOutcome
    from signproxy.pipeline.runs import RunRecord

WAREHOUSE = "warehouse"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the jobs and their options."""
    jobs = parser.add_subparsers(metavar="JOB", required=True, dest="job")
    for one in JOBS:
        below = jobs.add_parser(one.name, help=one.summary, description=one.summary, allow_abbrev=False)
        _common(below)
        for option in one.options:
            default = "" if option.default in (None, "") else f" (default: {option.default})"
            below.add_argument(option.flag, help=option.help + default, type=option.type, default=option.default)
        for flag in one.removed:
            below.add_argument(
                flag, action=_Removed, nargs="?", const=one.instead, default=argparse.SUPPRESS, help=argparse.SUPPRESS
            )
        below.set_defaults(chosen=one)


def run(options: argparse.Namespace) -> int:
    """Run the job, record it, tell how it went, and return its exit status."""
    one: Job = options.chosen
    try:
        # Only now: what lists the jobs, and the help, do without Spark.
        from signproxy.pipeline.runs import launch
        from signproxy.pipeline.session import SessionOptions
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("signproxy"):
            raise
        complain("the pipeline needs PySpark: install signproxy[pipeline]")
        return Exit.USAGE
    try:
        record, outcome = launch(
            one,
            options.warehouse,
            SessionOptions(options.master, options.memory, dict(_setting(text) for text in options.conf)),
            options.input,
            Days(options.first, options.last),
            {option.name: getattr(options, option.name) for option in one.options},
        )
    except Invalid as invalid:
        # Before there was a run that could be recorded: an option, or a Spark that does not start.
        for finding in invalid.findings:
            complain(str(finding))
        return Exit.USAGE
    _tell(record, outcome, as_json=options.json)
    return int(_exit(record, outcome, options.fail_on))


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", metavar="PATH", action="append", default=[], help="what to read; may be repeated")
    parser.add_argument(
        "--warehouse", metavar="PATH", default=WAREHOUSE, help="where the tables lie (default: %(default)s)"
    )
    parser.add_argument(
        "--from", metavar="DAY", dest="first", type=date.fromisoformat, help="first day, such as 2026-11-01"
    )
    parser.add_argument("--to", metavar="DAY", dest="last", type=date.fromisoformat, help="last day")
    parser.add_argument("--master", metavar="URL", default="", help="where Spark runs (default: here, on all cores)")
    parser.add_argument(
        "--memory", metavar="SIZE", default="1g", help="heap where Spark runs here (default: %(default)s)"
    )
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark's own")
    parser.add_argument("--json", action="store_true", help="print the record of the run as JSON")
    parser.add_argument(
        "--fail-on",
        choices=[severity.word for severity in Severity],
        help=f"end with status {Exit.FINDINGS.value} where there are findings as severe as this",
    )


class _Removed(argparse.Action):
    """An option that a job no longer has: using it ends the command with what to do instead."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - as argparse calls it
        values: object,  # noqa: ARG002 - see above
        option_string: str | None = None,
    ) -> NoReturn:
        """Refuse the option."""
        parser.error(f"{option_string}: {self.const}")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Invalid([Finding("", "--conf", f"{text!r} is not NAME=VALUE")])
    return name, value


def _exit(record: RunRecord, outcome: JobOutcome, fail_on: str | None) -> Exit:
    if record.exit or fail_on is None:
        return Exit(record.exit)
    worst = max((Severity[word.upper()] for word in outcome.severities), default=None)
    return Exit.FINDINGS if worst is not None and worst >= Severity[fail_on.upper()] else Exit.OK


def _tell(record: RunRecord, outcome: JobOutcome, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(msgspec.to_builtins(record), sort_keys=True))
        return
    if outcome.text:
        print(outcome.text)
        return
    if record.problem:
        complain(f"{record.job}: {record.problem}")
        return
    print(
        f"{record.job}: {record.rows_in:,} rows in, {record.rows_out:,} out, {record.rows_bad:,} quarantined, "
        f"{record.seconds:.1f} s"
    )
    for note in outcome.notes:
        print(f"  {note}")
