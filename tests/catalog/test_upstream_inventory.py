"""An inventory of an upstream: whole, whatever the upstream does on the way, or a fault that says why not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signproxy.catalog import upstream_inventory
from signproxy.catalog.upstream import open_upstream
from signproxy.catalog.upstream_inventory import ATTEMPTS, LONGEST_PAUSE, UpstreamInventory
from signproxy.catalog.upstream_spec import CallTimeouts, InventorySpec, Secret, UpstreamSpec
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import TableFacts
from tests.catalog.lax import LaxCatalog
from tests.catalog.scripted import Asked, Line, Scripted, answer, error, scripted

TOKEN = Secret("operators-token")


class Taken:
    """An inventory under way, and what it found."""

    def __init__(self, upstream: Scripted, bound: Bound) -> None:
        self.upstream = upstream
        self.bound = bound
        self.found: list[TableFacts] = []
        self.slept: list[float] = []

    @property
    def names(self) -> set[str]:
        return {f"{facts.namespace}/{facts.name}".replace("\x1f", ".") for facts in self.found}

    def asked(self, part: str) -> list[Asked]:
        return [asked for asked in self.upstream.asked if part in asked.target]

    async def run(self, spec: InventorySpec | None = None, **more: Any) -> UpstreamInventory:
        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        wanted = InventorySpec(token=TOKEN, connections=3, page_size=2) if spec is None else spec
        inventory = UpstreamInventory(self.bound, wanted, self.found.append, sleep=sleep, **more)
        await inventory.run()
        return inventory


@asynccontextmanager
async def taken(catalog: LaxCatalog) -> AsyncIterator[Taken]:
    async with scripted() as upstream:
        upstream.script = catalog
        spec = UpstreamSpec("lake", upstream.url, prefix="up", separator="%1F", times=CallTimeouts(1.0, 1.0, 1.0, 1.0))
        bound = Bound(await open_upstream(spec))
        try:
            yield Taken(upstream, bound)
        finally:
            await bound.aclose()


def warehouse() -> LaxCatalog:
    """Return namespaces three levels deep, one of them empty, with more tables than a page holds."""
    catalog = LaxCatalog(page=2)
    catalog.namespace("empty")
    for name in ("a", "b", "c", "d", "e"):
        catalog.put("sales", name)
    catalog.put("hr", "people")
    catalog.namespace("hr", "deep")
    catalog.put("hr.deep.er", "x", **{"write.data.path": "s3://lakehouse/elsewhere"})
    return catalog


ALL = {"sales/a", "sales/b", "sales/c", "sales/d", "sales/e", "hr/people", "hr.deep.er/x"}


async def test_every_table_is_found_once_with_its_places() -> None:
    """A table that is overlooked has a place that seems to be free."""
    async with taken(warehouse()) as inventory:
        done = await inventory.run()
        assert inventory.names == ALL
        assert (len(inventory.found), done.tables, done.namespaces) == (7, 7, 5)
        (deep,) = (facts for facts in inventory.found if facts.name == "x")
        assert deep.location == "s3://lakehouse/wh/hr/deep/er/x"
        assert deep.properties == {"write.data.path": "s3://lakehouse/elsewhere"}
        assert {asked.headers["authorization"] for asked in inventory.upstream.asked} == {"Bearer operators-token"}
        assert all("pageSize=2" in asked.target for asked in inventory.asked("/tables?"))


async def test_an_upstream_without_pages_and_parents_is_listed_too() -> None:
    """Older catalogs know neither, and list what is at the top for every parent."""
    catalog = warehouse()
    catalog.page = 1_000

    async def top_only(asked: Asked, line: Line) -> bytes:
        if asked.path.endswith("/namespaces"):
            return answer(200, {"namespaces": [["sales"], ["hr"], ["sales"]], "next-page-token": None})
        return await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = top_only
        await inventory.run(InventorySpec(page_size=0))
        assert inventory.names == ALL - {"hr.deep.er/x"}
        assert not any("pageToken" in asked.target for asked in inventory.upstream.asked)
        assert "authorization" not in inventory.upstream.last.headers


async def test_it_goes_on_where_it_was_cut_off() -> None:
    """A million tables would be loaded from the first one again after each hiccup."""
    async with taken(warehouse()) as inventory:
        known = {("sales", "a"), ("sales", "c"), ("hr\x1fdeep\x1fer", "x")}
        done = await inventory.run(known=known)
        assert inventory.names == ALL - {"sales/a", "sales/c", "hr.deep.er/x"}
        assert done.tables == 7
        assert not inventory.asked("/tables/a")


@pytest.mark.parametrize(
    ("refusal", "waits"),
    (
        (answer(429, None, {"Retry-After": "7"}), 7.0),
        (answer(503, None, {"Retry-After": "0"}), 0.0),
        (answer(503, None, {"Retry-After": "86400"}), LONGEST_PAUSE),
        (answer(503, None, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}), 0.0),
        (answer(503, None, {"Retry-After": "soon"}), 0.5),
        (answer(429, None), 0.5),
        (error(500, "InternalServerError"), 0.5),
        (error(502, "BadGateway"), 0.5),
    ),
)
@pytest.mark.parametrize("where", ("/namespaces?", "/sales/tables?", "/tables/b"))
async def test_a_refusal_for_now_is_waited_out(refusal: bytes, waits: float, where: str) -> None:
    """One 503 among a million answers would be the end of the inventory."""
    catalog, once = warehouse(), [refusal]

    async def throttled(asked: Asked, line: Line) -> bytes:
        return once.pop() if where in asked.target and once else await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = throttled
        await inventory.run()
        assert inventory.names == ALL
        assert inventory.slept == [waits]


async def test_a_lost_connection_is_tried_again() -> None:
    """A load balancer that closes connections would end it."""
    catalog, left = warehouse(), [1, 1]

    async def lossy(asked: Asked, line: Line) -> bytes | None:
        if "/tables/" in asked.target and left:
            left.pop()
            line.reset()
            return None
        return await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = lossy
        await inventory.run()
        assert inventory.names == ALL


@pytest.mark.parametrize(
    ("where", "said", "reason"),
    (
        ("/namespaces?", error(503, "ServiceUnavailableException"), Reason.UPSTREAM_UNAVAILABLE),
        ("/sales/tables?", error(500, "InternalServerError"), Reason.UPSTREAM_FAILED),
        ("/namespaces?", error(401, "NotAuthorizedException"), Reason.UPSTREAM_UNAUTHORIZED),
        ("/tables/b", error(401, "NotAuthorizedException"), Reason.UPSTREAM_UNAUTHORIZED),
        ("/tables/b", error(403, "ForbiddenException"), Reason.CALL_NOT_PERMITTED),
        ("/sales/tables?", error(403, "ForbiddenException"), Reason.CALL_NOT_PERMITTED),
        ("/sales/tables?", answer(200, b"<html>"), Reason.UPSTREAM_INVALID),
        (
            "/sales/tables?",
            answer(200, {"identifiers": [{"namespace": "sales", "name": "x"}]}),
            Reason.UPSTREAM_INVALID,
        ),
        ("/sales/tables?", answer(200, {"identifiers": [], "next-page-token": "again"}), Reason.UPSTREAM_INVALID),
        (
            "/sales/tables?",
            answer(200, {"identifiers": [{"namespace": ["sales"], "name": "x/y"}]}),
            Reason.UPSTREAM_INVALID,
        ),
        ("/namespaces?", answer(200, {"namespaces": [["a\x1fb"]]}), Reason.UPSTREAM_INVALID),
        ("/namespaces?", answer(200, {"namespaces": [["a", "/"]]}), Reason.UPSTREAM_INVALID),
        ("/namespaces?", answer(302, None, {"Location": "http://127.0.0.1:1/"}), Reason.UPSTREAM_INVALID),
    ),
)
async def test_what_cannot_be_listed_is_a_fault_and_no_inventory(where: str, said: bytes, reason: Reason) -> None:
    """Half of an inventory that passes for a whole one lets any caller claim the other half."""
    catalog = warehouse()

    async def broken(asked: Asked, line: Line) -> bytes:
        return said if where in asked.target else await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = broken
        with pytest.raises(Refused) as refused:
            await inventory.run()
        assert refused.value.reason is reason
        assert len(inventory.asked(where)) <= max(ATTEMPTS, 3)


async def test_one_broken_table_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that may write a metadata file could break its own, and no server could start any more."""
    catalog = warehouse()

    async def broken(asked: Asked, line: Line) -> bytes:
        found = asked.path.rpartition("/")[2]
        if found in ("b", "c") and "/tables/" in asked.target:
            return error(500, "NotFoundException") if found == "b" else answer(200, {"metadata": {}})
        return await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = broken
        done = await inventory.run()
        assert inventory.names == ALL - {"sales/b", "sales/c"}
        assert sorted(done.unreadable) == [("sales", "b"), ("sales", "c")]
        monkeypatch.setattr(upstream_inventory, "UNREADABLE_AT_MOST", 1)
        with pytest.raises(Refused):
            await inventory.run()


