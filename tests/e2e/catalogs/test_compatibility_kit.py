"""Prove with Iceberg's REST Compatibility Kit that what works with a catalog works with a facade before it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.catalogs import NESSIE, UNIQUE_FIXTURE, CatalogKind, install
from tests.e2e.catalogs.suites import Case, cases_of, catalogs, compare, run_suite
from tests.e2e.conftest import Shelf
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import VERSITYGW

_CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")

AT_LEAST = {UNIQUE_FIXTURE.name: 125, NESSIE.name: 60}
"""Tests that pass against the catalog itself; with none the comparison would say nothing."""

# Test -> why it cannot pass through the facade.
KNOWN: Mapping[str, Mapping[str, str]] = {UNIQUE_FIXTURE.name: {}, NESSIE.name: {}}


def _kit(home: Path, properties: dict[str, str], token: str) -> Mapping[str, Case]:
    java, class_path = install.compatibility_kit()
    asked = {
        **properties,
        "rck.local": "false",
        "rck.purge-test-namespaces": "true",
        "rck.requires-namespace-create": "true",
    }
    command = (
        *(java, "-Xmx512m", *(f"-D{name}={value}" for name, value in asked.items()), "-cp", class_path),
        *("org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none"),
        *(f"--select-class=org.apache.iceberg.rest.{name}" for name in _CLASSES),
        f"--reports-dir={home / 'reports'}",
    )
    # It takes properties from variables as well, and a token is none for a command line.
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "CATALOG_TOKEN": token,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    run_suite(command, environment, home, home / "kit.log")
    return cases_of((home / "reports").glob("*.xml"))


@pytest.mark.parametrize("kind", (UNIQUE_FIXTURE, NESSIE), ids=str)
def test_the_kit_passes_through_what_passes_direct(
    shelf: Shelf, matrix: Matrix, tmp_path: Path, kind: CatalogKind
) -> None:
    """A client that works with its catalog would fail, in a corner that no test met, once signproxy is before it."""
    store = shelf.get(VERSITYGW)
    with catalogs(tmp_path / "rig", store, f"kit-{kind.name}", kind) as lakehouse:
        row = Row(
            "Iceberg REST Compatibility Kit",
            install.FIXTURE_VERSION,
            store.name,
            store.version,
            "what passes against the catalog itself",
            way=lakehouse.way("lake"),
        )
        with matrix.row(row):
            found = compare(lakehouse, tmp_path, _kit)
            assert found.passed_direct >= AT_LEAST[kind.name], found.direct
            lost = found.lost()
            assert lost.keys() == KNOWN[kind.name].keys(), lost
