"""One request for each reason that the gate gives only where an upstream tells of the tables, or for catalog calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from signproxy.errors import Reason, Refused
from signproxy.gate.calls import CallPlace, admit_call
from signproxy.gate.request import CatalogAddress
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.sighting import Live
from signproxy.model import Subject, TableScope
from signproxy.policy.privileges import Privilege
from tests.inventory.learned_rig import Site, facts, principal

KEY = "wh/orders/data/f"


async def _while_upstream_answers(reason: Reason) -> Reason:
    site = Site()
    site.upstream.fault = Refused(reason, "fault")
    return await site.reason(KEY)


async def _busy() -> Reason:
    return await Site(allowance=Allowance(0.0, 0.0)).reason(KEY)


async def _context() -> Reason:
    site = Site()
    return await site.reason(KEY, who="writer", carried=site.stage(facts(), "owner"))


async def _call() -> Reason:
    site = Site()
    need = int(Privilege.TABLE_DROP)
    try:
        admit_call(
            site.state,
            Subject.of(principal("reader")),
            CatalogAddress("lake"),
            need,
            CallPlace("sales", "orders"),
        )
    except Refused as refused:
        return refused.reason
    return Reason.ALLOWED


async def _scope() -> Reason:
    scope = TableScope("lake", "sales", "other")
    return await Site().reason(KEY, caller=principal("reader", scope=scope))


async def _outside() -> Reason:
    site = Site()
    site.upstream.put(facts(location="s3://elsewhere/orders"))
    return await site.reason(KEY)


async def _restricted() -> Reason:
    site = Site()
    site.upstream.put(facts())
    site.upstream.restricted.add(("reader-token", "orders"))
    return await site.reason(KEY)


async def _disputed() -> Reason:
    site = Site()
    site.live(facts("older", "s3://lake/wh/orders"))
    site.upstream.put(facts())
    return await site.reason(KEY)


async def _unvouched() -> Reason:
    site = Site()
    site.take(Live("lake", facts(), vouched=False))
    site.upstream.put(facts())
    return await site.reason(KEY)


async def _without_an_inventory() -> Reason:
    site = Site()
    site.tables.registry.require({"lake": 60.0})
    site.upstream.put(facts())
    return await site.reason(KEY)


LEARNED_CASES: dict[Reason, Callable[[], Awaitable[Reason]]] = {
    Reason.UPSTREAM_UNAVAILABLE: lambda: _while_upstream_answers(Reason.UPSTREAM_UNAVAILABLE),
    Reason.UPSTREAM_FAILED: lambda: _while_upstream_answers(Reason.UPSTREAM_FAILED),
    Reason.UPSTREAM_UNAUTHORIZED: lambda: _while_upstream_answers(Reason.UPSTREAM_UNAUTHORIZED),
    Reason.UPSTREAM_BUSY: _busy,
    Reason.CONTEXT_INVALID: _context,
    Reason.CALL_NOT_PERMITTED: _call,
    Reason.NOT_IN_SCOPE: _scope,
    Reason.READ_RESTRICTED: _restricted,
    Reason.LOCATION_OUTSIDE_ROOTS: _outside,
    Reason.LOCATION_DISPUTED: _disputed,
    Reason.LOCATION_UNVOUCHED: _unvouched,
    Reason.INVENTORY_MISSING: _without_an_inventory,
}

OF_THE_FACADE = frozenset(
    {
        Reason.UPSTREAM_TIMEOUT,
        Reason.UPSTREAM_INVALID,
        Reason.LOCATION_CONFLICT,
        Reason.TABLE_NOT_SERVED,
        Reason.DELEGATION_REFUSED,
    }
)
"""Given for calls that are passed through, or for keys; a sign call is answered with another reason instead."""
