"""Run the pipeline as its users do, and read what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signproxy.pipeline.session import SessionOptions, open_session
from signproxy.pipeline.warehouse import Warehouse

JOB_TIMEOUT = 600.0
"""Seconds for one job; it takes 10, most of them to start Spark."""

_OUTPUT_SHOWN = 6000
_SMALL = {"spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false"}

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A warehouse, and a directory for Spark to work in."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / "warehouse"

    def run(self, job: str, *options: str, inputs: Sequence[Path] = ()) -> dict[str, Any]:
        """Run a job to its end, which has to be a good one, and return its record."""
        conf = {**_SMALL, "spark.local.dir": str(self.directory / "spark")}
        command = (
            *(sys.executable, "-m", "signproxy", "pipeline", job, "--warehouse", str(self.path), "--json"),
            *(f"--input={path}" for path in inputs),
            *(f"--conf={name}={value}" for name, value in conf.items()),
            *options,
        )
        searched = (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", ""))
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, searched)), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=JOB_TIMEOUT,
            check=False,
        )
        said = f"{done.stdout}\n{done.stderr}"[-_OUTPUT_SHOWN:]
        assert done.returncode == 0, f"{job} ended with {done.returncode}\n{said}"
        record: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return record

    def tables(self, *names: str) -> Mapping[str, Rows]:
        """Return all rows of tables."""
        conf = {
            **_SMALL,
            "spark.local.dir": str(self.directory / "spark"),
            "spark.sql.warehouse.dir": str(self.directory / "catalog"),
        }
        with open_session(SessionOptions("local[2]", "768m", conf)) as spark:
            warehouse = Warehouse(spark, str(self.path))
            return {name: [row.asDict(recursive=True) for row in warehouse.read(name).collect()] for name in names}
