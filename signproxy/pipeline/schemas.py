"""Declare every table of the warehouse: its columns, their types, and by what it is laid out.

The columns of `events` are those of the server's own `AuditEvent`, derived from it; all others stand in `tables.toml`.
"""

from __future__ import annotations

import types
import typing
from enum import Enum
from importlib.resources import files

import msgspec
from pyspark.sql import types as spark

from signproxy.audit.event import AuditEvent

CORRUPT = "_corrupt_record"
"""Where Spark's reader leaves a line that it could not read."""

DAY = "event_date"
BATCH = "ingest_batch"
JOB = "job"

_KINDS: dict[str, spark.DataType] = {
    "text": spark.StringType(),
    "long": spark.LongType(),
    "int": spark.IntegerType(),
    "double": spark.DoubleType(),
    "bool": spark.BooleanType(),
    "time": spark.TimestampType(),
    "day": spark.DateType(),
    "texts": spark.ArrayType(spark.StringType()),
    "map": spark.MapType(spark.StringType(), spark.StringType(), valueContainsNull=True),
}


class WarehouseTable(msgspec.Struct, frozen=True):
    """A table of the warehouse."""

    name: str
    summary: str
    columns: spark.StructType

    @property
    def partitions(self) -> tuple[str, ...]:
        """The columns by which its files are laid out, which stand in their paths."""
        have = self.columns.names
        return (JOB,) if JOB in have else tuple(name for name in (DAY, BATCH) if name in have)


class DeclaredTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as the file declares it."""

    summary: str
    columns: str


def _type_of(annotation: object) -> spark.DataType:
    origin = typing.get_origin(annotation)
    if origin is tuple:
        return spark.ArrayType(_type_of(typing.get_args(annotation)[0]))
    if isinstance(origin, types.UnionType):
        raise TypeError(f"{annotation} has no column type")
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return spark.StringType()
    return _KINDS[{str: "text", int: "long", bool: "bool", float: "double"}[annotation]]  # type: ignore[index]  # a type is a key


EVENT_LINE = spark.StructType(
    [
        spark.StructField("schema", spark.StringType()),
        *(spark.StructField(field.encode_name, _type_of(field.type)) for field in msgspec.structs.fields(AuditEvent)),
    ]
)
"""A line of a segment, as the server writes it; the first and the last line of a segment have fields beside."""


def _columns(text: str) -> list[spark.StructField]:
    return [spark.StructField(name, _KINDS[kind]) for name, kind in (part.split(":") for part in text.split())]


def _events() -> spark.StructType:
    fields = {field.name: field for field in EVENT_LINE.fields if field.name != "schema"}
    fields["ts"] = spark.StructField("ts", spark.TimestampType())
    return spark.StructType([*fields.values(), *_columns("segment:text event_date:day ingest_batch:long")])


_DECLARED = msgspec.toml.decode(
    files("signproxy.pipeline").joinpath("tables.toml").read_bytes(), type=dict[str, DeclaredTable]
)
TABLES = {"events": WarehouseTable("events", "Every audit event, once.", _events())} | {
    name: WarehouseTable(name, one.summary, spark.StructType(_columns(one.columns))) for name, one in _DECLARED.items()
}


def table(name: str) -> WarehouseTable:
    """Return a table by its name."""
    return TABLES[name]
