"""With an inventory of the upstream a place that is new is believed only where it is free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest

from signproxy.catalog.upstream_inventory import UpstreamInventory
from signproxy.catalog.upstream_spec import InventorySpec, Secret, UpstreamSpec
from signproxy.errors import Reason
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.registry import Change
from signproxy.inventory.learned.sighting import Live
from signproxy.model import Subject
from signproxy.sealing import Purpose, Sealer, SealingSecret
from signproxy.server.process import inventory_keeper
from signproxy.server.process.inventory_keeper import AGES, InventoryKeeper
from signproxy.server.process.sightings_file import SightingsFile
from tests.catalog.lax import WAREHOUSE, LaxCatalog
from tests.catalog.scripted import Asked, Line, error
from tests.facade.front import Front, front
from tests.facade.test_takeover import KEY, THIEVES, VICTIM, create, reaches, refused
from tests.inventory.learned_rig import principal
from tests.waiting import until

SPEC = InventorySpec(required=True, refresh=1_000.0, token=Secret("lists-all"), connections=2, page_size=2)
PATIENCE = 20.0
OVERLAPPING = THIEVES.replace("    caller_locations:", "    overlap: allowed\n    caller_locations:", 1)


class Kept:
    """A server in front of a lax catalog, and the keeper of its inventory."""

    def __init__(self, product: Front, catalog: LaxCatalog, file: SightingsFile | None) -> None:
        self.product = product
        self.catalog = catalog
        self.file = file
        self.now = 1_000_000.0
        self.keeper = InventoryKeeper(product.learned, product.upstreams, file, lambda: self.now)

    @property
    def wanted(self) -> list[UpstreamSpec]:
        """What the keeper is to list; the server itself lists nothing."""
        bound = self.product.upstreams.of("lake")
        assert bound is not None
        return [msgspec.structs.replace(bound.upstream.spec, inventory=SPEC)]

    def begin(self) -> None:
        self.keeper.require(self.wanted)

    async def complete(self) -> None:
        await until(lambda: not self.keeper.problem())


@asynccontextmanager
async def kept(*, file: Path | None = None, wait: bool = True, policy: str = THIEVES) -> AsyncIterator[Kept]:
    catalog = LaxCatalog(page=2)
    catalog.namespace("ns")
    catalog.put("finance", "salaries")
    for name in ("a", "b", "c"):
        catalog.put("finance", name)
    sealed = (
        None if file is None else SightingsFile(file, Sealer([SealingSecret(b"x" * 32)], Purpose.SIGHTINGS), 1 << 20)
    )
    async with front(policy=policy, separator="%1F") as product:
        product.upstream.script = catalog
        made = Kept(product, catalog, sealed)
        # Learned by the server's own clock, which the keeper's must not be far from.
        made.now = product.resolver._clock()
        made.begin()
        if wait:
            await made.complete()
        try:
            yield made
        finally:
            await made.keeper.aclose()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_keeper, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(inventory_keeper, "FOLLOW_SECONDS", 0.05)


async def test_nothing_new_is_believed_before_the_inventory_is_there() -> None:
    """The first seconds after each start would belong to the quickest caller."""
    async with kept(wait=False) as site:
        product, hold = site.product, asyncio.Event()

        async def slowly(asked: Asked, line: Line) -> bytes:
            if asked.headers.get("authorization") == "Bearer lists-all":
                await hold.wait()
            return await site.catalog(asked, line)

        product.upstream.script = slowly
        # One who came past the facade, before the start.
        site.catalog.put("ns", "mine", VICTIM)
        assert (await product.load("mine")).status == 200
        assert await product.signs(KEY, name="mine") == 503
        assert not await reaches(product)
        assert site.keeper.problem().startswith("catalog lake: under way, ")
        hold.set()
        await site.complete()


async def test_a_table_that_was_put_there_past_the_facade_gets_no_other_tables_place() -> None:
    """The upstream lets callers choose; signproxy would believe the first of the two that is loaded."""
    async with kept() as site:
        product = site.product
        for location in (VICTIM, f"{VICTIM}/data", f"{WAREHOUSE}/finance"):
            site.catalog.put("ns", "mine", location)
            assert (await product.load("mine")).status == 200
            assert not await reaches(product)
        assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 403
        assert (await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")).status == 200
        assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 200


async def test_two_that_an_inventory_finds_in_one_place_get_it_neither() -> None:
    """Which of them was there first is not known; the operator can, by listing the place."""
    async with kept(wait=False) as site:
        product = site.product
        site.catalog.put("ns", "mine", VICTIM)
        await site.complete()
        await product.load("mine")
        await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")
        assert not await reaches(product)
        assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 403
        places = f'locations: ["{VICTIM}"]'
        listed = f"\ntables:\n  - {{name: salaries, namespace: finance, catalog: lake, {places}}}\n"
        product.policy(THIEVES.replace("\ntables:\n", listed, 1))
        await asyncio.sleep(0)
        product.learned.denials.forget("lake")
        assert (await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")).status == 200
        assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 200
        assert not await reaches(product)


async def test_a_property_at_the_upstream_puts_no_table_in_doubt() -> None:
    """Setting `write.data.path` to another's place would close that table."""
    async with kept(wait=False) as site:
        site.catalog.put("ns", "mine", **{"write.data.path": f"{VICTIM}/data", "write.metadata.path": VICTIM})
        await site.complete()
        product = site.product
        assert (await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")).status == 200
        assert await product.signs(KEY, name="salaries", who="reader", path="/v1/aws/s3/sign") == 200
        assert not await reaches(product)


@pytest.mark.parametrize("policy", (THIEVES, OVERLAPPING), ids=("forbidden", "allowed"))
async def test_a_caller_takes_no_place_of_a_table_that_was_made_after_the_inventory(policy: str) -> None:
    """An inventory is hours old: a table that another replica made since would be read, written and locked out."""
    async with kept(policy=policy) as site:
        product = site.product
        later = f"{WAREHOUSE}/finance/later"
        for place in (later, VICTIM, f"{VICTIM}/x", "s3://lakehouse/anywhere"):
            # At first the catalog could ask its inventory. It does not know of the table that is made here.
            site.catalog.put("finance", "later")
            assert refused(await create(product, location=place))
            file = f"{place}/metadata/1.metadata.json"
            site.catalog.files[file] = {
                "format-version": 2,
                "table-uuid": "u",
                "location": place,
                "properties": {},
            }
            body = {"name": "mine", "metadata-location": file}
            assert refused(await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body))
        spare = f"{WAREHOUSE}/ns/mine/metadata/1.metadata.json"
        site.catalog.files[spare] = {"format-version": 2, "table-uuid": "v", "location": later, "properties": {}}
        body = {"name": "mine", "metadata-location": spare}
        found = await product.ask("POST", "/v1/lake/namespaces/ns/register", body=body)
        assert found.status == Reason.TABLE_NOT_SERVED.status
        assert (await product.load("mine")).status == 200
        assert not await reaches(product, "mine", "wh/finance/later/f")
        assert (await product.ask("GET", "/v1/lake/namespaces/finance/tables/later", who="reader")).status == 200
        assert await product.signs("wh/finance/later/f", name="later", who="reader", path="/v1/aws/s3/sign") == 200


