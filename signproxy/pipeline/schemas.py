"""Declare every table of the warehouse: its columns, their types, and by what it is laid out.

The columns of `events` are those of the server's own `AuditEvent`, derived from it: there is no second list to forget.
"""

from __future__ import annotations

import types
import typing
from enum import Enum

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from signproxy.audit.event import SCHEMA, AuditEvent

__all__ = ["CORRUPT", "EVENT_LINE", "SCHEMA", "TABLES", "WarehouseTable", "table"]

CORRUPT = "_corrupt_record"
"""Where Spark's reader leaves a line that it could not read."""

DAY = "event_date"
BATCH = "ingest_batch"


class WarehouseTable(msgspec.Struct, frozen=True):
    """A table of the warehouse."""

    name: str
    columns: StructType
    partitions: tuple[str, ...] = (DAY,)
    """The columns by which its files are laid out, which stand in their paths."""
    summary: str = ""


def _type_of(annotation: object) -> DataType:
    origin = typing.get_origin(annotation)
    if origin is tuple:
        return ArrayType(_type_of(typing.get_args(annotation)[0]))
    if isinstance(origin, types.UnionType):
        raise TypeError(f"{annotation} has no column type")
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return StringType()
    return {str: StringType(), int: LongType(), bool: BooleanType(), float: DoubleType()}[annotation]  # type: ignore[index]  # a type is a key


def _event_fields() -> list[StructField]:
    hints = typing.get_type_hints(AuditEvent)
    names = [field.name for field in msgspec.structs.fields(AuditEvent)]
    return [StructField("schema", StringType()), *(StructField(name, _type_of(hints[name])) for name in names)]


EVENT_LINE = StructType(_event_fields())
"""A line of a segment, as the server writes it; the first and the last line of a segment have fields beside."""


def _columns(text: str) -> StructType:
    kinds: dict[str, DataType] = {
        "text": StringType(),
        "long": LongType(),
        "int": IntegerType(),
        "double": DoubleType(),
        "bool": BooleanType(),
        "time": TimestampType(),
        "day": DateType(),
        "texts": ArrayType(StringType()),
        "map": MapType(StringType(), StringType(), valueContainsNull=True),
    }
    pairs = [part.split(":") for part in text.split()]
    return StructType([StructField(name, kinds[kind]) for name, kind in pairs])


def _events() -> StructType:
    fields = [
        StructField("ts", TimestampType()) if field.name == "ts" else field
        for field in EVENT_LINE.fields
        if field.name != "schema"
    ]
    return StructType([*fields, StructField("segment", StringType()), *_columns("event_date:day ingest_batch:long")])


