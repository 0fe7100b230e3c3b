"""Run the Iceberg REST catalogs that users already have, all behind one seam."""

from tests.e2e.catalogs.fixture import ICEBERG_FIXTURE, UNIQUE_FIXTURE
from tests.e2e.catalogs.nessie import NESSIE
from tests.e2e.catalogs.seam import CatalogKind, RunningCatalog, Site

CATALOGS = (ICEBERG_FIXTURE, NESSIE)

__all__ = ["CATALOGS", "ICEBERG_FIXTURE", "NESSIE", "UNIQUE_FIXTURE", "CatalogKind", "RunningCatalog", "Site"]
