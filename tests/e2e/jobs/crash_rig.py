"""Kill an ingest in its midst, run it again, and look at what is there: in processes of their own, as in the field."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from signproxy.pipeline.warehouse import Warehouse
from tests.pipeline.segments import event_lines, life, segment

LIMIT = 300
"""Seconds that one run may take on a machine that has other things to do."""

# An option of the JVM that makes it start sooner; nothing here runs long enough for more than its first compiler.
_QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
_EACH = {
    "segments": ("run_id", "ingest_batch"),
    "events": ("ingest_batch",),
    "quarantine": ("ingest_batch",),
    "findings": (),
}


def lay_out(directory: Path) -> None:
    """Write segments of every kind: whole, around midnight, with bad lines, twice, torn."""
    for index in range(8):
        boot = f"{index:026d}"
        made = life(directory, (40, 30, 20), boot_id=boot, at=1_795_046_400 - 60)
        if index == 1:
            made[2].path.write_bytes(made[2].path.read_bytes()[:-25])
        if index == 2:
            made[0].path.with_name(f"copy-{made[0].path.name}").write_bytes(made[0].path.read_bytes())
    boot = "B" * 26
    segment(directory, [*event_lines(9, boot_id=boot), b"no event\n"], boot_id=boot)


def command(directory: Path, warehouse: Path) -> list[str]:
    """Return an ingest of many small batches, so that there is much to be interrupted."""
    return [
        sys.executable, "-m", "signproxy", "pipeline", "ingest", "--input", str(directory), "--warehouse",
        str(warehouse), "--files-per-batch", "7", "--max-bad-ratio", "1", "--master", "local[2]", "--memory", "512m",
        "--conf", _QUICK, "--conf", "spark.sql.shuffle.partitions=2", "--json",
    ]  # fmt: skip


def ingest(directory: Path, warehouse: Path) -> float:
    """Run it to its end; return how long it took."""
    began = time.monotonic()
    done = subprocess.run(command(directory, warehouse), capture_output=True, text=True, timeout=LIMIT, check=False)
    # 5: a segment is cut, which is what it has to say; 0 where a run before it has said so already.
    assert done.returncode in (0, 5), (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    assert json.loads(done.stdout.splitlines()[-1])["job"] == "ingest"
    return time.monotonic() - began


def killed(directory: Path, warehouse: Path, rng: random.Random) -> str:
    """Kill it, with all that it started, once it reached a point that was drawn; return which.

    Points are written files: of Spark's lists, of events, of the ledger. Those are what a rerun depends on, and they
    come at the same places on a slow machine and a quick one.
    """
    target = rng.randrange(1, 60)
    process = subprocess.Popen(
        command(directory, warehouse), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    seen: set[str] = set()
    end = time.monotonic() + LIMIT
    try:
        while process.poll() is None and time.monotonic() < end:
            seen |= _files(warehouse)
            if len(seen) >= target:
                time.sleep(rng.random() * 0.02)
                break
            time.sleep(0.002)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return f"{len(seen)} of {target} files"


def _files(warehouse: Path) -> set[str]:
    found = set()
    for place, _, names in os.walk(warehouse):
        found |= {f"{place}/{name}" for name in names if not name.endswith(".crc")}
    return found


def state(spark: SparkSession, path: Path) -> dict[str, list[str]]:
    """Return all rows of all tables as sorted text, without what differs from run to run."""
    warehouse = Warehouse(spark, str(path))
    rows = {}
    for name, dropped in _EACH.items():
        frame = warehouse.read(name).drop(*dropped)
        rows[name] = sorted(
            json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in frame.collect()
        )
    return rows
