"""Make findings of the faults that the attribution of requests shows.

A finding is of one class and of one subject, which its id is a digest of: the same fault has the same id in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.finding_specs import SPECS, FindingSpec
from signproxy.pipeline.job import Severity

_EXAMPLES = 10
"""Requests and events that a finding names; it counts all of them."""


class FindingClass(Enum):
    """Every class of the attribution."""

    DENIED_BUT_SERVED = "denied_but_served"
    BROKEN_OFF_BUT_SERVED = "broken_off_but_served"
    PROXY_KEY_WITHOUT_STAMP = "proxy_key_without_stamp"
    UNKNOWN_STAMP = "unknown_stamp"
    STAMP_KEY_MISMATCH = "stamp_key_mismatch"
    STAMP_METHOD_MISMATCH = "stamp_method_mismatch"
    REPLAY = "replay"
    RETRY = "signature_retried"
    LATE_AFTER_REVOKE = "late_after_revoke"
    IP_MISMATCH = "ip_mismatch"
    ALLOWED_BUT_S3_DENIED = "allowed_but_s3_denied"
    UNATTRIBUTED = "unattributed"
    SIGNED_NOT_USED = "signed_not_used"

    @property
    def code(self) -> str:
        return self.value

    @property
    def spec(self) -> FindingSpec:
        return SPECS[self.value]

    @property
    def severity(self) -> Severity:
        return Severity[self.spec.severity.upper()]


EVIDENCE = (
    *("requester", "remote_ip", "event_ip", "key", "event_key", "method", "event_method", "status", "error"),
    *("op", "way", "rule_id", "policy_rev", "age_seconds", "source"),
)
"""What is told of the first request of a finding, if it is known."""


_SAME = {"event_ip": "remote_ip", "event_key": "key", "event_method": "method"}


def finding_id(class_: str, subject: Sequence[Column]) -> Column:
    """Return a finding's id: the same for the same class and subject, in each run."""
    parts = [F.coalesce(part.cast("string"), F.lit("")) for part in subject]
    return F.substring(F.sha2(F.concat_ws("\x1f", F.lit(class_), *parts), 256), 1, 26)


def findings_of(faulty: DataFrame, job: str) -> DataFrame:
    """Return the findings of rows with faults: one for each class and subject, with its first requests as evidence.

    A row has `faults`, `request_id` and what the classes' subjects and the evidence are made of.
    """
    described = faulty.withColumn("table_name", table_name())
    each = described.select("*", F.explode("faults").alias("fault"))
    identity = _chosen(lambda one: finding_id(one.code, [F.col(name) for name in one.spec.subject]))
    in_order = Window.partitionBy("finding_id").orderBy(F.col("ts").asc_nulls_last(), F.col("request_key"))
    ranked = each.withColumn("finding_id", identity).withColumn("place", F.row_number().over(in_order))
    shown = F.col("place") <= _EXAMPLES
    first = {name: F.min_by(F.col(name).cast("string"), "place") for name in EVIDENCE}
    grouped = ranked.groupBy("finding_id", "fault").agg(
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
        F.count(F.lit(1)).alias("n"),
        F.min_by("principal", "place").alias("principal"),
        F.min_by("table_name", "place").alias("table"),
        F.min_by("bucket", "place").alias("bucket"),
        F.array_join(F.array_sort(F.collect_set(F.when(shown, F.col("request_id")))), ",").alias("request_ids"),
        F.array_join(F.array_sort(F.collect_set(F.when(shown, F.col("event_id")))), ",").alias("event_ids"),
        *(column.alias(f"first_{name}") for name, column in first.items()),
    )
    told = {"request_ids": F.col("request_ids"), "event_ids": F.col("event_ids")}
    told |= {name: F.col(f"first_{name}") for name in EVIDENCE}
    # What the event says is evidence where it is something else than what the request says.
    told |= {theirs: F.nullif(told[theirs], told[ours]) for theirs, ours in _SAME.items()}
    return grouped.select(
        "finding_id",
        F.col("fault").alias("class"),
        _chosen(lambda one: F.lit(one.spec.severity)).alias("severity"),
        "first_ts",
        "last_ts",
        "n",
        "principal",
        "table",
        "bucket",
        evidence(told).alias("evidence"),
        _chosen(lambda one: F.lit(one.spec.fix)).alias("fix"),
        F.lit(job).alias("job"),
    )


def named(told: Mapping[str, Column]) -> Column:
    """Return texts by name."""
    return F.create_map(*(part for name, column in told.items() for part in (F.lit(name), column.cast("string"))))


def evidence(told: Mapping[str, Column]) -> Column:
    """Return what is known, by name, without what is not."""
    return F.map_filter(named(told), lambda _, value: value.isNotNull() & (value != ""))


def count_by(found: DataFrame, name: str) -> dict[str, int]:
    """Count rows by the text in a column."""
    return {row[name]: row["count"] for row in found.groupBy(name).count().orderBy(name).collect()}


def table_name() -> Column:
    """Return the full name of a row's table, null where it has none."""
    name = F.concat_ws(".", F.nullif("catalog", F.lit("")), F.nullif("namespace", F.lit("")), "table")
    return F.when(F.coalesce(F.col("table"), F.lit("")) != "", name)


def _chosen(of: Callable[[FindingClass], Column]) -> Column:
    """Return a value that depends on the class of a row."""
    values = [F.when(F.col("fault") == each.code, of(each)) for each in FindingClass]
    return F.coalesce(*values)