async def test_a_table_that_is_forgotten_keeps_its_place() -> None:
    """A caller that makes enough tables would push others out, and take what they held."""
    async with kept() as site:
        product = site.product
        await product.ask("GET", "/v1/lake/namespaces/finance/tables/salaries", who="reader")
        known = product.learned.ground.of("lake").by_name["finance\0salaries"]
        product.learned.ground.forget(known)
        site.catalog.put("ns", "mine", VICTIM)
        await product.load("mine")
        assert not await reaches(product)


async def test_what_is_dropped_or_renamed_through_the_facade_moves_on() -> None:
    """A place would stay taken until the next inventory, or the old name would keep it."""
    async with kept() as site:
        product = site.product
        assert (await create(product, location="s3://lakehouse/sandbox/x")).status == 200
        assert (await product.ask("DELETE", "/v1/lake/namespaces/ns/tables/mine")).status == 204
        assert (await create(product, "next", location="s3://lakehouse/sandbox/x")).status == 200
        rename = {"source": {"namespace": ["ns"], "name": "next"}, "destination": {"namespace": ["ns"], "name": "now"}}
        assert (await product.ask("POST", "/v1/lake/tables/rename", body=rename)).status == 204
        found = await create(product, "next", location="s3://lakehouse/sandbox/x")
        assert found.status == Reason.LOCATION_CONFLICT.status
        assert (await product.load("now")).status == 200
        assert await product.signs("sandbox/x/f", name="now") == 200


async def test_a_change_while_the_inventory_is_taken_is_not_undone() -> None:
    """A table that was made, dropped or renamed meanwhile would be unknown, or come back."""
    async with kept() as site:
        product, hold = site.product, asyncio.Event()
        for name in ("gone", "old"):
            assert (await create(product, name)).status == 200

        async def last_page_slowly(asked: Asked, line: Line) -> bytes:
            found = await site.catalog(asked, line)
            if asked.headers.get("authorization") == "Bearer lists-all" and "/ns/tables/" in asked.target:
                await hold.wait()
            return found

        product.upstream.script = last_page_slowly
        asked = len(product.upstream.asked)
        site.now = product.resolver._clock()
        site.keeper.require([])
        site.begin()
        await product.upstream.until_asked(asked + 4)
        assert (await create(product, "made", location="s3://lakehouse/sandbox/made")).status == 200
        assert (await product.ask("DELETE", "/v1/lake/namespaces/ns/tables/gone")).status == 204
        rename = {"source": {"namespace": ["ns"], "name": "old"}, "destination": {"namespace": ["ns"], "name": "new"}}
        assert (await product.ask("POST", "/v1/lake/tables/rename", body=rename)).status == 204
        hold.set()
        await until(lambda: site.keeper.states["lake"].taken_at == site.now)
        names = {each.table.name for each in product.learned.registry.of("lake")}
        assert names == {"salaries", "a", "b", "c", "made", "new"}


