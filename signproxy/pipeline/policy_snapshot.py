"""Read what `signproxy policy export` printed: the tables, and who was granted what, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.errors import Finding, Invalid
from signproxy.pipeline.schemas import CORRUPT, DAY, table

EXPORT_SCHEMA = "signproxy.policy-export/1"

_LINE = (
    "kind string, schema string, policy_rev string, exported_at string, principal string, roles array<string>, "
    "catalog string, namespace string, table string, volume string, uuid string, locations array<string>, "
    "grant_id string, principal_role string, via_role string, privilege string, resource string, granted_at string, "
    f"at string, {CORRUPT} string"
)
_ID = 24
"""Hexadecimal digits of a grant's id."""

GRANT = tuple(name for name in table("grants").columns.names if name not in ("granted_at", DAY))


class Export(msgspec.Struct, frozen=True):
    """An export among the inputs."""

    file: str
    policy_rev: str
    exported_at: datetime

    @property
    def day(self) -> date:
        """The day that it is entered under."""
        return self.exported_at.date()


def read_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines of exports, each with its file. Raise Invalid where one is no JSON: the export was cut."""
    if not paths:
        raise Invalid([Finding("", "--input", "names what `signproxy policy export` wrote")])
    lines = (
        spark.read.schema(_LINE)
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("recursiveFileLookup", "true")
        .json(list(paths))
        .select("*", F.col("_metadata.file_path").alias("file"))
        .withColumnRenamed("at", "withdrawn_at")
    )
    torn = lines.where(F.col(CORRUPT).isNotNull()).select("kind", CORRUPT, "file").first()
    if torn is not None:
        raise Invalid([Finding("", "--input", f"{torn['file']}: {torn[CORRUPT][:40]!r} is no line of an export")])
    return lines.drop(CORRUPT)


def exports_of(lines: DataFrame) -> list[Export]:
    """Return the exports, the oldest first. Raise Invalid where there is none, or one of another version."""
    heads = lines.where(F.col("kind") == "policy").select("file", "schema", "policy_rev", "exported_at").collect()
    wrong = [head for head in heads if head["schema"] != EXPORT_SCHEMA]
    if wrong or not heads:
        problem = f"{wrong[0]['file']}: schema {wrong[0]['schema']!r} is not known" if wrong else "holds no export"
        raise Invalid([Finding("", "--input", problem)])
    found = [Export(head["file"], head["policy_rev"], datetime.fromisoformat(head["exported_at"])) for head in heads]
    return sorted(found, key=lambda export: export.exported_at)


def grants_in(lines: DataFrame, exports: Sequence[Export], before: DataFrame, since: date | None) -> DataFrame:
    """Return the grants of the newest export with the time since when each is known to be there.

    That is the earliest of: what a line itself says; the oldest export that has it; what was known `before`
    (grant_id, granted_at); `since`, for grants of the very oldest export, whose beginning no export shows.
    """
    newest, oldest = exports[-1], exports[0]
    spark = lines.sparkSession
    times = spark.createDataFrame(
        [(export.file, export.exported_at) for export in exports], "file string, at timestamp"
    )
    told = F.to_timestamp(F.nullif(F.col("granted_at"), F.lit("")))
    known = F.col("at")
    if since is not None:
        earlier_still = F.least(F.lit(since).cast("timestamp"), known)
        known = F.when(known == F.lit(oldest.exported_at), earlier_still).otherwise(known)
    granted = (
        lines.where(F.col("kind") == "grant")
        .join(F.broadcast(times), "file")
        .select(
            *GRANT, (F.col("file") == F.lit(newest.file)).alias("stands"), F.coalesce(told, known).alias("granted_at")
        )
    )
    if len(exports) > 1:
        first = granted.groupBy("grant_id").agg(F.min("granted_at").alias("earliest"))
        granted = granted.where("stands").join(first, "grant_id").withColumn("granted_at", F.col("earliest"))
    earlier = before.select("grant_id", F.col("granted_at").alias("_before"))
    return (
        granted.join(earlier, "grant_id", "left")
        .withColumn("granted_at", F.least("granted_at", "_before"))
        .select(*GRANT, "granted_at", F.lit(newest.day).alias("event_date"))
        .dropDuplicates(["grant_id"])
    )


def tables_in(lines: DataFrame, export: Export) -> DataFrame:
    """Return the tables of an export."""
    return lines.where((F.col("kind") == "table") & (F.col("file") == F.lit(export.file))).select(
        "catalog", "namespace", "table", "uuid", "locations", F.lit(export.day).alias("event_date")
    )


def held_grants(grants: DataFrame, bearers: DataFrame) -> DataFrame:
    """Return the grants with a row for each principal who has them.

    `bearers` (principal, principal_role) is what tokens brought, as the audit trail saw it. A grant for the bearers of
    a role stands for each of them, unless the policy itself gives them that role. A grant that no principal has
    remains as it is, without a principal.
    """
    own = grants.where(F.col("principal").isNotNull())
    brought = grants.where(F.col("principal").isNull())
    declared = own.select("principal", "principal_role").distinct()
    new = bearers.join(declared, ["principal", "principal_role"], "left_anti")
    theirs = brought.drop("principal").join(new, "principal_role")
    theirs = theirs.withColumn(
        "grant_id", F.substring(F.sha2(F.concat_ws("\x1e", "principal", "grant_id"), 256), 1, _ID)
    )
    given = declared.select("principal_role").union(new.select("principal_role")).distinct()
    unheld = brought.join(given, "principal_role", "left_anti")
    columns = grants.columns
    return own.select(*columns).union(theirs.select(*columns)).union(unheld.select(*columns))
