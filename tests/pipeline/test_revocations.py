"""What was withdrawn, and how long it went on to work: by way, to the second, and not a use too many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from signproxy.errors import Invalid
from signproxy.pipeline.policy_snapshot import read_lines
from signproxy.pipeline.revocations import late, latency, revocations, uses_after
from tests.pipeline.event_rows import at, event, events, rows

READ, SIGN, WRITE = "TABLE_READ_DATA", "TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"
TABLE = "table:lake.sales.orders"
Grant = tuple[str, str, str]


def export(directory: Path, rev: str, day: float, grants: list[Grant], *more: dict[str, Any]) -> str:
    """Write what `signproxy policy export` prints."""
    head = {"kind": "policy", "schema": "signproxy.policy-export/1", "policy_rev": rev,
            "exported_at": at(day).isoformat()}  # fmt: skip
    lines = [{"kind": "grant", "principal": who, "privilege": what, "resource": where} for who, what, where in grants]
    path = directory / f"{rev}.ndjson"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in (head, *lines, *more)))
    return str(path)


def _revoked(spark: SparkSession, paths: list[str], *given: dict[str, Any]) -> dict[Grant, tuple[Any, Any]]:
    found = revocations(read_lines(spark, paths), events(spark, *given)).collect()
    assert len({tuple(row) for row in found}) == len(found)
    return {
        (row["principal"], row["privilege"], row["resource"]): (row["revoked_at"].timestamp(), row["until"])
        for row in found
    }


def test_what_stood_and_stands_no_more_was_withdrawn(spark: SparkSession, tmp_path: Path) -> None:
    """A revoke is not written down; it is the difference of two policies, and begins when the second was in force."""
    before = export(tmp_path, "one", 0, [("ann", READ, TABLE), ("ann", SIGN, TABLE), ("bob", READ, TABLE),
                                         ("eve", READ, TABLE), ("kim", READ, TABLE)])  # fmt: skip
    left = [("ann", SIGN, TABLE), ("bob", READ, "namespace:lake.sales"), ("eve", READ, "catalog:lake")]
    after = export(tmp_path, "two", 10, [*left, ("kim", READ, "namespace:lake.sale")])
    found = _revoked(spark, [before, after], event(at(3), policy_rev="two"), event(at(4), policy_rev="two"))
    # A grant further up goes on to give it; one that is only named alike does not.
    assert {key[:2] for key in found} == {("ann", READ), ("kim", READ)}
    # As soon as an event was judged by it, and not only when it was printed.
    assert {at_ for at_, _ in found.values()} == {at(3).timestamp()}
    # Without an event of that policy, all that is known is when it was printed.
    assert {at_ for at_, _ in _revoked(spark, [before, after]).values()} == {at(10).timestamp()}


def test_a_policy_is_in_force_when_it_decides_and_not_when_a_transfer_ends(spark: SparkSession, tmp_path: Path) -> None:
    """A transfer of an hour would move the revoke by an hour, and hide what happened meanwhile."""
    before = export(tmp_path, "one", 0, [("ann", READ, TABLE)])
    after = export(tmp_path, "two", 10, [])
    long = event(at(4), policy_rev="two", decided_at=at(3).isoformat())
    assert [moment for moment, _ in _revoked(spark, [before, after], long).values()] == [at(3).timestamp()]


def test_an_export_may_say_when_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Who knows better than the difference of two exports is believed."""
    said = {"kind": "revoked", "principal": "ann", "privilege": READ, "resource": TABLE, "at": at(2).isoformat()}
    before = export(tmp_path, "one", 0, [("ann", READ, TABLE)])
    after = export(tmp_path, "two", 10, [], said)
    found = _revoked(spark, [before, after])
    assert [moment for moment, _ in found.values()] == [at(2).timestamp()]
    assert _revoked(spark, [before]) == {}


def test_an_export_that_was_cut_is_none(spark: SparkSession, tmp_path: Path) -> None:
    """Half an export looks as if the other half had been withdrawn."""
    path = Path(export(tmp_path, "one", 0, [("ann", READ, TABLE)]))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(Invalid, match="no line of an export"):
        read_lines(spark, [str(path)])


def use(name: str, seconds: float, **changes: Any) -> dict[str, Any]:
    """Return a request that was served, so long after the revoke."""
    ts = at(1, seconds=seconds)
    made = {
        "request_key": f"aws:{name}", "request_id": name, "class": "stamp", "decision": "allow", "way": "sign",
        "status": 200, "principal": "ann", "catalog": "lake", "namespace": "sales", "table": "orders", "method": "GET",
        "ts": ts, "event_ts": at(1, seconds=min(seconds, 0) - 1), "event_date": ts.date(),
    }  # fmt: skip
    return made | changes