async def test_a_failing_upstream_is_asked_again_and_the_rest_is_not_listed_twice() -> None:
    """An inventory of an hour would never end where something fails once in an hour."""
    async with kept(wait=False) as site:
        product, failing = site.product, [True]

        async def broken(asked: Asked, line: Line) -> bytes:
            if failing[0] and asked.target.endswith("/finance/tables/salaries?snapshots=refs"):
                return error(403, "ForbiddenException")
            return await site.catalog(asked, line)

        product.upstream.script = broken
        await until(lambda: "call_not_permitted" in site.keeper.problem())
        assert not await reaches(product)
        failing[0] = False
        await site.complete()
        loads = [asked.path for asked in product.upstream.asked if asked.path.endswith("/finance/tables/a")]
        assert len(loads) == 1


async def test_an_inventory_that_is_too_old_counts_for_nothing() -> None:
    """What was made past the facade since would be free."""
    async with kept() as site:
        product = site.product
        registry = product.learned.registry
        site.catalog.put("ns", "mine", "s3://lakehouse/late")
        late = site.keeper.states["lake"].taken_at + AGES * SPEC.refresh + 1
        facts = product.learned.ground.of("lake")
        assert not facts.by_name
        found = await product.loader.load("lake", "ns", "mine", Subject.of(principal("writer")), "writer")
        assert found is not None
        refusal = product.learned.take(Live("lake", found.facts), late)
        assert refusal is not None
        assert refusal.reason is Reason.INVENTORY_MISSING
        assert registry.taken("lake") is not None


async def test_a_table_that_cannot_be_loaded_keeps_what_is_known_of_it() -> None:
    """Breaking one's own table would set another's place free, or the other way round."""
    async with kept() as site:
        product = site.product

        async def broken(asked: Asked, line: Line) -> bytes:
            if asked.path.endswith("/finance/tables/salaries") and "lists-all" in asked.headers.get(
                "authorization", ""
            ):
                return error(400, "BadRequestException")
            return await site.catalog(asked, line)

        product.upstream.script = broken
        site.now += SPEC.refresh
        site.keeper.require([])
        site.begin()
        await until(lambda: site.keeper.states["lake"].taken_at == site.now)
        assert site.keeper.states["lake"].unreadable == ("lake.finance.salaries",)
        report = site.keeper.states.get("lake")
        assert report is not None
        assert report.unreadable == ("lake.finance.salaries",)
        site.catalog.put("ns", "mine", VICTIM)
        await product.load("mine")
        assert not await reaches(product)


async def test_one_process_takes_it_and_the_others_follow(tmp_path: Path) -> None:
    """Eight workers would list a million tables eight times."""
    async with kept(file=tmp_path / "sightings") as site:
        listed = len(site.product.upstream.asked)
        other = LearnedTables(lambda: site.product.state)
        keeper = InventoryKeeper(other, site.product.upstreams, site.file, lambda: site.now)
        keeper.require(site.wanted)
        await until(lambda: not keeper.problem())
        assert len(site.product.upstream.asked) == listed
        assert {each.table.name for each in other.registry.of("lake")} == {"salaries", "a", "b", "c"}
        # And once it is time again, one of the two goes on.
        site.now += SPEC.refresh
        keeper.require([])
        keeper.require(site.wanted)
        await until(lambda: keeper.states["lake"].taken_at == site.now)
        await keeper.aclose()


async def test_too_many_tables_are_no_inventory(tmp_path: Path) -> None:
    """Those beyond the bound would be free."""
    async with kept(wait=False) as site:
        site.product.learned.registry.at_most = 2
        await until(lambda: "sightings.max_tables" in site.keeper.problem())


async def test_a_fault_of_our_own_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would never become ready, and no operator could see why."""
    faults = [RuntimeError("ours")]

    async def run(inventory: UpstreamInventory) -> None:
        if faults:
            raise faults.pop()
        await whole(inventory)

    whole = UpstreamInventory.run
    monkeypatch.setattr(UpstreamInventory, "run", run)
    async with kept(wait=False) as site:
        await until(lambda: "a fault in signproxy" in site.keeper.problem())
        await site.complete()


async def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that wait for another's inventory would read a million lines a second."""
    async with kept(file=tmp_path / "sightings") as site:
        file = site.file
        assert file is not None
        # The keeper gives its claim back a moment after the inventory is complete.
        claims: list[BinaryIO | None] = []

        def claimed() -> bool:
            claims.append(file.claim())
            return claims[-1] is not None

        await until(claimed)
        claim = claims[-1]
        assert claim is not None
        reads: list[int] = []
        whole = file.load

        def counted() -> tuple[Change, ...]:
            reads.append(1)
            return whole()

        monkeypatch.setattr(file, "load", counted)
        site.now += SPEC.refresh
        site.keeper.require([])
        site.begin()
        await until(lambda: "claimed" in site.keeper.problem() or reads)
        assert len(reads) <= 1
        claim.close()
        await until(lambda: site.keeper.states["lake"].taken_at == site.now)
