"""Install the clients, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tests.e2e.stores.install import PrerequisiteMissing, _cache, _once, _run

PYICEBERG_VERSION = "0.12.0"
S3FS_VERSION = "2026.9.0"
"""2026.2.0 to 2026.4.0 never call a signer (apache/iceberg-python#3625)."""

_PYTHON_PINS = (
    f"pyiceberg=={PYICEBERG_VERSION}",
    f"s3fs=={S3FS_VERSION}",
    # These shape the requests, so they must not move on their own.
    "aiobotocore==3.10.0",
    "pyarrow==26.0.1",
    # The catalog of the table that is created and scanned is a database in memory.
    "sqlalchemy==2.1.8",
)

JAVA_NEEDED = "17"
"""What Iceberg 1.11 and newer are compiled for."""

DRIVER = Path(__file__).parent / "S3FileIODriver.java"

# Maven reads coordinates from a project; what these need comes with them.
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>e2e</groupId><artifactId>client</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>org.apache.iceberg</groupId><artifactId>{name}</artifactId>"
    "<version>{version}</version></dependency>"
)
_ARTIFACTS = ("iceberg-core", "iceberg-aws", "iceberg-aws-bundle")


def pyiceberg() -> Path:
    """Return the Python of an environment with PyIceberg: its pins would fight with the project's."""
    pins = hashlib.sha256(" ".join(_PYTHON_PINS).encode()).hexdigest()[:8]
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    home = _cache() / "venvs" / f"pyiceberg-{PYICEBERG_VERSION}-{pins}-{python}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            _run("pyiceberg: environment", (sys.executable, "-m", "venv", str(home)))
            _run("pyiceberg", (str(home / "bin" / "pip"), "install", "--quiet", *_PYTHON_PINS))
            done.touch()
    return home / "bin" / "python"


def iceberg_java(version: str) -> str:
    """Return the class path of the compiled driver with Iceberg and the AWS SDK that it ships."""
    jars = _jars(version)
    source = DRIVER.read_bytes()
    classes = jars.parent / f"driver-{hashlib.sha256(source).hexdigest()[:12]}"
    with _once(classes) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=jars.parent) as directory:
                built = Path(directory) / "classes"
                _run("the driver", (_tool("javac"), "-cp", f"{jars}/*", "-d", str(built), str(DRIVER)))
                built.rename(classes)
    return f"{classes}:{jars}/*"


def java() -> str:
    """Return the `java` command."""
    return _tool("java")


def _jars(version: str) -> Path:
    home = _cache() / "jars" / f"iceberg-{version}"
    jars = home / "jars"
    with _once(jars) as missing:
        if missing:
            with tempfile.TemporaryDirectory(dir=home) as directory:
                pom, fetched = Path(directory) / "pom.xml", Path(directory) / "jars"
                wanted = "".join(_DEPENDENCY.format(name=name, version=version) for name in _ARTIFACTS)
                pom.write_text(_POM.format(dependencies=wanted))
                goal = ("dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime")
                _run(f"Iceberg {version}", (_tool("mvn"), "-q", "-B", "-ntp", "-f", str(pom), *goal))
                fetched.rename(jars)
    return jars


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PrerequisiteMissing(
            f"Iceberg Java is fetched by Maven and run by a JDK {JAVA_NEEDED} or newer, and there is no `{name}` on "
            "the path: install them (`apt-get install maven openjdk-17-jdk-headless`)"
        )
    return found
