"""Tell an Iceberg catalog which files a table of the warehouse has, through PyIceberg; nothing is copied or rewritten.

Spark writes the partition columns into paths, not into files. So the tables by day are partitioned by the day of `ts`,
which PyIceberg reads from each file's own statistics, and have neither `event_date` nor `ingest_batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import count
from typing import Any, NamedTuple

from pyiceberg import types
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from pyspark.sql import types as spark

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.schemas import DAY

TIME = "ts"
_SPEC_FIELD = 1000
_ONE = timedelta(days=1)

_PLAIN: Mapping[type[spark.DataType], type[types.IcebergType]] = {
    spark.StringType: types.StringType,
    spark.LongType: types.LongType,
    spark.IntegerType: types.IntegerType,
    spark.DoubleType: types.DoubleType,
    spark.BooleanType: types.BooleanType,
    spark.TimestampType: types.TimestamptzType,
    spark.DateType: types.DateType,
}


class SnapshotChange(NamedTuple):
    """What a commit did to a table."""

    added: int
    removed: int


def open_catalog(name: str, namespace: str) -> Catalog:
    """Open a catalog as PyIceberg's own configuration names it, and see to the namespace. Raise Invalid."""
    try:
        catalog = load_catalog(name)
    except Exception as error:  # noqa: BLE001 - each kind of catalog has its own for what its configuration lacks
        problem = f"{name!r}: {type(error).__name__}: {error}"
        raise Invalid([Finding("", "--catalog", f"{problem}; see PyIceberg's configuration")]) from None
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    return catalog


def table_of(catalog: Catalog, identifier: str, columns: spark.StructType, *, by_day: bool) -> Table:
    """Return the table, made or widened so that it has these columns."""
    schema = schema_of(columns)
    try:
        table = catalog.load_table(identifier)
    except NoSuchTableError:
        spec = PartitionSpec()
        if by_day:
            source = schema.find_field(TIME).field_id
            spec = PartitionSpec(PartitionField(source, _SPEC_FIELD, DayTransform(), f"{TIME}_day"))
        return catalog.create_table(identifier, schema=schema, partition_spec=spec)
    if {field.name for field in schema.fields} - {field.name for field in table.schema().fields}:
        with table.update_schema() as update:
            update.union_by_name(schema)
    return table


def publish_days(table: Table, files: Mapping[date, Iterable[str]]) -> SnapshotChange:
    """Commit, at once, that the table has these files and no others; a day whose files went is put in anew."""
    known: dict[date, set[str]] = {}
    for path in _files_of(table):
        known.setdefault(date.fromisoformat(path.partition(f"{DAY}=")[2][:10]), set()).add(path)
    now = {day: set(paths) for day, paths in files.items()}
    stale = {day for day, paths in known.items() if paths - now.get(day, set())}
    fresh = sorted(
        path for day, paths in now.items() for path in (paths if day in stale else paths - known.get(day, set()))
    )
    if not stale and not fresh:
        return SnapshotChange(0, 0)
    with table.transaction() as transaction:
        for day in sorted(stale):
            begins, ends = (f"{each}T00:00:00+00:00" for each in (day, day + _ONE))
            transaction.delete(And(GreaterThanOrEqual(TIME, begins), LessThan(TIME, ends)))
        if fresh:
            # What is there was looked up above; PyIceberg's own check reads every manifest once more.
            transaction.add_files(fresh, check_duplicate_files=False)
    return SnapshotChange(len(fresh), sum(len(known[day]) for day in stale))


def publish_whole(table: Table, paths: Sequence[str]) -> SnapshotChange:
    """Commit, at once, that the table has these files instead of those that it had."""
    before = len(list(_files_of(table)))
    with table.transaction() as transaction:
        if before:
            transaction.delete(AlwaysTrue())
        if paths:
            transaction.add_files(list(paths), check_duplicate_files=False)
    return SnapshotChange(len(paths), before)


def schema_of(columns: spark.StructType) -> Schema:
    """Return columns as Iceberg has them; a catalog gives them numbers of its own."""
    numbers = count(1)
    fields = [
        types.NestedField(next(numbers), field.name, _type_of(field.dataType, numbers), required=False)
        for field in columns.fields
    ]
    return Schema(*fields)


def _type_of(kind: spark.DataType, numbers: Any) -> types.IcebergType:
    match kind:
        case spark.ArrayType():
            return types.ListType(next(numbers), _type_of(kind.elementType, numbers), element_required=False)
        case spark.MapType():
            key, value = next(numbers), next(numbers)
            of_key, of_value = _type_of(kind.keyType, numbers), _type_of(kind.valueType, numbers)
            return types.MapType(key, of_key, value, of_value, value_required=False)
        case _:
            return _PLAIN[type(kind)]()


def _files_of(table: Table) -> Iterable[str]:
    return (task.file.file_path for task in table.scan().plan_files())
