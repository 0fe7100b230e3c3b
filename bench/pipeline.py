"""Measure the audit pipeline in CPU seconds, with DuckDB on the same files as the floor."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import pipeline_data, pipeline_plot
from bench.effort import Effort
from bench.figures import Result, result
from bench.overhead import all_cores
from bench.process import BenchFailed
from signproxy.pipeline.demo.truth import Summary, read_summary
from signproxy.pipeline.intake import NEEDED
from signproxy.pipeline.schemas import EVENT_LINE, SCHEMA
from tests.e2e.stores.install import _virtualenv

DUCKDB_VERSION = "2.0.0"
HEAP = "1g"
MILLION = 1_000_000
FULL_EVENTS, SMOKE_EVENTS = 10 * MILLION, 20_000
SIZES = (MILLION, 5 * MILLION, 10 * MILLION, 25 * MILLION, 50 * MILLION)
SMOKE_SIZES = (10_000,)
"""Events of the runs that show how the cost grows."""

INGEST_MUST, INGEST_GOAL = 3.5, 2.5
RECONCILE_MUST, RECONCILE_GOAL = 4.0, 3.0
LINEAR_MUST = 1.5
"""What an event of the longest run may cost beside one of the shortest; a start of Spark is in both."""

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
    """Run the chain and the floors once each: they take minutes, of which the first seconds hardly matter."""
    smoke = effort.rounds == 1
    events, sizes = (SMOKE_EVENTS, SMOKE_SIZES) if smoke else (FULL_EVENTS, SIZES)
    with tempfile.TemporaryDirectory(prefix="signproxy-bench-") as name, all_cores():
        scene = Scene(Path(name), pipeline_data.demo(events))
        ingest = scene.ingest(scene.demo / "audit", scene.warehouse)
        floor = scene.floor_ingest([str(path) for path in sorted(scene.demo.glob("audit/v1/dt=*/*.ndjson.gz"))])
        scene.check_ingest()
        logs = scene.chain(_log_steps(scene.demo))
        reconcile = scene.chain((_reconcile_step(scene.summary),))
        floor_reconcile = scene.floor_reconcile()
        scene.check_reconcile()
        rest = scene.chain(_last_steps(scene))
        rows = scene.summary.written
        requests = sum(scene.summary.requests.values())
        whole = [ingest, logs, reconcile, rest]
        results = [
            _row("ingest_vs_duckdb", ingest.cpu / floor.cpu, "ratio", _against_ingest(rows), INGEST_MUST, INGEST_GOAL),
            _row("reconcile_vs_duckdb", reconcile.cpu / floor_reconcile.cpu, "ratio",
                 f"DuckDB {DUCKDB_VERSION}: {rows:,} events, {requests:,} requests, the same classes; CPU",
                 RECONCILE_MUST, RECONCILE_GOAL),
            _row("ingest_events_per_cpu_second", rows / ingest.cpu, "events/s", _ABSOLUTE, better="higher"),
            _row("ingest_peak_mib", ingest.peak_mib, "MiB", f"resident at most, heap of {HEAP}"),
            _row("s3log_lines_per_cpu_second", requests / logs.cpu, "lines/s", f"five formats; {_ABSOLUTE}",
                 better="higher"),
            _row("reconcile_cpu_seconds", reconcile.cpu, "s", _ABSOLUTE),
            _row("chain_events_per_cpu_second", rows / sum(part.cpu for part in whole), "events/s",
                 f"{rows:,} events and {requests:,} requests through all jobs, four starts of Spark; {_ABSOLUTE}",
                 better="higher"),
            _row("chain_seconds", sum(part.wall for part in whole), "s", f"the same, wall-clock time; {_ABSOLUTE}"),
        ]  # fmt: skip
        return results + _growth(scene, sizes, draws=not smoke)


_ABSOLUTE = "absolute, of this machine"


def _against_ingest(rows: int) -> str:
    return (
        f"DuckDB {DUCKDB_VERSION}: the same {rows:,} events, all columns, digests verified, Parquet (zstd) by day; "
        f"CPU of the processes, start included; heap of {HEAP}"
    )


def _row(
    name: str,
    value: float,
    unit: str,
    against: str,
    must: float | None = None,
    goal: float | None = None,
    better: str = "lower",
) -> Result:
    return result(
        f"pipeline.{name}", [value], unit=unit, better="higher" if better == "higher" else "lower", against=against,
        must=must, goal=goal,
    )  # fmt: skip


def _growth(scene: Scene, sizes: Sequence[int], *, draws: bool) -> list[Result]:
    """Ingest ever more events, and say what one of them costs."""
    segments = pipeline_data.sound_segments(scene.demo)
    taken: list[tuple[int, float, float]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="signproxy-bench-", dir=scene.directory) as name:
            there = Path(name) / "audit" / "v1"
            events = pipeline_data.laid_out(segments, size, there)
            ours = scene.ingest(there, Path(name) / "warehouse")
            floor = scene.floor_ingest([str(path) for path in sorted(there.glob("dt=*/*.ndjson.gz"))])
            taken.append((events, ours.cpu, floor.cpu))
    if draws:
        of = {"signproxy pipeline ingest": 1, "DuckDB, the same": 2}
        lines = {name: [(one[0] / MILLION, one[at]) for one in taken] for name, at in of.items()}
        pipeline_plot.draw(lines, dt.datetime.now(dt.UTC).date().isoformat())
    rows = [
        _row(f"ingest_us_per_event_{size / MILLION:g}m", cpu / events * 1e6, "us",
             f"CPU of {events:,} events, start of Spark included; {_ABSOLUTE}")
        for size, (events, cpu, _) in zip(sizes, taken, strict=True)
    ]  # fmt: skip
    first, last = taken[0], taken[-1]
    growth = (last[1] / last[0]) / (first[1] / first[0])
    return [
        *rows,
        _row("ingest_growth", growth, "ratio", "an event of the longest run / one of the shortest", LINEAR_MUST),
    ]


class Scene:
    """A directory, the month, a warehouse of it, and DuckDB."""

    def __init__(self, directory: Path, demo: Path) -> None:
        self.directory = directory
        self.demo = demo
        self.summary: Summary = read_summary(demo / "truth")
        self.warehouse = directory / "warehouse"
        self.duckdb = _virtualenv("duckdb", DUCKDB_VERSION) / "python"
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
        content = {"warehouse": str(self.warehouse), "heap": HEAP, "conf": self._conf(), "steps": steps}
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
