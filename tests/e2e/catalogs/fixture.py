"""Run Iceberg's REST catalog fixture, over SQLite: the reference that the specification's authors test against."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.e2e.catalogs import install
from tests.e2e.catalogs.seam import CatalogKind, RunningCatalog, Site
from tests.e2e.stores.process import Server, free_ports, status_of

NAME = "Iceberg REST fixture"


@contextmanager
def run(directory: Path, site: Site, **more: str) -> Iterator[RunningCatalog]:
    """Run the fixture in an empty directory; `more` are properties of it, with underscores for dashes."""
    java, class_path = install.fixture()
    (port,) = free_ports(1)
    asked = directory / "asked.json"
    properties = _properties(directory, site) | {name.replace("_", "-"): value for name, value in more.items()}
    asked.write_text(json.dumps({"port": port, "authority": site.authority.url, "properties": properties}))
    # `Server` gives no standard input.
    command = (java, "-Xmx256m", "-cp", class_path, "org.apache.iceberg.rest.CatalogServer", str(asked))
    server = Server("fixture", command, directory)
    try:
        # 401: it is up, and asks who calls.
        server.wait_until(lambda: status_of(port, "/v1/config") == 401)
        yield RunningCatalog(
            NAME,
            install.FIXTURE_VERSION,
            f"http://127.0.0.1:{port}",
            "",
            site.warehouse,
            site,
            server.tail,
            server.stop,
        )
    finally:
        server.stop()


def _properties(directory: Path, site: Site) -> dict[str, str]:
    return {
        "uri": f"jdbc:sqlite:file:{directory / 'catalog.db'}",
        "jdbc.schema-version": "V1",
        "warehouse": site.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": site.store.origin,
        "s3.path-style-access": "true",
        "client.region": site.store.region,
        "s3.access-key-id": site.store.access_key,
        "s3.secret-access-key": site.store.secret,
        "include-credentials": str(site.hands_out_keys).lower(),
    }


ICEBERG_FIXTURE = CatalogKind("fixture", install.FIXTURE_VERSION, run)
UNIQUE_FIXTURE = CatalogKind("fixture-unique", install.FIXTURE_VERSION, partial(run, unique_table_location="true"))
"""The same, as the page on the facade advises: no two tables of one name get one location."""
