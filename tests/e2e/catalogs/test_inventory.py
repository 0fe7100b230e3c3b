"""Take the inventory of catalogs that are in use elsewhere, and try to take over what a server has not seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from signproxy.catalog.upstream import open_upstream
from signproxy.catalog.upstream_inventory import UpstreamInventory
from signproxy.catalog.upstream_spec import InventorySpec, Secret, UpstreamSpec
from signproxy.catalog.upstreams import Bound
from signproxy.cli.clients import Mode
from signproxy.inventory.learned.sighting import TableFacts
from tests.e2e.catalogs import ICEBERG_FIXTURE, NESSIE
from tests.e2e.catalogs.lakehouse import WRITER, Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG
from tests.e2e.catalogs.seam import CatalogKind, call
from tests.e2e.conftest import Shelf
from tests.e2e.stores import VERSITYGW

NAMESPACES = ("finance", "sales")
TABLES = tuple(f"t{number}" for number in range(5))
DEEP = {ICEBERG_FIXTURE.name: "sales%2Eeu", NESSIE.name: "sales%1Feu"}
"""The namespace below another one, as a path of the catalog has it."""
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [],
    "fields": [{"id": 1, "name": "x", "type": "long", "required": False}],
}
TABLE = {
    "schema": SCHEMA,
    "partition-spec": {"spec-id": 0, "fields": []},
    "write-order": {"order-id": 0, "fields": []},
    "stage-create": False,
    "properties": {},
}
"""All that Nessie wants to be told."""


@pytest.fixture(scope="module", params=(ICEBERG_FIXTURE, NESSIE), ids=str)
def listed(
    request: pytest.FixtureRequest, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lakehouse]:
    """Run a catalog with tables in several namespaces, one below another, that were made past signproxy."""
    kind: CatalogKind = request.param
    plans = {CATALOG: Plan(kind, NAMESPACES, ())}
    name = f"inventory-{kind}"
    with run_lakehouse(tmp_path_factory.mktemp(name), shelf.get(VERSITYGW), name, Mode.FACADE, plans) as running:
        catalog, token = running.catalogs[CATALOG], running.authority.token(WRITER)
        catalog.must("POST", "namespaces", token, {"namespace": ["sales", "eu"], "properties": {}})
        for namespace in (*NAMESPACES, DEEP[kind.name]):
            for table in TABLES:
                catalog.must("POST", f"namespaces/{namespace}/tables", token, {"name": table, **TABLE})
        yield running


def _locations(running: Lakehouse) -> dict[tuple[str, str], str]:
    """Return where the catalog itself says that each table lies."""
    catalog, token = running.catalogs[CATALOG], running.authority.token(WRITER)
    deep = DEEP["nessie" if catalog.name == "Nessie" else "fixture"]
    paths = {**{namespace: namespace for namespace in NAMESPACES}, "sales\x1feu": deep}
    return {
        (namespace, table): catalog.must("GET", f"namespaces/{path}/tables/{table}", token)["metadata"]["location"]
        for namespace, path in paths.items()
        for table in TABLES
    }


@pytest.mark.parametrize("page_size", (0, 2, 1_000))
def test_every_table_of_a_catalog_is_found(listed: Lakehouse, page_size: int) -> None:
    """A table that is overlooked has a place that seems to be free."""
    catalog = listed.catalogs[CATALOG]
    found: dict[tuple[str, str], TableFacts] = {}

    async def take() -> None:
        spec = UpstreamSpec(CATALOG, catalog.uri, catalog.warehouse)
        bound = Bound(await open_upstream(spec))
        try:
            wanted = InventorySpec(token=Secret(listed.authority.token(WRITER)), connections=4, page_size=page_size)
            inventory = UpstreamInventory(
                bound, wanted, lambda facts: found.__setitem__((facts.namespace, facts.name), facts)
            )
            await inventory.run()
            assert not inventory.unreadable
        finally:
            await bound.aclose()

    asyncio.run(take())
    assert {name: facts.location for name, facts in found.items()} == _locations(listed)


def test_no_caller_takes_over_what_the_server_has_not_seen(listed: Lakehouse) -> None:
    """The catalog checks no places: a caller that may create a table would have every other one."""
    token = listed.authority.token(WRITER)
    victim = _locations(listed)["finance", "t0"]
    facade = f"{listed.rig.url}/catalogs/{CATALOG}/v1"
    for body in (
        {"name": "thief", **TABLE, "location": victim},
        {"name": "thief", **TABLE, "location": victim, "stage-create": True},
        {"name": "thief", **TABLE, "properties": {"write.data.path": f"{victim}/data"}},
    ):
        status, answer = call(f"{facade}/namespaces/sales/tables", "POST", token, body)
        assert (status, answer["error"]["type"]) == (403, "LocationNotAllowed"), answer
    assert listed.catalogs[CATALOG].call("GET", "namespaces/sales/tables/thief", token)[0] == 404
    status, answer = call(f"{facade}/namespaces/sales/tables", "POST", token, {"name": "mine", **TABLE})
    assert status == 200
    own = answer["metadata"]["location"]
    # What clients that name the place themselves send: that of the catalog's own layout.
    again = own.removesuffix("/").replace("mine", "own")
    status, answer = call(
        f"{facade}/namespaces/sales/tables", "POST", token, {"name": "own", **TABLE, "location": again}
    )
    assert status == 200, answer
