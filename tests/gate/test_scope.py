"""Prove that a token which is good for one table signs for that table and for nothing else."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.model import Principal, TableScope
from tests.inventory.learned_rig import Site, facts, policy, principal

DECLARED = """tables:
- {namespace: sales, name: orders, location: "s3://lake/wh/orders", uuid: uuid-orders}
- {namespace: sales, name: other, location: "s3://lake/wh/other"}
- {namespace: sales.eu, name: orders, location: "s3://lake/wh/eu"}
"""
SCOPE = TableScope("lake", "sales", "orders", "uuid-orders")


def _site(kind: str, options: str = "") -> Site:
    if kind == "declared":
        text = policy(options, more=DECLARED).replace(", tables: upstream", "")
        return Site(
            text.replace(
                "- {role: lender, namespace: sales, table: lent", "- {role: lender, namespace: sales, table: other"
            )
        )
    site = Site(policy(options))
    site.live(facts(), facts("other"), facts(location="s3://lake/wh/eu", uuid="eu", namespace="sales\x1feu"))
    return site


def _caller(scope: TableScope = SCOPE) -> Principal:
    return principal("owner", scope=scope)


@pytest.mark.parametrize("kind", ("declared", "learned"))
@pytest.mark.parametrize("route", ("orders", None))
async def test_it_signs_for_its_table(kind: str, route: str | None) -> None:
    """Java's clients send it instead of their own with every sign call."""
    site = _site(kind)
    for method in ("GET", "PUT", "DELETE"):
        assert await site.reason("wh/orders/f", route, caller=_caller(), method=method) is Reason.ALLOWED
    source = "/lake/wh/orders/g"
    assert await site.reason("wh/orders/f", route, caller=_caller(), method="PUT", source=source) is Reason.ALLOWED


@pytest.mark.parametrize("kind", ("declared", "learned"))
@pytest.mark.parametrize("binding", ("strict", "by-location"))
@pytest.mark.parametrize(
    ("key", "route", "namespace"),
    (
        ("wh/other/f", "other", "sales"),
        ("wh/other/f", None, "sales"),
        ("wh/other/f", "orders", "sales"),
        ("wh/orders/f", "other", "sales"),
        ("wh/eu/f", "orders", "sales\x1feu"),
        ("wh/eu/f", None, "sales"),
    ),
)
async def test_it_signs_for_no_other_table(
    kind: str, binding: str, key: str, route: str | None, namespace: str
) -> None:
    """A token that leaks from one job's configuration must not open the rest of its user's tables."""
    site = _site(kind, f"binding: {binding}")
    told = await site.reason(key, route, caller=_caller(), namespace=namespace)
    # The route names another table, or the key lies in one; on a bound route the key is outside.
    bound = binding == "strict" and route == "orders" and namespace == "sales"
    hint = binding == "by-location" and key == "wh/orders/f" and kind == "declared"
    assert told is (Reason.OUTSIDE_TABLE if bound else Reason.ALLOWED if hint else Reason.NOT_IN_SCOPE)
    assert site.upstream.asked == []


@pytest.mark.parametrize("kind", ("declared", "learned"))
@pytest.mark.parametrize(
    ("scope", "told"),
    (
        (SCOPE, Reason.ALLOWED),
        (TableScope("lake", "sales", "orders"), Reason.ALLOWED),
        (TableScope("lake", "sales", "orders", "another"), Reason.NOT_IN_SCOPE),
        (TableScope("pond", "sales", "orders", "uuid-orders"), Reason.NOT_IN_SCOPE),
        (TableScope("lake", "sales", "Orders", "uuid-orders"), Reason.NOT_IN_SCOPE),
    ),
)
@pytest.mark.parametrize("route", ("orders", None))
async def test_it_is_good_for_that_very_table(kind: str, scope: TableScope, told: Reason, route: str | None) -> None:
    """A successor of the same name is another table."""
    assert await _site(kind).reason("wh/orders/f", route, caller=_caller(scope)) is told


@pytest.mark.parametrize("kind", ("declared", "learned"))
async def test_a_copy_from_elsewhere_is_not_in_its_scope(kind: str) -> None:
    """Copying reads the source."""
    site = _site(kind, "binding: by-location")
    copy = {"caller": _caller(), "method": "PUT", "source": "/lake/wh/other/f"}
    refused = await site.sign("wh/orders/f", "orders", **copy)  # type: ignore[arg-type]  # as given
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NOT_IN_SCOPE
    assert "wh/other/f" in refused.detail


async def test_no_upstream_is_asked_for_a_table_outside_of_the_scope() -> None:
    """The token would be a way to have other tables loaded, and to see by the time it takes whether they are there."""
    site = Site()
    site.upstream.put(facts(), facts("other"))
    assert await site.reason("wh/other/f", "other", caller=_caller()) is Reason.NOT_IN_SCOPE
    assert site.upstream.asked == []
    assert await site.reason("wh/orders/f", "orders", caller=_caller()) is Reason.ALLOWED
    renamed = Site()
    renamed.upstream.put(facts(uuid="successor"))
    assert await renamed.reason("wh/orders/f", "orders", caller=_caller()) is Reason.NOT_IN_SCOPE


async def test_it_is_worth_no_more_than_its_owners_grants() -> None:
    """The scope narrows and never widens."""
    site = _site("learned")
    scoped = principal("reader", scope=SCOPE)
    assert await site.reason("wh/orders/f", caller=scoped) is Reason.ALLOWED
    assert await site.reason("wh/orders/f", caller=scoped, method="PUT") is Reason.NO_WRITE_DATA
