"""Measure the chain of jobs behind `ingest` in CPU seconds, with DuckDB as the floor of its largest join."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import pipeline_data
from bench.effort import Effort
from bench.figures import Result, result
from bench.overhead import all_cores
from bench.process import BenchFailed
from signproxy.audit.event import SCHEMA
from signproxy.pipeline.intake import NEEDED
from signproxy.pipeline.schemas import EVENT_LINE
from tests.e2e.stores.install import virtualenv
from tools.sample_data.truth import Summary, read_summary

DUCKDB_VERSION = "2.0.0"
HEAP = "1g"
"""Of `ingest`."""
CHAIN_HEAP = "4g"
"""Of all other jobs: CloudTrail's files are read one whole file at a time, and are large here."""
MILLION = 1_000_000
FULL_EVENTS, SMOKE_EVENTS = 10 * MILLION, 20_000

RECONCILE_MUST, RECONCILE_GOAL = 4.0, 3.0
LEFT_OVER = 0.001
"""Share of the requests that the two may class otherwise: of two events in one second, each takes one."""

_HERE = Path(__file__).parent
_PATIENCE = 7_200.0
_THREADS = os.cpu_count() or 1
_FLOOR_MEMORY = "8GB"
"""DuckDB's own limit: with less it would write to disk, which is not its fastest."""
_FORMATS = ("aws", "cloudtrail", "versitygw-webhook", "versitygw-file", "minio")
_LAST = ("access", "revocation", "privileges", "anomalies", "cost", "report")
_MAX_BAD = 0.5
"""Of lines: the month has bad ones in it, which a small one has too many of."""
_GAPS = 5
"""How a job ends that found what the month has planted in it."""

_TYPES = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "double": "DOUBLE",
    "array<string>": "VARCHAR[]",
}


class Spent(msgspec.Struct, frozen=True):
    """What a command and all that it started took."""

    cpu: float
    wall: float
    peak_mib: float
    status: int


def measure(effort: Effort) -> list[Result]:
    """Run the chain, and the floor of its join, once: they take minutes, of which the first seconds hardly matter."""
    with scene_of(SMOKE_EVENTS if effort.rounds == 1 else FULL_EVENTS) as scene:
        ingest = scene.ingest(scene.demo / "audit", scene.warehouse)
        logs = scene.chain(_log_steps(scene.demo))
        reconcile = scene.chain((_reconcile_step(scene.summary),))
        floor_reconcile = scene.floor_reconcile()
        scene.check_reconcile()
        rest = scene.chain(_last_steps(scene))
        rows = scene.summary.written
        requests = sum(scene.summary.requests.values())
        whole = [ingest, logs, reconcile, rest]
        return [
            row("reconcile_vs_duckdb", reconcile.cpu / floor_reconcile.cpu, "ratio",
                f"DuckDB {DUCKDB_VERSION}: {rows:,} events, {requests:,} requests, the same classes; CPU; "
                f"heap of {CHAIN_HEAP}",
                RECONCILE_MUST, RECONCILE_GOAL),
            row("s3log_lines_per_cpu_second", requests / logs.cpu, "lines/s", f"five formats; {ABSOLUTE}",
                better="higher"),
            row("reconcile_cpu_seconds", reconcile.cpu, "s", ABSOLUTE),
            row("chain_events_per_cpu_second", rows / sum(part.cpu for part in whole), "events/s",
                f"{rows:,} events and {requests:,} requests through all jobs, four starts of Spark; {ABSOLUTE}",
                better="higher"),
            row("chain_seconds", sum(part.wall for part in whole), "s", f"the same, wall-clock time; {ABSOLUTE}"),
        ]  # fmt: skip


ABSOLUTE = "absolute, of this machine"


def row(
    name: str,
    value: float,
    unit: str,
    against: str,
    must: float | None = None,
    goal: float | None = None,
    better: str = "lower",
) -> Result:
    """Return one figure of the pipeline; each is measured once."""
    return result(
        name, [value], unit=unit, better="higher" if better == "higher" else "lower", against=against,
        must=must, goal=goal,
    )  # fmt: skip


@contextlib.contextmanager
def scene_of(events: int) -> Iterator[Scene]:
    """Lay out a month and a place for what is made of it, with every core to work on."""
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name, all_cores():
        yield Scene(Path(name), pipeline_data.demo(events))


