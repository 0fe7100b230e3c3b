"""Run the jobs of the pipeline wherever Spark may run: here, on a cluster, behind Spark Connect; all on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pyspark

from signproxy.pipeline.session import java_home
from tests.e2e.stores.install import virtualenv
from tests.e2e.stores.process import Server, free_ports, listens

LIMIT = 600
"""Seconds for one job on a machine that has other things to do."""

_SPARK_HOME = Path(pyspark.__file__).parent
_ROOT = Path(__file__).parents[3]
_CONNECT_NEEDS = (
    "grpcio==1.76.0",
    "googleapis-common-protos==1.71.0",
    "pandas==2.3.3",
    "pyarrow==22.0.0",
    "zstandard==0.25.0",
    "numpy<2.4",
)
"""What Spark's own client of Spark Connect asks for; the version that is given is `grpcio-status`'s."""

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
}

Steps = Sequence[Sequence[str]]


class Place(msgspec.Struct, frozen=True):
    """How a job's command begins where Spark runs, how it ends, and what stands in its environment."""

    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    env: Mapping[str, str] = {}

    def run(self, steps: Steps, warehouse: Path) -> None:
        """Run jobs one after the other; each has to end with its record."""
        for step in steps:
            done = subprocess.run(
                (*self.before, *step, "--warehouse", str(warehouse), "--json", *self.after),
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            shown = done.stdout[-3000:], done.stderr[-3000:]
            # 5: segments are cut and doubled, which is what `ingest` has to say.
            assert done.returncode in (0, 5), (step, done.returncode, *shown)
            assert json.loads(done.stdout.splitlines()[-1])["job"] == step[0], shown


def here() -> Place:
    """Return the plainest way: in the job's own process."""
    conf = ("--conf", "spark.sql.shuffle.partitions=2")
    return Place((sys.executable, "-m", "signproxy", "pipeline"), ("--master", "local[2]", *conf))


@contextmanager
def cluster(directory: Path) -> Iterator[Place]:
    """Run a master and a worker, and submit to them as clusters are submitted to."""
    master, master_ui, worker, worker_ui = free_ports(4)
    url = f"spark://127.0.0.1:{master}"
    env = {**_java(), "SPARK_NO_DAEMONIZE": "1", "SPARK_WORKER_DIR": str(directory / "work")}
    spark_class = str(_SPARK_HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    at_master = ("--host", "127.0.0.1", "--port", str(master), "--webui-port", str(master_ui))
    at_worker = ("--host", "127.0.0.1", "--port", str(worker), "--webui-port", str(worker_ui), "--cores", "2", url)
    with ExitStack() as stack:
        for name, port, arguments in (
            ("master", master_ui, (f"{deploy}.master.Master", *at_master)),
            ("worker", worker_ui, (f"{deploy}.worker.Worker", *at_worker)),
        ):
            server = Server(f"spark-{name}", (spark_class, *arguments), directory, env=env)
            stack.callback(server.stop)
            server.wait_until(lambda port=port: listens(port))  # type: ignore[misc]  # the port of this turn
        conf = [f"--conf={name}={value}" for name, value in _QUIET.items()]
        submit = str(_SPARK_HOME / "bin" / "spark-submit")
        entry = str(_ROOT / "deploy" / "pipeline" / "entrypoint.py")
        yield Place((submit, "--master", url, *conf, entry), env=env)


@contextmanager
def connect(directory: Path) -> Iterator[Place]:
    """Run a server of Spark Connect, and ask it as a client does that has no Java."""
    (port,) = free_ports(1)
    needs = virtualenv("grpcio-status", "1.76.0", *_CONNECT_NEEDS)
    libraries = needs.parent / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    env = {**_java(), "PYTHONPATH": f"{libraries}{os.pathsep}{_ROOT}"}
    conf = {**_QUIET, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = (
        str(_SPARK_HOME / "bin" / "spark-submit"),
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master=local[2]",
        *(f"--conf={name}={value}" for name, value in conf.items()),
        "spark-internal",
    )
    server = Server("spark-connect", command, directory, env=env)
    try:
        server.wait_until(lambda: listens(port))
        asking = {
            "SPARK_REMOTE": f"sc://127.0.0.1:{port}",
            "PYTHONPATH": env["PYTHONPATH"],
            "JAVA_HOME": "/nonexistent",
        }
        yield Place((sys.executable, "-m", "signproxy", "pipeline"), env=asking)
    finally:
        server.stop()


def _java() -> dict[str, str]:
    return {"JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
