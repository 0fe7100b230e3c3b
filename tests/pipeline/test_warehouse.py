"""Prove that tables are replaced where they are written, and nowhere else."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from signproxy.pipeline import session as sessions
from signproxy.pipeline.job import Days
from signproxy.pipeline.session import SETTINGS, SessionOptions
from signproxy.pipeline.warehouse import Warehouse

TYPES = "principal string, n long, event_date date"
FIRST, SECOND = date(2026, 11, 1), date(2026, 11, 2)


def _days(warehouse: Warehouse) -> list[tuple[str, date]]:
    return sorted((row["principal"], row["event_date"]) for row in warehouse.read("access_daily").collect())


def test_a_table_that_was_never_written_is_empty(warehouse: Warehouse) -> None:
    """The first report of all comes before the first finding."""
    assert not warehouse.exists("findings")
    assert warehouse.read("findings").count() == 0
    assert warehouse.batch("events", 1).count() == 0
    assert "evidence" in warehouse.read("findings").columns


def test_a_day_that_is_written_again_takes_its_own_place(spark: SparkSession, warehouse: Warehouse) -> None:
    """A day that is counted anew must neither double nor wipe out the others."""
    warehouse.replace("access_daily", spark.createDataFrame([("a", 1, FIRST), ("b", 1, SECOND)], TYPES))
    warehouse.replace("access_daily", spark.createDataFrame([("c", 1, FIRST)], TYPES))
    assert warehouse.exists("access_daily")
    assert _days(warehouse) == [("b", SECOND), ("c", FIRST)]
    assert warehouse.read("access_daily", Days(last=FIRST)).count() == 1


def test_a_day_of_which_nothing_is_left_is_emptied(spark: SparkSession, warehouse: Warehouse) -> None:
    """A burst that late events explained away would stand in the table for ever."""
    rows = [("a", 1, FIRST), ("b", 1, SECOND), ("c", 1, date(2026, 11, 3))]
    warehouse.replace_days("access_daily", spark.createDataFrame(rows, TYPES))
    warehouse.replace_days("access_daily", spark.createDataFrame([("d", 1, SECOND)], TYPES), Days(FIRST, SECOND))
    assert _days(warehouse) == [("c", date(2026, 11, 3)), ("d", SECOND)]


def test_what_a_job_finds_no_more_is_gone(spark: SparkSession, warehouse: Warehouse) -> None:
    """A fault that was repaired must leave the table of findings, and those of other jobs must not."""
    types = "finding_id string, job string, evidence map<string,string>"
    for job in ("ingest", "reconcile"):
        warehouse.replace("findings", spark.createDataFrame([(job, job, {"a": "b"})], types), {"job": job})
    warehouse.replace("findings", spark.createDataFrame([], types), {"job": "ingest"})
    assert [row["job"] for row in warehouse.read("findings").collect()] == ["reconcile"]


def test_a_batch_is_read_by_its_number(spark: SparkSession, warehouse: Warehouse) -> None:
    """What a batch wrote is counted after it was written, and nothing else with it."""
    types = "event_id string, ts timestamp, event_date date, ingest_batch long"
    at = datetime(2026, 11, 1)  # noqa: DTZ001 - as Spark has them
    rows = [("a", at, FIRST, 1), ("b", at, SECOND, 1), ("c", at, FIRST, 2)]
    warehouse.replace("events", spark.createDataFrame(rows, types))
    assert sorted(row["event_id"] for row in warehouse.batch("events", 1).collect()) == ["a", "b"]
    assert warehouse.read("events").where("ingest_batch = 2").count() == 1


def test_a_column_that_the_table_does_not_have_is_a_fault(spark: SparkSession, warehouse: Warehouse) -> None:
    """A misspelt column would be dropped, and its values with it."""
    with pytest.raises(ValueError, match="access_daily has no column principle"):
        warehouse.replace("access_daily", spark.createDataFrame([("a",)], "principle string"))


def test_a_column_that_came_later_is_null_in_what_was_written_before(
    spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """A new version must read the tables of the old one."""
    old = spark.createDataFrame([("a", FIRST)], "principal string, event_date date")
    old.write.partitionBy("event_date").parquet(str(tmp_path / "warehouse" / "access_daily"))
    row = warehouse.read("access_daily").first()
    assert row is not None
    assert (row["principal"], row["queries"]) == ("a", None)


# -- the session ---------------------------------------------------------------------------------------------------


class _Builder:
    """Keeps what a session is asked to be."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}

    def appName(self, name: str) -> _Builder:  # noqa: N802 - Spark's
        return self

    def remote(self, url: str) -> _Builder:
        self.said["remote"] = url
        return self

    def master(self, url: str) -> _Builder:
        self.said["master"] = url
        return self

    def config(self, name: str, value: str) -> _Builder:
        self.said[name] = value
        return self

    def getOrCreate(self) -> _Builder:  # noqa: N802 - Spark's
        return self


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> _Builder:
    for name in ("SPARK_REMOTE", "MASTER", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    made = _Builder()
    monkeypatch.setattr(sessions, "SparkSession", type("Session", (), {"builder": made}))
    monkeypatch.setattr(sessions, "java_home", lambda: "java")
    monkeypatch.setenv("JAVA_HOME", "before")
    return made


def test_spark_runs_here_and_listens_nowhere(builder: _Builder) -> None:
    """A job on a laptop must not open its interface to the office."""
    sessions._session(SessionOptions(memory="2g"))
    assert builder.said["master"] == "local[*]"
    assert builder.said["spark.driver.memory"] == "2g"
    assert builder.said["spark.driver.bindAddress"] == "127.0.0.1"
    assert builder.said["spark.ui.enabled"] == "false"
    assert SETTINGS.items() <= builder.said.items()


def test_what_submitted_the_job_says_where_it_runs(builder: _Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was submitted to a cluster would otherwise run in its driver alone, and not tell."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    sessions._session(SessionOptions())
    assert "master" not in builder.said
    assert "spark.driver.bindAddress" not in builder.said
    assert SETTINGS.items() <= builder.said.items()


def test_an_option_beats_the_environment_and_the_operator_beats_all(
    builder: _Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who names a master or a setting means it."""
    monkeypatch.setenv("MASTER", "spark://elsewhere:7077")
    sessions._session(SessionOptions(conf={"spark.sql.shuffle.partitions": "7", "spark.ui.enabled": "true"}))
    assert builder.said["master"] == "spark://elsewhere:7077"
    assert builder.said["spark.sql.shuffle.partitions"] == "7"
    sessions._session(SessionOptions("local[3]", conf={"spark.ui.enabled": "true"}))
    assert (builder.said["master"], builder.said["spark.ui.enabled"]) == ("local[3]", "true")


def test_a_server_of_spark_connect_is_used_where_one_is_named(
    builder: _Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There no Java is needed on this side."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark:15002")
    sessions._session(SessionOptions())
    assert builder.said["remote"] == "sc://spark:15002"
    assert "master" not in builder.said
