"""Granted against used: what is in use, what is not, what is too young to tell, and what could go."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's own pages have it

from signproxy.pipeline.grant_use import Action, Period, grant_use, recommendations
from signproxy.pipeline.uses import TrailSpan, catalogs_with_calls, uses
from tests.pipeline.event_rows import at, event, events, grant, grants

DAYS = 120
NOW = at(DAYS)


def judged(spark: SparkSession, given: list[dict[str, Any]], trail: list[dict[str, Any]], **period: Any) -> DataFrame:
    """Judge grants by events, and by one more of another principal, which says until when the trail reaches."""
    everything = events(spark, event(at(0), principal="idp/zoe"), *trail, event(NOW, principal="idp/zoe"))
    within = Period(TrailSpan(at(0), NOW), **period)
    used = uses(everything, within.trail.since(within.age))
    return grant_use(grants(spark, *given), used, within, catalogs_with_calls(used))


def states(
    spark: SparkSession, given: list[dict[str, Any]], trail: list[dict[str, Any]], **period: Any
) -> dict[str, str]:
    return {row["grant_id"]: row["state"] for row in judged(spark, given, trail, **period).collect()}


def test_a_read_uses_signing_and_reading(spark: SparkSession) -> None:
    """A grant in daily use would be withdrawn."""
    given = [grant(name, f"TABLE_{name}") for name in ("REMOTE_SIGN", "READ_DATA", "WRITE_DATA", "DROP")]
    assert states(spark, given, [event(at(100))]) == {
        "REMOTE_SIGN": "used",
        "READ_DATA": "used",
        "WRITE_DATA": "unused",
        # No catalog calls are seen here, so nothing can be said of dropping.
        "DROP": "not_observed",
    }


def test_what_a_request_uses(spark: SparkSession) -> None:
    """Rights would be judged by requests of another kind, table or principal."""
    cases: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({"access": "write"}, {"sign", "write"}),
        ({"access": "delete"}, {"sign", "write"}),
        ({"access": "list"}, {"sign", "read"}),
        ({"access": "list", "s3_op": "ListParts"}, {"sign", "write"}),
        ({"kind": "forward"}, {"sign", "read"}),
        # Keys are handed out for what would be signed.
        ({"kind": "vend", "access": "read"}, {"sign", "read"}),
        ({"kind": "vend", "access": "read-write"}, {"sign", "write"}),
        # What was refused, failed, or was served against the policy stands on no grant.
        ({"decision": "deny"}, set()),
        ({"decision": "error"}, set()),
        ({"observed": "no_read_data"}, set()),
        ({"principal": "idp/somebody"}, set()),
        # The rights are those of the view's owner.
        ({"effective_principal": "idp/owner"}, set()),
        ({"principal": "idp/somebody", "effective_principal": "THE ONE"}, {"sign", "read"}),
        ({"table": "orders2"}, set()),
        ({"catalog": "lake2"}, set()),
        ({"namespace": "sales\x1forders"}, set()),
    )
    given, trail = [], []
    for number, (fields, _) in enumerate(cases):
        one = f"idp/{number}"
        trail.append(event(at(100), **{"principal": one} | fields))
        if "effective_principal" in fields:
            trail[-1]["effective_principal"] = fields["effective_principal"].replace("THE ONE", one)
        given += [
            grant(f"{number}-{privilege}", f"TABLE_{privilege}", principal=one)
            for privilege in ("REMOTE_SIGN", "READ_DATA", "WRITE_DATA")
        ]
    found = states(spark, given, trail)
    assert set(found.values()) == {"used", "unused"}
    short = {"sign": "REMOTE_SIGN", "read": "READ_DATA", "write": "WRITE_DATA"}
    for number, (fields, used) in enumerate(cases):
        assert {name for name in short if found[f"{number}-{short[name]}"] == "used"} == used, fields


def test_a_use_stands_on_the_narrowest_privilege(spark: SparkSession) -> None:
    """Writing that is never done would look used wherever a principal reads; withdrawn, a reader would lose nothing."""
    wide = [grant("all", "CATALOG_MANAGE_CONTENT", "catalog:lake")]
    write = [grant("write", "TABLE_WRITE_DATA"), grant("sign", "TABLE_REMOTE_SIGN")]
    read = [grant("read", "TABLE_READ_DATA", "namespace:lake.sales"), grant("same", "TABLE_READ_DATA", via_role="b")]
    trail = [event(at(100), kind="vend")]
    assert states(spark, [*wide, *write, *read], trail) == {
        "all": "not_observed",
        "write": "unused",
        "sign": "used",
        # Two of equal breadth: either could be the one.
        "read": "used",
        "same": "used",
    }
    # What implies a privilege is in use where nothing narrower is there.
    assert states(spark, [*wide, *write], trail) == {"all": "not_observed", "write": "used", "sign": "used"}
    assert states(spark, wide, trail) == {"all": "used"}


def test_grants_reach_what_is_below_them(spark: SparkSession) -> None:
    """A grant on a namespace would look unused, or one beside it would look used."""
    reaching = ("catalog:lake", "namespace:lake.sales", "namespace:lake.sales.eu", "table:lake.sales.eu.orders")
    beside = (
        "catalog:lak",
        "namespace:lake.sale",
        "namespace:lake.sales.e",
        "namespace:lake.eu",
        "namespace:lake.sales.eu.orders",
        "table:lake.sales.orders",
        "table:lake.sales.eu.order",
        "volume:lake.orders",
    )
    given = [grant(resource, "TABLE_READ_DATA", resource) for resource in (*reaching, *beside)]
    found = states(spark, given, [event(at(100), namespace="sales\x1feu")])
    assert found == dict.fromkeys(reaching, "used") | dict.fromkeys(beside, "unused")


def test_volumes_have_privileges_of_their_own(spark: SparkSession) -> None:
    """Grants on data that is no table would all be proposed for withdrawal."""
    given = [
        grant("read", "VOLUME_READ_DATA", "volume:lake.stage"),
        grant("other", "VOLUME_READ_DATA", "volume:lake.stage2"),
        grant("manage", "VOLUME_MANAGE", "volume:lake.stage"),
        grant("table", "TABLE_READ_DATA", "catalog:lake"),
    ]
    trail = [event(at(100), "", kind="forward", namespace="", volume="stage")]
    assert states(spark, given, trail) == {
        "read": "used",
        "other": "unused",
        "manage": "not_observed",
        "table": "unused",
    }


def test_catalog_calls_are_uses(spark: SparkSession) -> None:
    """A principal that only loads tables through the catalog would lose the right to it."""
    given = [
        grant("load", "TABLE_READ_PROPERTIES"),
        grant("drop", "TABLE_DROP"),
        grant("elsewhere", "TABLE_DROP", "catalog:hive"),
        grant("metadata", "TABLE_FULL_METADATA", "table:lake.sales.other"),
    ]
    trail = [event(at(100), kind="catalog", call="load_table", access="", s3_op="")]
    assert states(spark, given, trail) == {
        "load": "used",
        # Calls of this catalog are seen, so a drop would have been, too.
        "drop": "unused",
        "elsewhere": "not_observed",
        # Reading a metadata file by its key needs it, which no summary shows.
        "metadata": "not_observed",
    }


def test_a_call_that_names_places_in_its_body_uses_whatever_may_have_allowed_it(spark: SparkSession) -> None:
    """A rename needs rights where it leads to, and the event does not say where."""
    given = [
        grant("create", "TABLE_CREATE", "namespace:lake.archive"),
        grant("theirs", "TABLE_CREATE", "namespace:lake.archive", principal="idp/bob"),
        grant("list", "NAMESPACE_LIST", "namespace:lake.archive"),
    ]
    trail = [event(at(100), kind="catalog", call="rename_table", access="", s3_op="")]
    assert states(spark, given, trail) == {"create": "used", "theirs": "unused", "list": "unused"}


def test_a_copy_uses_what_its_source_is_read_by(spark: SparkSession) -> None:
    """The event is about the table that was written; the source's grant stands in its rule alone."""
    given = [
        grant("source", "TABLE_READ_DATA", "table:lake.sales.source"),
        grant("beside", "TABLE_READ_DATA", "table:lake.sales.beside"),
        grant("drop", "TABLE_DROP", "table:lake.sales.source"),
    ]
    rule = "writer@table:lake.sales.orders+reader@table:lake.sales.source"
    copied = event(at(100), access="write", s3_op="CopyObject", rule_id=rule)
    assert states(spark, given, [copied]) == {"source": "used", "beside": "unused", "drop": "not_observed"}
    # Of what is no copy, the rule is not needed: the table says it all.
    assert states(spark, given, [copied | {"s3_op": "PutObject"}])["source"] == "unused"


