"""Prove that the tables have what the server writes, and that jobs keep to what runs everywhere."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StructType

from signproxy.audit.event import AuditEvent, Kind, Verdict
from signproxy.audit.ids import new_event_id
from signproxy.audit.segments import SegmentSettings, SegmentSink
from signproxy.pipeline import schemas
from signproxy.pipeline.intake import _AS_JSON, _LINES, _judged
from tests.audit.events import encoded
from tests.pipeline.segments import BOOT, DAY

JOBS = Path(schemas.__file__).parent
EDGES = (Kind.SEGMENT_START, Kind.SEGMENT_END)

_TEXT = st.text(max_size=40)
_NUMBER = st.integers(min_value=0, max_value=2**63 - 1)
_OF_TYPE: dict[object, st.SearchStrategy[typing.Any]] = {
    str: _TEXT,
    int: _NUMBER,
    bool: st.booleans(),
    tuple[str, ...]: st.lists(_TEXT, max_size=3).map(tuple),
}


def _events() -> st.SearchStrategy[AuditEvent]:
    """Return events with anything in every field, derived from the definition: a new field is drawn by itself."""
    hints = typing.get_type_hints(AuditEvent)
    fields: dict[str, st.SearchStrategy[typing.Any]] = {
        name: _OF_TYPE[hints[name]]
        for name in AuditEvent.__struct_fields__
        if name not in ("kind", "decision", "event_id", "seq", "ts", "boot_id")
    }
    return st.fixed_dictionaries(fields).flatmap(
        lambda values: st.builds(
            lambda kind, decision: AuditEvent(event_id=new_event_id(), kind=kind, decision=decision, **values),
            st.sampled_from([kind for kind in Kind if kind not in EDGES]),
            st.sampled_from(Verdict),
        )
    )


def _plain(event: AuditEvent) -> dict[str, object]:
    """Return every field as text, number, truth or list; what the wire leaves out as what it stands for."""
    return {name: msgspec.to_builtins(getattr(event, name)) for name in event.__struct_fields__}


def _default(name: str) -> object:
    return {field.name: field.default for field in msgspec.structs.fields(AuditEvent)}[name]


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(events=st.lists(_events(), min_size=1, max_size=25))
def test_what_the_server_writes_is_what_spark_reads(
    events: list[AuditEvent], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A field of another type, or text that is folded on its way, makes evidence of something that never was."""
    directory = tmp_path_factory.mktemp("audit")
    sink = SegmentSink(SegmentSettings(directory, "pod-1", "0.1.0"))
    lines = encoded(BOOT, [(index + 1, DAY + index / 7, event) for index, event in enumerate(events)])
    sink.write(lines, len(events))
    sink.close()
    written = [msgspec.json.decode(line, type=AuditEvent) for line in lines.splitlines()]

    read = spark.read.schema(_LINES).options(**_AS_JSON).json(str(directory / "audit/v1/*/*.gz"))
    rows = sorted(_judged(read).collect(), key=lambda row: int(row["seq"]))
    assert [row["_reason"] for row in rows] == [None] * len(written)
    for row, event in zip(rows, written, strict=True):
        found = {name: _default(name) if row[name] is None else row[name] for name in AuditEvent.__struct_fields__}
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        expected = {name: list(v) if isinstance(v, tuple) else v for name, v in _plain(event).items()}
        assert found == expected
        assert row["_at"].isoformat(timespec="microseconds") + "Z" == event.ts


def test_the_table_of_events_has_every_field_of_the_writer() -> None:
    """A field that the table lacks is written for no reader."""
    names = set(schemas.table("events").columns.names)
    assert names == set(AuditEvent.__struct_fields__) | {"segment", "event_date", "ingest_batch"}
    assert schemas.EVENT_LINE.names[0] == "schema"


def test_every_table_is_laid_out_by_columns_that_it_has() -> None:
    """A table that lies by a column which is not there cannot be written."""
    for one in schemas.TABLES.values():
        assert set(one.partitions) <= set(one.columns.names), one.name
        assert one.summary.endswith("."), one.name
        assert len(set(one.columns.names)) == len(one.columns.names), one.name


def test_only_types_that_every_reader_knows_are_used() -> None:
    """Iceberg, DuckDB and pandas read the files too."""

    def simple(columns: StructType) -> set[str]:
        kinds = [
            field.dataType.elementType if isinstance(field.dataType, ArrayType) else field.dataType
            for field in columns.fields
        ]
        return {kind.simpleString() for kind in kinds}

    known = {"string", "bigint", "int", "double", "boolean", "timestamp", "date", "map<string,string>"}
    for one in schemas.TABLES.values():
        assert simple(one.columns) <= known, one.name


# Without them a job runs here, on a cluster, and by a client that has no Java.
FORBIDDEN = re.compile(r"\b(_jvm|_jsc|_jdf|sparkContext|\.rdd\b|\.toPandas|pandas_udf|F\.udf|@udf|\.foreachPartition)")


def test_jobs_keep_to_what_spark_connect_has() -> None:
    """A job that reaches into Java works on a laptop and fails on the platform."""
    sources = sorted(JOBS.rglob("*.py"))
    assert len(sources) >= 10
    found = [
        f"{path.relative_to(JOBS)}: {line.strip()}"
        for path in sources
        for line in path.read_text().splitlines()
        if FORBIDDEN.search(line)
    ]
    assert found == []
