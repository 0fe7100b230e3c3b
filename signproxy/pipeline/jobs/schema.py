"""Print every table of the warehouse, from the one place that declares them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StructType,
    TimestampType,
)

from signproxy.pipeline.job import JobContext, Outcome
from signproxy.pipeline.schemas import TABLES


def run(context: JobContext) -> Outcome:  # noqa: ARG001 - as all jobs are called
    """Return the tables as one JSON document; nothing is read."""
    return Outcome(text=json.dumps(described(), indent=2))


def described() -> dict[str, Any]:
    """Return each table's columns as Spark has them, and as a JSON Schema of its rows."""
    return {
        one.name: {
            "summary": one.summary,
            "partitions": list(one.partitions),
            "spark": one.columns.jsonValue(),
            "json_schema": _rows_of(one.columns),
        }
        for one in TABLES.values()
    }


def _rows_of(columns: StructType) -> Mapping[str, Any]:
    # Any column may be null: what the server leaves out is.
    properties = {field.name: {"anyOf": [_type_of(field.dataType), {"type": "null"}]} for field in columns.fields}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _type_of(kind: DataType) -> Mapping[str, Any]:
    match kind:
        case ArrayType():
            return {"type": "array", "items": _type_of(kind.elementType)}
        case MapType():
            return {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
        case BooleanType():
            return {"type": "boolean"}
        case LongType() | IntegerType():
            return {"type": "integer"}
        case DoubleType():
            return {"type": "number"}
        case TimestampType():
            return {"type": "string", "format": "date-time"}
        case DateType():
            return {"type": "string", "format": "date"}
        case _:
            return {"type": "string"}