class Scene:
    """A directory, the month, a warehouse of it, and DuckDB."""

    def __init__(self, directory: Path, demo: Path) -> None:
        self.directory = directory
        self.demo = demo
        self.summary: Summary = read_summary(demo / "truth")
        self.warehouse = directory / "warehouse"
        self.duckdb = virtualenv("duckdb", DUCKDB_VERSION) / "python"
        self._number = 0
        self._outputs: dict[str, Path] = {}

    def ingest(self, segments: Path, warehouse: Path) -> Spent:
        """Run the job as its users do."""
        command = (
            *(sys.executable, "-m", "signproxy", "pipeline", "ingest", "--input", str(segments)),
            *("--warehouse", str(warehouse), "--memory", HEAP, "--max-bad-ratio", str(_MAX_BAD)),
            *(f"--conf={name}={value}" for name, value in self._conf().items()),
        )
        return self._spent(command, (0, _GAPS))

    def chain(self, steps: Sequence[Mapping[str, Any]]) -> Spent:
        """Run jobs in one session; each has to end well."""
        asked, told = self._file("asked"), self._file("told")
        content = {"warehouse": str(self.warehouse), "heap": CHAIN_HEAP, "conf": self._conf(), "steps": steps}
        asked.write_text(json.dumps(content))
        spent = self._spent((sys.executable, "-m", "bench.pipeline_chain", str(asked), str(told)))
        for record in json.loads(told.read_bytes()):
            if record["exit"]:
                raise BenchFailed(f"{record['job']} ended with {record['exit']}: {record['problem']} {record['notes']}")
        return spent

    def floor_ingest(self, segments: Sequence[str]) -> Spent:
        """Have DuckDB do it; what it wrote stays for the comparison."""
        asked = {
            "segments": segments,
            "columns": {field.name: _TYPES[field.dataType.simpleString()] for field in EVENT_LINE.fields},
            "schema": SCHEMA,
            "needed": NEEDED,
            "output": str(self._output("floor")),
        }
        return self._floor("ingest", asked)[0]

    def floor_reconcile(self) -> Spent:
        """Have DuckDB class the same requests of the same tables."""
        asked = {
            "warehouse": str(self.warehouse),
            "output": str(self._output("classes")),
            "known_services": self.summary.known_services,
            "proxy": sorted(set(self.summary.proxy.values())),
            "vending_role": self.summary.vending_role,
        }
        return self._floor("reconcile", asked)[0]

    def check_ingest(self) -> None:
        """Fail unless both have as many events of each segment that the job took."""
        self._compare(
            f"""SELECT count(*) FROM
                (SELECT segment, good FROM '{self.warehouse}/segments/*/*.parquet' WHERE verdict = 'whole') ours
                LEFT JOIN (
                    SELECT segment, count(*) AS n FROM '{self._outputs["floor"]}/*/*.parquet' GROUP BY segment
                ) theirs USING (segment) WHERE ours.good IS DISTINCT FROM theirs.n""",  # noqa: S608 - the bench's own paths
            0,
        )

    def check_reconcile(self) -> None:
        """Fail unless both know the same requests, and give them the same classes but for a thousandth."""
        ours, theirs = f"'{self.warehouse}/access_attribution/*/*.parquet'", f"'{self._outputs['classes']}/*/*.parquet'"
        join = f"FROM {ours} a FULL JOIN {theirs} b USING (request_key)"
        self._compare(f"SELECT count(*) {join} WHERE a.class IS NULL OR b.class IS NULL", 0)
        requests = sum(self.summary.requests.values())
        self._compare(f"SELECT count(*) {join} WHERE a.class <> b.class", int(requests * LEFT_OVER))

    def _compare(self, query: str, most: int) -> None:
        differing = self._floor("counts", {"query": query})[1]["differing"]
        if differing > most:
            raise BenchFailed(f"{differing} rows differ from DuckDB's, of which at most {most} may: {query}")

    def _floor(self, what: str, asked: Mapping[str, Any]) -> tuple[Spent, dict[str, Any]]:
        file, told = self._file("asked"), self._file("told")
        scratch = {"scratch": str(self.directory / "duckdb"), "threads": _THREADS, "memory": _FLOOR_MEMORY}
        file.write_text(json.dumps({**asked, **scratch, "told": str(told)}))
        script = str(_HERE / "pipeline_floor.py")
        spent = self._spent((str(self.duckdb), script, what, str(file)))
        answer: dict[str, Any] = json.loads(told.read_bytes())
        return spent, answer

    def _spent(self, command: Sequence[str], good: Sequence[int] = (0,)) -> Spent:
        told, log = self._file("spent"), self._file("log")
        with log.open("wb") as output, _ended(
            subprocess.Popen(
                (sys.executable, "-m", "bench.pipeline_spent", str(told), *command),
                cwd=_HERE.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )
        ) as process:  # fmt: skip
            process.wait(_PATIENCE)
        spent = msgspec.json.decode(told.read_bytes(), type=Spent)
        if spent.status not in good:
            tail = log.read_text(errors="replace")[-3000:]
            raise BenchFailed(f"{' '.join(command)[:300]} ended with {spent.status}\n{tail}")
        print(f"  {spent.cpu:8.1f} s of CPU, {spent.wall:7.1f} s: {command[2:5]}", file=sys.stderr, flush=True)
        return spent

    def _conf(self) -> dict[str, str]:
        return {"spark.local.dir": str(self.directory / "spark")}

    def _file(self, kind: str) -> Path:
        self._number += 1
        return self.directory / f"{self._number:03d}-{kind}"

    def _output(self, name: str) -> Path:
        """Return where DuckDB writes; the first one of each name is what the whole month was written to."""
        made = self._file(name)
        self._outputs.setdefault(name, made)
        return made


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _log_steps(demo: Path) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            "job": "ingest-s3log",
            "inputs": [str(demo / "logs" / form)],
            "options": {"format": form, "max_bad_ratio": _MAX_BAD},
        }
        for form in _FORMATS
    )


def _reconcile_step(summary: Summary) -> Mapping[str, Any]:
    options = {
        "proxy": ",".join(sorted(set(summary.proxy.values()))),
        "known_services": ",".join(summary.known_services),
        "vending_role": summary.vending_role,
    }
    return {"job": "reconcile", "inputs": [], "options": options}


def _last_steps(scene: Scene) -> tuple[Mapping[str, Any], ...]:
    policy = sorted((scene.demo / "policy").glob("*.ndjson"))
    given: dict[str, Any] = {
        "revocation": {"inputs": [str(path) for path in policy]},
        "privileges": {"inputs": [str(path) for path in policy], "options": {"observed": 30}},
        "cost": {"inputs": [], "options": {"prices": str(scene.demo / "prices.yaml")}},
        "report": {"inputs": [], "options": {"output": str(scene.directory / "report")}},
    }
    return tuple({"job": name, "inputs": [], "options": {}} | given.get(name, {}) for name in _LAST)