def test_age_is_counted_from_the_last_event(spark: SparkSession) -> None:
    """A grant of last week, or one that a yearly job used last month, would be proposed for withdrawal."""
    cases = (
        (89.9, 1000, "used"),
        (90.1, 1000, "unused"),
        (None, 90.1, "unused"),
        (None, 89.9, "too_young"),
        # Used long before, and granted anew: it is too early to say.
        (100, 5, "too_young"),
        # As young as it is, it is used.
        (1, 5, "used"),
    )
    given = [
        grant(str(number), "TABLE_READ_DATA", principal=f"idp/{number}", granted_at=at(DAYS - granted))
        for number, (_, granted, _) in enumerate(cases)
    ]
    trail = [
        event(at(DAYS - ago), principal=f"idp/{number}") for number, (ago, _, _) in enumerate(cases) if ago is not None
    ]
    assert states(spark, given, trail) == {str(number): state for number, (_, _, state) in enumerate(cases)}


def test_uses_are_counted(spark: SparkSession) -> None:
    """A grant in daily use would look like one that was used once."""
    trail = [event(at(10)), event(at(100)), event(at(101), count=5), event(at(101), "items")]
    (row,) = judged(spark, [grant("g", "TABLE_READ_DATA", "namespace:lake.sales")], trail).collect()
    # The first is older than 90 days.
    assert (row["uses_90d"], row["last_used"]) == (7, at(101).replace(tzinfo=None))


