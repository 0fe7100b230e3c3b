"""How far rights reach, what was held at once, what vended keys open: the arithmetic of a theft."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from signproxy.pipeline.reach import blast_radius, effective_reach, entitled, held, with_keys
from signproxy.pipeline.uses import trail_of, uses
from tests.pipeline.event_rows import at, ends, event, events, grant, grants, policy_tables, rows

TABLES = (
    *(f"lake.sales.{name}" for name in ("a", "b", "c")),
    *(f"lake.sales.eu.{name}" for name in ("a", "b")),
    *("lake.sale.a", "lake.hr.a", "hive.sales.a"),
)


def may(principal: str, *resources: str, privileges: tuple[str, ...] = ("REMOTE_SIGN", "READ_DATA")) -> list[Any]:
    return [
        grant(f"{principal} {privilege} {resource}", f"TABLE_{privilege}", resource, principal=principal)
        for resource in resources
        for privilege in privileges
    ]


def test_entitled_counts_each_table_once(spark: SparkSession) -> None:
    """A table that is granted by name, by namespace and by catalog would count three times, or none of them."""
    given = [
        *may("catalog", "catalog:lake", "namespace:lake.sales", "table:lake.sales.a"),
        *may("namespace", "namespace:lake.sales"),
        *may("nested", "namespace:lake.sales.eu", "table:lake.sales.eu.a", "table:lake.sales.a"),
        *may("table", "table:lake.sales.a"),
        *may("both", "catalog:lake", "catalog:hive"),
        *may("gone", "table:lake.sales.gone"),
        # Reading without signing, and signing without reading, is of no use.
        *may("reads", "catalog:lake", privileges=("READ_DATA",)),
        *may("signs", "catalog:lake", privileges=("REMOTE_SIGN",)),
        # What both privileges reach counts, from whichever side it is narrower.
        *may("narrow", "catalog:lake", privileges=("REMOTE_SIGN",)),
        *may("narrow", "namespace:lake.sales.eu", "table:hive.sales.a", privileges=("WRITE_DATA",)),
        *may("wide", "catalog:lake", privileges=("READ_DATA",)),
        *may("wide", "table:lake.hr.a", "namespace:lake.sales.eu", privileges=("REMOTE_SIGN",)),
        grant("all", "CATALOG_MANAGE_CONTENT", "catalog:lake", principal="manager"),
        grant("stage", "VOLUME_READ_DATA", "volume:lake.stage", principal="stage"),
    ]
    found = entitled(grants(spark, *given), policy_tables(spark, *TABLES)).collect()
    assert {row["principal"]: row["entitled"] for row in found} == {
        "catalog": 7,
        "namespace": 5,
        "nested": 3,
        "table": 1,
        "both": 8,
        "narrow": 2,
        "wide": 3,
        "manager": 7,
    }


def key(principal: str, table: str, minutes: float, until: float, **fields: Any) -> dict[str, Any]:
    ts = at(minutes=minutes)
    return event(ts, table, principal=principal, kind="vend", expires_at=ends(ts, minutes=until - minutes), **fields)


def test_held_is_what_was_open_at_once(spark: SparkSession) -> None:
    """The 4 of "10,000 to 4" would be a sum over the day, or count one table for each of its keys."""
    trail = [
        # Two tables that overlap, and a third that begins as the first ends.
        *(key("three", "a", 0, 60), key("three", "b", 30, 90), key("three", "c", 60, 120)),
        # One table by four keys is one table, for as long as any of them is good.
        *(key("again", "a", minutes, minutes + 60) for minutes in (0, 30, 45, 200)),
        # Within a minute, and one that ends inside another.
        *(key("dense", "a", 0, 60), key("dense", "a", 0.5, 20), key("dense", "a", 10, 20)),
        key("named", "a", 0, 60),
        key("named", "a", 0, 60, namespace="hr"),
        key("refused", "a", 0, 60, decision="deny"),
        event(at(0), principal="signed"),
        event(at(0), principal="passed", kind="forward"),
        event(at(0), principal="owned", effective_principal="owner"),
    ]
    found = {
        (row["principal"], row["mode"]): (row["held_max"], row["exposure_table_seconds"])
        for row in held(events(spark, *trail)).collect()
    }
    assert found == {
        ("three", "vend"): (2, 3 * 3600.0),
        ("again", "vend"): (1, 105 * 60 + 3600.0),
        ("dense", "vend"): (1, 3600.0),
        ("named", "vend"): (2, 2 * 3600.0),
        ("signed", "sign"): (1, 900.0),
        ("owner", "sign"): (1, 900.0),
    }


def test_vended_keys_open_their_table_and_no_other(spark: SparkSession) -> None:
    """A table named `*`, or a location inside another, opens what was never granted: the gate must see it."""
    tables = policy_tables(spark, *TABLES)
    odd = rows(
        spark,
        "policy_tables",
        [{"catalog": "lake", "namespace": "sales", "table": "*", "locations": ["s3://lake/wh/sales/*"]}],
    )
    cases = {
        "own": (["s3://lake/wh/sales/a/"], 1, 0),
        "bare": (["s3://lake/wh/sales/a"], 1, 0),
        "star": (["s3://lake/wh/sales/a/*"], 1, 0),
        "part": (["s3://lake/wh/sales/a/data/", "s3://lake/wh/sales/a/metadata/"], 1, 0),
        # As text the neighbour's name begins alike.
        "nothing": (["s3://lake/wh/sal/"], None, None),
        # sales, sales.eu and the odd one.
        "wide": (["s3://lake/wh/sales/"], 6, 5),
        "other": (["s3://lake/wh/sales/b/"], 1, 1),
        "glob": (["s3://lake/wh/sales/*/data/"], 0, 0),
        "unescaped": (["s3://lake/wh/s*/a/"], 3, 2),
    }
    trail = [
        event(at(0), "a", principal=name, kind="vend", prefixes=prefixes) for name, (prefixes, _, _) in cases.items()
    ]
    found = {
        row["principal"]: (row["effective_max"], row["violations"])
        for row in effective_reach(events(spark, *trail), tables.union(odd)).collect()
    }
    del cases["nothing"], cases["glob"]
    assert found == {name: (opened, beyond) for name, (_, opened, beyond) in cases.items()}


def test_keys_that_came_with_a_loaded_table_were_held(spark: SparkSession) -> None:
    """Most keys come so: only those that were refreshed would count."""
    loaded = {"kind": "catalog", "call": "load_table", "access": "read"}
    trail = [
        event(at(0), "a", principal="keyed", access_key_id="ABCD", expires_at=ends(at(0), minutes=60), **loaded),
        event(at(0), "b", principal="plain", **{**loaded, "access": None}),
    ]
    found = held(with_keys(events(spark, *trail))).collect()
    assert [(row["principal"], row["mode"], row["held_max"]) for row in found] == [("keyed", "vend", 1)]
    assert with_keys(events(spark, *trail)).count() == 3


def radius(spark: SparkSession, given: list[Any], trail: list[Any], tables: DataFrame) -> dict[Any, Any]:
    everything = events(spark, *trail)
    reach = trail_of(everything)
    assert reach is not None
    used = uses(everything, reach.since(90))
    found = blast_radius(everything, used, grants(spark, *given), tables, reach).collect()
    return {(row["principal"], row["mode"]): row for row in found}


def test_ten_thousand_to_four(spark: SparkSession) -> None:
    """The number that the whole product is for would be wrong."""
    names = [f"lake.unit{number % 5}.t{number}" for number in range(10_000)]
    now: datetime = at(100)
    trail = [event(at(0), "t1", namespace="unit1", principal="job")]
    trail += [event(now, f"t{number}", namespace=f"unit{number % 5}", principal="job") for number in range(3)]
    trail += [event(now, "t3", namespace="unit3", principal="job", access="write")]
    trail += [event(at(100 - days), f"t{days}", namespace="unit1", principal="job") for days in (6, 8, 29, 31, 89, 91)]
    trail += [event(now, "t1", namespace="unit1", principal="idle", kind="forward")]
    given = [*may("job", "catalog:lake"), *may("idle", "table:lake.unit1.t1"), *may("none", "namespace:lake.unit0")]
    found = radius(spark, given, trail, policy_tables(spark, *names))
    assert set(found) == {("job", "sign"), ("idle", "forward"), ("none", "none")}
    job = found["job", "sign"]
    assert (job["n_root"], job["entitled"], job["held_max"], job["reduction_factor"]) == (10_000, 10_000, 4, 2500.0)
    assert (job["used_tables_7d"], job["used_tables_30d"], job["used_tables_90d"]) == (5, 7, 9)
    assert job["over_entitlement"] == pytest.approx(1 - 7 / 10_000)
    assert job["exposure_table_seconds"] == 11 * 900
    assert job["held_avg"] == pytest.approx(11 * 900 / (100 * 86400))
    idle = found["idle", "forward"]
    # What is forwarded leaves nothing that could be stolen and used for itself.
    assert (idle["entitled"], idle["held_max"], idle["reduction_factor"], idle["over_entitlement"]) == (1, 0, None, 0.0)
    assert (found["none", "none"]["entitled"], found["none", "none"]["over_entitlement"]) == (2000, 1.0)
