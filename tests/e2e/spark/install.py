"""Install PySpark and Iceberg's runtime for it, once per version, in the cache that the stores live in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from signproxy.cli.clients import packages
from tests.e2e.clients import maven
from tests.e2e.stores.install import virtualenv


@dataclass(frozen=True, slots=True)
class Release:
    """A PySpark and the Iceberg that it is run with."""

    pyspark: str
    iceberg: str

    def python(self) -> Path:
        """Return the Python of an environment with this PySpark; 320 to 460 MB where it is not there yet."""
        return virtualenv("pyspark", self.pyspark) / "python"

    def jars(self) -> str:
        """Return Iceberg's runtime and its AWS bundle, the packages that users are told to take."""
        spark, iceberg = (".".join(version.split(".")[:2]) for version in (self.pyspark, self.iceberg))
        found = packages(iceberg, spark)
        assert found, self
        assert all(name.endswith(f":{self.iceberg}") for name in found), found
        return ",".join(str(maven.jar(name)) for name in found)

    def __str__(self) -> str:
        return f"pyspark-{self.pyspark}-iceberg-{self.iceberg}"


RELEASES = (Release("4.1.4", "1.12.0"), Release("3.5.9", "1.12.0"), Release("4.0.5", "1.11.0"))
"""In the order in which they are given to one change after the other."""