def recommended(found: DataFrame, **period: Any) -> set[tuple[Any, ...]]:
    marked = found.withColumn("declared", F.col("principal_role") != "brought")
    wanted = recommendations(marked, Period(TrailSpan(at(0), NOW), **period))
    return {
        (
            row["action"],
            row["via_role"] or row["principal"],
            row["privilege"] or row["principal_role"],
            row["principals"],
        )
        for row in wanted.collect()
    }


def test_a_grant_goes_where_it_is_not_used(spark: SparkSession) -> None:
    """A policy grants to roles: what one principal does not use, another may live by."""
    given = [
        grant("ann-read", "TABLE_READ_DATA"),
        grant("bob-read", "TABLE_READ_DATA", principal="idp/bob"),
        grant("ann-write", "TABLE_WRITE_DATA"),
        grant("bob-write", "TABLE_WRITE_DATA", principal="idp/bob"),
        grant("cid-write", "TABLE_WRITE_DATA", principal="idp/cid", via_role="writer", granted_at=at(DAYS - 1)),
        grant("dan-write", "TABLE_WRITE_DATA", principal="idp/dan", via_role="writer"),
    ]
    found = judged(spark, given, [event(at(100))])
    assert recommended(found) == {
        (Action.WITHDRAW_GRANT, "reader", "TABLE_WRITE_DATA", 2),
        # Bob uses nothing of what is left of bob's role; Dan's role is shared with a user who got it yesterday.
        (Action.TAKE_ROLE, "idp/bob", "analyst", 1),
        (Action.TAKE_ROLE, "idp/dan", "analyst", 1),
    }


def test_a_role_that_a_token_brings_is_not_the_policys_to_take(spark: SparkSession) -> None:
    """A patch would name a role that the policy never gave."""
    given = [
        grant("ann-read", "TABLE_READ_DATA"),
        grant("bob-read", "TABLE_READ_DATA", principal="idp/bob", principal_role="brought"),
    ]
    assert recommended(judged(spark, given, [event(at(100))])) == set()


def test_a_grant_that_no_principal_has_goes_too(spark: SparkSession) -> None:
    """It waits for the principal that gets the role next."""
    given = [grant("g", "TABLE_READ_DATA", principal=None, principal_role=None)]
    assert recommended(judged(spark, given, [])) == {(Action.WITHDRAW_GRANT, "reader", "TABLE_READ_DATA", 0)}


def test_nothing_is_withdrawn_by_a_trail_that_is_too_short(spark: SparkSession) -> None:
    """A trail of a month says nothing of a job that runs each quarter."""
    found = judged(spark, [grant("g", "TABLE_READ_DATA")], [])
    assert {action for action, *_ in recommended(found, age=122)} == {Action.WAIT}
    assert {action for action, *_ in recommended(found, age=121)} == {Action.WITHDRAW_GRANT}
    assert {action for action, *_ in recommended(found, age=122, observed=30)} == {Action.WITHDRAW_GRANT}