USES = (
    use("before", -5),
    use("last", 40),
    use("later-refused", 60, status=403),
    use("later-unproven", 70, **{"class": "probable"}),
    use("other-table", 80, table="stock"),
    use("other-principal", 80, principal="bob"),
    use("a-write", 80, method="PUT"),
    # Whose right it is that was asked for counts, not who asked.
    use("for-ann", 41, principal="view-owner", effective_principal="ann"),
    use("vended", 3000, way="vend", **{"class": "session"}, expires_at=at(1, seconds=3200).isoformat()),
    use("vended-over", 3400, way="vend", **{"class": "session"}, expires_at=at(1, seconds=3200).isoformat()),
    use("decided-late", 90, way="forward", **{"class": "request_id"}, event_ts=at(1, seconds=90)),
    use("decided-in-time", 30, way="forward", **{"class": "request_id"}, event_ts=at(1, seconds=30)),
    # A transfer that began before the revoke, and ended long after it.
    use(
        "held-open",
        0,
        way="forward",
        **{"class": "request_id"},
        decided_at=at(1, seconds=-1),
        event_ts=at(1, seconds=4000),
    ),
    use(
        "held-open-late",
        90,
        way="forward",
        **{"class": "request_id"},
        decided_at=at(1, seconds=90),
        event_ts=at(1, seconds=4000),
    ),
)


def test_the_last_success_of_each_way_is_measured(spark: SparkSession) -> None:
    """What a revoke is worth is a number for each way: seconds for what is forwarded, an hour for keys."""
    columns = "principal string, privilege string, resource string, revoked_at timestamp, until timestamp"
    revoked = spark.createDataFrame([("ann", READ, TABLE, at(1), None), ("kim", READ, TABLE, at(1), None)], columns)
    found = uses_after(revoked, rows(spark, "access_attribution", USES)).cache()
    assert {row["request_key"].removeprefix("aws:") for row in found.collect()} == {
        *("last", "for-ann", "vended", "vended-over", "decided-late", "decided-in-time", "held-open", "held-open-late")
    }
    measured = {
        (row["principal"], row["kind"]): (row["seconds"], row["n"]) for row in latency(revoked, found).collect()
    }
    assert measured == {
        ("ann", "sign"): (41.0, 2),
        ("ann", "vend"): (3400.0, 2),
        ("ann", "forward"): (90.0, 4),
        ("kim", ""): (0.0, 0),
    }
    # A signature that was made before is what a revoke cannot take back; a decision that came later could have known.
    told = {row["request_id"] for row in late(found, 60).collect()}
    assert told == {"decided-late", "held-open-late", "vended-over"}
    assert {row["request_id"] for row in late(found, 10_000).collect()} == set()


def test_what_was_given_back_is_no_late_use(spark: SparkSession) -> None:
    """A principal that has its right again would be reported for using it."""
    columns = "principal string, privilege string, resource string, revoked_at timestamp, until timestamp"
    revoked = spark.createDataFrame([("ann", READ, TABLE, at(1), at(1, seconds=50))], columns)
    found = uses_after(revoked, rows(spark, "access_attribution", USES)).collect()
    assert {row["request_id"] for row in found} == {"last", "for-ann", "decided-in-time", "held-open"}


@pytest.mark.parametrize(
    ("privilege", "resource", "expected"),
    (
        (READ, "namespace:lake.sales", {"read"}),
        (READ, "catalog:lake", {"read"}),
        (READ, "namespace:lake.sale", set()),
        (READ, "table:lake.sales.order", set()),
        (WRITE, TABLE, {"write"}),
        (SIGN, TABLE, {"read", "write"}),
        ("TABLE_DROP", TABLE, set()),
    ),
)
def test_only_uses_of_the_right_that_was_withdrawn_count(
    spark: SparkSession, privilege: str, resource: str, expected: set[str]
) -> None:
    """A right to write that is gone says nothing of reads, nor a namespace of one that begins alike."""
    columns = "principal string, privilege string, resource string, revoked_at timestamp, until timestamp"
    revoked = spark.createDataFrame([("ann", privilege, resource, at(1), None)], columns)
    given = (use("read", 5), use("write", 5, method="PUT"))
    found = uses_after(revoked, rows(spark, "access_attribution", given)).collect()
    assert {row["request_id"] for row in found} == expected