async def test_what_is_dropped_meanwhile_is_no_fault() -> None:
    """Catalogs change while they are listed."""
    catalog = warehouse()

    async def dropping(asked: Asked, line: Line) -> bytes:
        if "/tables/b" in asked.target or "/hr/tables?" in asked.target:
            return error(404, "NoSuchTableException")
        return await catalog(asked, line)

    async with taken(catalog) as inventory:
        inventory.upstream.script = dropping
        assert not (await inventory.run()).unreadable
        assert inventory.names == ALL - {"sales/b", "hr/people"}


async def test_there_is_an_end_to_what_is_held() -> None:
    """An upstream of ten million tables would fill the memory."""
    async with taken(warehouse()) as inventory:
        with pytest.raises(Refused, match="more than 3 tables"):
            await inventory.run(at_most=3)


async def test_no_more_is_asked_at_a_time_than_is_allowed() -> None:
    """The operator's catalog would be flooded at every start."""
    catalog, under_way, most = warehouse(), 0, 0

    async def counting(asked: Asked, line: Line) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await catalog(asked, line)
        finally:
            under_way -= 1

    async with taken(catalog) as inventory:
        inventory.upstream.script = counting
        await inventory.run(InventorySpec(connections=1, page_size=1))
        assert most <= 2
        assert json.dumps(sorted(inventory.names)) == json.dumps(sorted(ALL))
