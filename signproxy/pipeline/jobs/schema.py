"""Print every table of the warehouse, from the one place that declares them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, StructType

from signproxy.pipeline.job import JobContext, JobOutcome
from signproxy.pipeline.schemas import TABLES


def run(context: JobContext) -> JobOutcome:  # noqa: ARG001 - as all jobs are called
    """Return the tables as one JSON document; nothing is read."""
    return JobOutcome(text=json.dumps(described(), indent=2))


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


_PLAIN: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "long": {"type": "integer"},
    "integer": {"type": "integer"},
    "double": {"type": "number"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "map": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
}


def _type_of(kind: DataType) -> Mapping[str, Any]:
    return (
        {"type": "array", "items": _type_of(kind.elementType)}
        if isinstance(kind, ArrayType)
        else _PLAIN[kind.typeName()]
    )