TABLES = {
    one.name: one
    for one in (
        WarehouseTable("events", _events(), (DAY, "ingest_batch"), "Every audit event, once."),
        WarehouseTable(
            "quarantine",
            _columns("segment:text reason:text line:text path:text ingest_batch:long"),
            ("ingest_batch",),
            "Lines and whole segments that were not taken, and why.",
        ),
        WarehouseTable(
            "segments",
            _columns(
                "segment:text instance:text boot_id:text number:long first_seq:long last_seq:long said:long good:long "
                "quarantined:long sha256:text previous_sha256:text sealed_by:text verdict:text bytes:long "
                "sealed_at:time version:text path:text run_id:text ingest_batch:long"
            ),
            ("ingest_batch",),
            "The ledger: one row for each segment that was ever read.",
        ),
        WarehouseTable(
            "s3_access",
            _columns(
                "ts:time bucket:text key_raw:text key:text remote_ip:text requester:text account:text role:text "
                "session_name:text access_key_id:text request_id:text op:text method:text stamp:text status:int "
                "error:text bytes_sent:long object_size:long total_ms:double tat_ms:double user_agent:text "
                "auth_type:text tls:text version_id:text source:text src_file:text quality:texts "
                "event_date:day ingest_batch:long"
            ),
            (DAY, "ingest_batch"),
            "Requests as the stores' own logs have them.",
        ),
        WarehouseTable(
            "s3log_files",
            _columns(
                "path:text source:text good:long quarantined:long bytes:long verdict:text run_id:text ingest_batch:long"
            ),
            ("ingest_batch",),
            "The ledger of the stores' logs: one row for each file that was ever read.",
        ),
        WarehouseTable(
            "reconciled",
            _columns("inputs:text event_date:day"),
            summary="Of what each day was reconciled, so that it is done again only when something came.",
        ),
        WarehouseTable(
            "access_attribution",
            _columns(
                "request_key:text class:text event_id:text principal:text effective_principal:text catalog:text "
                "namespace:text table:text ts:time bucket:text key:text method:text op:text status:int bytes_sent:long "
                "application:text query_id:text rule_id:text policy_rev:text source:text request_id:text stamp:text "
                "remote_ip:text requester:text error:text way:text event_ts:time event_ip:text event_key:text "
                "event_method:text decision:text expires_at:text age_seconds:long faults:texts object_size:long "
                "decided_at:time event_date:day"
            ),
            summary="Each request of the stores' logs, with exactly one class.",
        ),
        WarehouseTable(
            "findings",
            _columns(
                "finding_id:text class:text severity:text first_ts:time last_ts:time n:long principal:text table:text "
                "bucket:text evidence:map fix:text job:text"
            ),
            ("job",),
            "What an operator should look at, with its evidence and what to do.",
        ),
        WarehouseTable(
            "access_daily",
            _columns(
                "principal:text effective_principal:text catalog:text namespace:text table:text access:text "
                "decision:text n:long bytes:long queries:long first_ts:time last_ts:time event_date:day"
            ),
            summary="Who touched which table, by day.",
        ),
        WarehouseTable(
            "access_queries",
            _columns(
                "application:text query_id:text principal:text tables:long reads:long writes:long bytes:long "
                "first_ts:time last_ts:time event_date:day"
            ),
            summary="The same by the engine's own word for its query.",
        ),
        WarehouseTable(
            "grant_use",
            _columns(
                "grant_id:text principal:text via_role:text privilege:text resource:text granted_at:time "
                "last_used:time uses_90d:long state:text principal_role:text catalog:text namespace:text table:text "
                "volume:text"
            ),
            (),
            "Each grant and whether anybody uses it.",
        ),
        WarehouseTable(
            "blast_radius",
            _columns(
                "principal:text mode:text n_root:long entitled:long held_max:long held_avg:double effective_max:long "
                "violations:long exposure_table_seconds:double reduction_factor:double used_tables_7d:long "
                "used_tables_30d:long used_tables_90d:long over_entitlement:double"
            ),
            (),
            "How much a principal could reach, and how much it did.",
        ),
        WarehouseTable(
            "recommendations",
            _columns(
                "action:text grant_id:text principal:text privilege:text resource:text reason:text last_used:time "
                "via_role:text principal_role:text catalog:text namespace:text table:text volume:text principals:long"
            ),
            (),
            "Grants that could be withdrawn; never withdrawn by itself.",
        ),
        WarehouseTable(
            "grants",
            _columns(
                "grant_id:text principal:text principal_role:text via_role:text privilege:text resource:text "
                "catalog:text namespace:text table:text volume:text granted_at:time event_date:day"
            ),
            summary="The grants of a policy export, by the day of the export.",
        ),
        WarehouseTable(
            "policy_tables",
            _columns("catalog:text namespace:text table:text uuid:text locations:texts event_date:day"),
            summary="The tables of a policy export, by the day of the export.",
        ),
        WarehouseTable(
            "revocation_latency",
            _columns("principal:text resource:text kind:text revoked_at:time last_success:time seconds:double n:long"),
            (),
            "How long a withdrawn right went on to work, by way.",
        ),
        WarehouseTable(
            "denial_bursts",
            _columns("principal:text minute:time n:long median:double mad:double reasons:map event_date:day"),
            summary="Minutes with far more refusals than the days before.",
        ),
        WarehouseTable(
            "first_seen",
            _columns("principal:text catalog:text namespace:text table:text access:text first_ts:time event_date:day"),
            summary="What a principal touched for the first time.",
        ),
        WarehouseTable(
            "enumeration",
            _columns("principal:text hour:time tables:long refused:long first_ts:time last_ts:time event_date:day"),
            summary="Who tried many tables in a short time.",
        ),
        WarehouseTable(
            "table_cost",
            _columns(
                "catalog:text namespace:text table:text class:text requests:long bytes:long small_gets:long "
                "cost:double small_file_tax:double bucket:text small_bytes:long event_date:day"
            ),
            summary="Requests and bytes by table, priced.",
        ),
        WarehouseTable(
            "data_quality",
            _columns("source:text problem:text n:long example:text event_date:day job:text"),
            ("job",),
            "What the inputs lacked or contradicted, so that no finding rests on it.",
        ),
    )
}


def table(name: str) -> WarehouseTable:
    """Return a table by its name."""
    return TABLES[name]
