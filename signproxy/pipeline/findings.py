"""Name what may be found in the attribution of requests: how bad it is, what it means and what to do.

A finding is of one class and of one subject, which its id is a digest of: the same fault has the same id in each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.job import Severity

_EXAMPLES = 10
"""Requests and events that a finding names; it counts all of them."""


class FindingSpec(NamedTuple):
    """What is known of a class before anything is found."""

    code: str
    severity: Severity
    what: str
    fix: str
    subject: tuple[str, ...]
    """The columns that tell two findings of the class apart: the day, and none that callers can draw anew each time."""


_WHO_ASKED = ("bucket", "requester", "remote_ip", "event_date")


class FindingClass(Enum):
    """Every class of the attribution; the value is its `FindingSpec`."""

    DENIED_BUT_SERVED = FindingSpec(
        "denied_but_served",
        Severity.CRITICAL,
        "signproxy refused to sign the request, and the store served it.",
        "See whether the store verifies signatures: send it a request with a wrong one. If it refuses that, the "
        "request was signed with signproxy's key past signproxy: replace the key. Read what was served in both cases.",
        ("event_id", "event_date"),
    )
    BROKEN_OFF_BUT_SERVED = FindingSpec(
        "broken_off_but_served",
        Severity.LOW,
        "signproxy ended a forwarded request with a refusal, and the store carried it out.",
        "Compare the object with what the client meant to write: the client was told that its request failed. The "
        "event's reason says what was wrong with it.",
        ("principal", "table_name", "bucket", "event_date"),
    )
    PROXY_KEY_WITHOUT_STAMP = FindingSpec(
        "proxy_key_without_stamp",
        Severity.CRITICAL,
        "signproxy's own access key made a request that no event of the trail explains.",
        "See first that the trail is whole: `signproxy audit verify` finds gaps at that time, and segments may not be "
        "ingested yet. If it is whole, and no other program of yours has the key, the secret may be in other hands: "
        "replace it now, and find the process at the address that the requests came from. A program of yours that was "
        "given the same key needs one of its own.",
        _WHO_ASKED,
    )
    UNKNOWN_STAMP = FindingSpec(
        "unknown_stamp",
        Severity.HIGH,
        "A request carries a stamp that no event of the trail gave.",
        "Either the event is lost (`signproxy audit verify` finds gaps at that time), or its segment is not ingested "
        "yet, or the stamp is made up. A stamp that is made up and verified by the store means that the access key "
        "may be in other hands.",
        _WHO_ASKED,
    )
    STAMP_KEY_MISMATCH = FindingSpec(
        "stamp_key_mismatch",
        Severity.HIGH,
        "A request carries the stamp of a decision about another object.",
        "If it was served, either the store does not verify what it is sent, or its log names the object otherwise "
        "than the request did: send it a request with a wrong signature, and compare the two. If it was refused, the "
        "stamp was known to its sender: the principal's client, or a reader of the store's log.",
        ("event_id", "event_date"),
    )
    STAMP_METHOD_MISMATCH = FindingSpec(
        "stamp_method_mismatch",
        Severity.HIGH,
        "A request carries the stamp of a decision about another method.",
        "If it was served, either the store does not verify what it is sent, or its log names the method otherwise "
        "than the request did: send it a request with a wrong signature, and compare the two. If it was refused, the "
        "stamp was known to its sender: the principal's client, or a reader of the store's log.",
        ("event_id", "event_date"),
    )
    REPLAY = FindingSpec(
        "replay",
        Severity.HIGH,
        "One signature was used more than once, or longer than signatures live.",
        "Compare the addresses and times. Either the client repeats requests whose answers it had, or the clocks of "
        "store and signproxy differ, or the signed request was kept by another party. Shorten `signature_ttl`, and "
        "see who could read the client's traffic.",
        ("event_id", "event_date"),
    )
    RETRY = FindingSpec(
        "signature_retried",
        Severity.INFO,
        "A client used a signature again after an answer that was cut off, failed or said 404.",
        "Nothing, as long as they are few: clients repeat what failed. Many of them mean that connections to the store "
        "break off, or that its answers fail.",
        ("principal", "table_name", "bucket", "event_date"),
    )
    LATE_AFTER_REVOKE = FindingSpec(
        "late_after_revoke",
        Severity.HIGH,
        "A principal was served after its right had been withdrawn, later than signatures live.",
        "Compare the time at which every worker took the policy "
        "(`signproxy_config_reload_last_success_timestamp_seconds`) with the revoke; withdraw vended keys at the "
        "store.",
        ("principal", "table_name", "event_date"),
    )
    IP_MISMATCH = FindingSpec(
        "ip_mismatch",
        Severity.MEDIUM,
        "A signature was asked for by one address and used by another.",
        "Expected where clients reach signproxy and the store by different ways. Otherwise the signed request may have "
        "been passed on: look at the two addresses.",
        ("principal", "event_ip", "remote_ip", "event_date"),
    )
    ALLOWED_BUT_S3_DENIED = FindingSpec(
        "allowed_but_s3_denied",
        Severity.LOW,
        "signproxy allowed a request, and the store refused it.",
        "Compare the store's policy for signproxy's credentials with the tables' locations. With a bad signature, "
        "either the request was changed on its way, or the credentials were replaced meanwhile, or the clocks differ.",
        ("principal", "table_name", "bucket", "event_date"),
    )
    UNATTRIBUTED = FindingSpec(
        "unattributed",
        Severity.MEDIUM,
        "The store served requests that no event of the trail explains.",
        "See first that the trail is whole and ingested. Then find out whose credentials these are, and withdraw their "
        "access to the bucket; if a service of yours has to have it, name it with `--known-services`.",
        _WHO_ASKED,
    )
    SIGNED_NOT_USED = FindingSpec(
        "signed_not_used",
        Severity.INFO,
        "Requests were signed that the store's log does not have.",
        "Nothing, as long as they are few: clients sign and do not send, and stores do not promise to log everything.",
        ("principal", "table_name", "bucket", "event_date"),
    )

    @property
    def code(self) -> str:
        return self.value.code

    @property
    def severity(self) -> Severity:
        return self.value.severity


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
    named = each.withColumn("finding_id", _chosen(lambda spec: finding_id(spec.code, [F.col(c) for c in spec.subject])))
    in_order = Window.partitionBy("finding_id").orderBy(F.col("ts").asc_nulls_last(), F.col("request_key"))
    ranked = named.withColumn("place", F.row_number().over(in_order))
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
        _chosen(lambda spec: F.lit(spec.severity.word), "fault").alias("severity"),
        "first_ts",
        "last_ts",
        "n",
        "principal",
        "table",
        "bucket",
        evidence(told).alias("evidence"),
        _chosen(lambda spec: F.lit(spec.fix), "fault").alias("fix"),
        F.lit(job).alias("job"),
    )


def evidence(told: Mapping[str, Column]) -> Column:
    """Return what is known, by name, without what is not."""
    pairs = [part for name, column in told.items() for part in (F.lit(name), column.cast("string"))]
    return F.map_filter(F.create_map(*pairs), lambda _, value: value.isNotNull() & (value != ""))


def table_name() -> Column:
    """Return the full name of a row's table, null where it has none."""
    name = F.concat_ws(".", F.nullif("catalog", F.lit("")), F.nullif("namespace", F.lit("")), "table")
    return F.when(F.coalesce(F.col("table"), F.lit("")) != "", name)


def _chosen(of: object, column: str = "fault") -> Column:
    """Return a value that depends on the class of a row."""
    assert callable(of)  # noqa: S101
    chosen: Column | None = None
    for each in FindingClass:
        condition = F.col(column) == each.code
        value = of(each.value)
        chosen = F.when(condition, value) if chosen is None else chosen.when(condition, value)
    assert chosen is not None  # noqa: S101
    return chosen
