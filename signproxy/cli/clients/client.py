"""Know the clients that sign, the versions whose configurations differ, and the packages that bring them."""

from __future__ import annotations

from enum import Enum


class Client(Enum):
    """The clients that can have their requests signed."""

    SPARK = "spark"
    FLINK = "flink"
    PYICEBERG = "pyiceberg"

    @property
    def java(self) -> bool:
        """Whether it reads and writes through Iceberg Java's S3FileIO."""
        return self is not Client.PYICEBERG


_ICEBERG = ("1.10", "1.11", "1.12")
VERSIONS = {Client.SPARK: _ICEBERG, Client.FLINK: _ICEBERG, Client.PYICEBERG: ("0.11", "0.12")}
"""Of Iceberg, for what runs Iceberg Java, and of PyIceberg; the newest last."""

_RELEASES = {"1.11": "1.11.0", "1.12": "1.12.0"}
_SCALA = {"3.5": "2.12", "4.0": "2.13", "4.1": "2.13"}
RUNTIMES = {"1.11": ("3.5", "4.0"), "1.12": ("3.5", "4.1")}
"""Iceberg -> the Spark versions whose runtime was resolved by name and run; the newest last."""


def version_of(client: Client, text: str) -> str | None:
    """Return a version as configurations differ by it, `1.12` for `1.12.0`; empty text is the newest, None unknown."""
    known = VERSIONS[client]
    if not text:
        return known[-1]
    minor = ".".join(text.split(".")[:2])
    return minor if minor in known else None


def packages(iceberg: str, spark: str = "") -> tuple[str, ...]:
    """Return the Maven coordinates for a Spark version, empty for the newest; none where no pair of the two was run."""
    run = RUNTIMES.get(iceberg, ())
    spark = spark or (run[-1] if run else "")
    if spark not in run:
        return ()
    release = _RELEASES[iceberg]
    return (
        f"org.apache.iceberg:iceberg-spark-runtime-{spark}_{_SCALA[spark]}:{release}",
        f"org.apache.iceberg:iceberg-aws-bundle:{release}",
    )
