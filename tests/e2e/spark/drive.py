"""Run a Spark job as a process in front of signproxy, its catalogs and the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from signproxy.cli.clients import Client, Mode, spark_conf
from tests.e2e.catalogs.lakehouse import ANALYST, WRITER, Lakehouse
from tests.e2e.clients import maven
from tests.e2e.clients.rig import Run
from tests.e2e.spark.install import Release

SCENARIO = Path(__file__).parent / "scenario.py"

LAKE, SECOND = "lake", "second"
"""The policy's catalogs."""
READER = "lake_reader"
"""What the session calls the first one when it is another principal."""
NAMESPACE = "sales"
TABLES = ("orders", "deltas", "made", "streamed", "closed")
SECOND_TABLES = ("copied", "once")

JOB_TIMEOUT = 1500.0
"""Seconds; a job takes 60, and as long as its stream, on two cores."""

_SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Job:
    """What a run of the scenario is given."""

    lakehouse: Lakehouse
    release: Release
    home: Path
    stream_seconds: float
    only: tuple[str, ...] = ()
    """The steps that are carried out, if not all of them are; then the heap is not kept either."""

    @property
    def heap_dump(self) -> Path:
        """Return where everything is that the JVM ever held, garbage included."""
        return self.home / "heap.hprof"

    def run(self) -> Run:
        """Run the whole scenario."""
        asked, told = self.home / "asked.json", self.home / "told.json"
        content = {
            "conf": self._conf(),
            "catalogs": {"writer": LAKE, "reader": READER, "second": SECOND},
            "stream_seconds": self.stream_seconds,
            "checkpoint": str(self.home / "checkpoint"),
            "heap_dump": "" if self.only else str(self.heap_dump),
            "only": self.only,
            "jcmd": maven.tool("jcmd"),
        }
        asked.write_text(json.dumps(content))
        command = (str(self.release.python()), str(SCENARIO), str(asked), str(told))
        # Spark would look up the machine's own name.
        settings = {"SPARK_LOCAL_IP": "127.0.0.1"}
        return self.lakehouse.rig.run(command, self.home, settings=settings, timeout=JOB_TIMEOUT, told=told)

    def _conf(self) -> dict[str, str]:
        """Return the session's configuration: three catalogs, of two users."""
        writer = self._catalog(LAKE)
        own = f"spark.sql.catalog.{LAKE}"
        # This user has a secret, and its tokens are short-lived; the others have a token for the whole job.
        writer[f"{own}.credential"] = self.lakehouse.authority.credential(WRITER)
        writer[f"{own}.scope"] = "catalog"
        writer[f"{own}.token-exchange-enabled"] = "false"
        # Where nothing is said, the client asks the catalog; through the facade, that call goes on to it.
        if self.lakehouse.mode is Mode.DIRECT or not self.lakehouse.catalogs[LAKE].grants_tokens:
            writer[f"{own}.oauth2-server-uri"] = f"{self.lakehouse.authority.url}/token"
        return {
            **_SESSION,
            **self._catalog(LAKE, name=READER, user=ANALYST),
            **self._catalog(SECOND, user=WRITER),
            **writer,
            "spark.jars": self.release.jars(),
            "spark.sql.warehouse.dir": str(self.home / "spark-warehouse"),
            "spark.local.dir": str(self.home / "spark-local"),
        }

    def _catalog(self, catalog: str, *, name: str = "", user: str = "") -> dict[str, str]:
        token = self.lakehouse.authority.token(user) if user else ""
        found = self.lakehouse.connection(Client.SPARK, catalog, self.release.iceberg, name=name, token=token)
        return spark_conf(found)
