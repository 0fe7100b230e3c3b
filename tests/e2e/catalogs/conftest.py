"""Run each catalog once for all its clients, with a facade before it and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from signproxy.cli.clients import Mode
from tests.e2e.catalogs import ICEBERG_FIXTURE, NESSIE
from tests.e2e.catalogs.lakehouse import Lakehouse, Plan, run_lakehouse
from tests.e2e.catalogs.namespaces import CATALOG, NAMESPACES, READABLE, TABLES
from tests.e2e.conftest import Shelf
from tests.e2e.stores import VERSITYGW

WAYS = ((Mode.FACADE, ICEBERG_FIXTURE), (Mode.FACADE, NESSIE), (Mode.DIRECT, ICEBERG_FIXTURE))


@pytest.fixture(scope="session", params=WAYS, ids=lambda way: f"{way[0].value}-{way[1]}")
def lakehouse(
    request: pytest.FixtureRequest, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lakehouse]:
    mode, kind = request.param
    plan = Plan(kind, NAMESPACES, TABLES, readable=READABLE)
    name = f"tables-{mode.value}-{kind}"
    with run_lakehouse(tmp_path_factory.mktemp(name), shelf.get(VERSITYGW), name, mode, {CATALOG: plan}) as running:
        yield running
