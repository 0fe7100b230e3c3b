"""Install the clients, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from tests.e2e.clients import maven
from tests.e2e.stores.install import _cache, _once, _run

PYICEBERG_VERSION = "0.12.0"
S3FS_VERSION = "2026.9.0"
S3FS_UNSIGNED = "2026.4.0"
"""The last of those that never call a signer, 2026.2.0 being the first (apache/iceberg-python#3625)."""

_PYTHON_PINS = (
    f"pyiceberg=={PYICEBERG_VERSION}",
    "pyarrow==26.0.1",
    # The catalog of the table that is created and scanned is a database in memory.
    "sqlalchemy==2.1.8",
)
# What s3fs speaks S3 through shapes the requests, so it must not move on its own.
_S3FS_PINS = {
    S3FS_VERSION: (f"s3fs=={S3FS_VERSION}", "aiobotocore==3.10.0"),
    S3FS_UNSIGNED: (f"s3fs=={S3FS_UNSIGNED}",),
}

DRIVER = Path(__file__).parent / "S3FileIODriver.java"

_ARTIFACTS = ("iceberg-core", "iceberg-aws", "iceberg-aws-bundle")


def pyiceberg(s3fs: str = S3FS_VERSION) -> Path:
    """Return the Python of an environment with PyIceberg: its pins would fight with the project's."""
    pins = (*_PYTHON_PINS, *_S3FS_PINS[s3fs])
    digest = hashlib.sha256(" ".join(pins).encode()).hexdigest()[:8]
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    home = _cache() / "venvs" / f"pyiceberg-{PYICEBERG_VERSION}-{digest}-{python}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            _run("pyiceberg: environment", (sys.executable, "-m", "venv", str(home)))
            _run("pyiceberg", (str(home / "bin" / "pip"), "install", "--quiet", *pins))
            done.touch()
    return home / "bin" / "python"


def iceberg_java(version: str) -> str:
    """Return the class path of the compiled driver with Iceberg and the AWS SDK that it ships."""
    return maven.compiled(DRIVER, jars(version))


def jars(version: str) -> Path:
    """Return the directory with Iceberg, what it needs and the AWS SDK that it ships."""
    wanted = [f"org.apache.iceberg:{name}:{version}" for name in _ARTIFACTS]
    return maven.with_dependencies(f"iceberg-{version}", wanted)


def java() -> str:
    """Return the `java` command."""
    return maven.tool("java")
