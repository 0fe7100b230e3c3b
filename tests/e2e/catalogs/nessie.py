"""Run Project Nessie, a catalog that is in production use elsewhere, with its own signing switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.catalogs import install
from tests.e2e.catalogs.authority import AUDIENCE
from tests.e2e.catalogs.seam import CatalogKind, RunningCatalog, Site
from tests.e2e.stores.process import Server, free_ports, status_of

NAME = "Nessie"
_WAREHOUSE = "wh"


@contextmanager
def run(directory: Path, site: Site) -> Iterator[RunningCatalog]:
    """Run Nessie in an empty directory; what it knows of tables is in memory."""
    java, jar = install.nessie()
    port, management = free_ports(2)
    config = directory / "config"
    config.mkdir()
    settings = _settings(site, port, management)
    (config / "application.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = (java, "-Xmx512m", f"-Dsmallrye.config.locations={config}", "-jar", str(jar))
    server = Server("nessie", command, directory)
    try:
        server.wait_until(lambda: status_of(management, "/q/health/ready") == 200)
        # The reference and the warehouse, which one of its clients has to write as they are here.
        prefix = f"main%7C{_WAREHOUSE}"
        uri = f"http://127.0.0.1:{port}/iceberg"
        yield RunningCatalog(
            NAME,
            install.NESSIE_VERSION,
            uri,
            prefix,
            _WAREHOUSE,
            site,
            server.tail,
            server.stop,
            grants_tokens=False,
        )
    finally:
        server.stop()


def _settings(site: Site, port: int, management: int) -> dict[str, str]:
    s3 = "nessie.catalog.service.s3.default-options."
    return {
        "nessie.version.store.type": "IN_MEMORY",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "quarkus.otel.sdk.disabled": "true",
        "nessie.server.authentication.enabled": "true",
        "quarkus.oidc.tenant-enabled": "true",
        "quarkus.oidc.public-key": site.authority.public_key_base64(),
        "quarkus.oidc.client-id": AUDIENCE,
        "nessie.catalog.default-warehouse": _WAREHOUSE,
        f"nessie.catalog.warehouses.{_WAREHOUSE}.location": f"{site.warehouse}/",
        s3 + "endpoint": site.store.origin,
        s3 + "path-style-access": "true",
        s3 + "region": site.store.region,
        # It would sign itself otherwise, or leave its clients without any way in.
        s3 + "request-signing-enabled": "false",
        s3 + "auth-type": "STATIC",
        s3 + "access-key": "urn:nessie-secret:quarkus:lake.s3",
        "lake.s3.name": site.store.access_key,
        "lake.s3.secret": site.store.secret,
    }


NESSIE = CatalogKind("nessie", install.NESSIE_VERSION, run)
