"""Know the clients that sign by themselves, and how each of them is led to signproxy's own S3 listener."""

from __future__ import annotations

from enum import Enum
from urllib.parse import urlsplit

import msgspec

PROFILE = "signproxy"
"""What the printed configurations call their profile, their remote or their secret."""


class Transparent(Enum):
    """The clients that cannot have their requests signed, and are served through the S3 listener."""

    DUCKDB = "duckdb"
    PYARROW = "pyarrow"
    BOTO3 = "boto3"
    AWSCLI = "awscli"
    TRINO = "trino"
    COMET = "comet"
    POLARS = "polars"
    DAFT = "daft"
    ICEBERG_GO = "iceberg-go"
    ICEBERG_RUST = "iceberg-rust"
    S5CMD = "s5cmd"
    RCLONE = "rclone"

    @property
    def title(self) -> str:
        """Its own spelling."""
        return _TITLES[self]

    @property
    def why(self) -> str:
        """Why its requests cannot be signed by another party."""
        return _WHY.get(self, "it signs every request itself, with keys")

    @property
    def needs_catalog(self) -> bool:
        """Whether it reads tables alone, and finds the S3 listener by what the facade tells it."""
        return self in _OF_CATALOGS

    @property
    def renews(self) -> bool:
        """Whether it gets itself another key before one ends; the others have one key for all of their life."""
        return self in _RENEWING


_TITLES = {
    Transparent.DUCKDB: "DuckDB",
    Transparent.PYARROW: "PyIceberg with PyArrow",
    Transparent.BOTO3: "boto3",
    Transparent.AWSCLI: "AWS CLI",
    Transparent.TRINO: "Trino",
    Transparent.COMET: "Comet",
    Transparent.POLARS: "Polars",
    Transparent.DAFT: "Daft",
    Transparent.ICEBERG_GO: "iceberg-go",
    Transparent.ICEBERG_RUST: "iceberg-rust",
    Transparent.S5CMD: "s5cmd",
    Transparent.RCLONE: "rclone",
}
_WHY = {
    Transparent.DUCKDB: "its iceberg extension refuses `access_delegation_mode 'remote_signing'`",
    Transparent.PYARROW: "its default FileIO signs every request itself, with keys",
    Transparent.TRINO: "it has no way to ask a signer",
    Transparent.COMET: "its native scans read S3 themselves, with keys",
    Transparent.POLARS: "its own Iceberg and Parquet readers sign every request themselves",
    Transparent.ICEBERG_GO: "it refuses a table that offers remote signing",
    Transparent.ICEBERG_RUST: "it has no way to ask a signer",
}
_OF_CATALOGS = frozenset({Transparent.PYARROW, Transparent.DAFT, Transparent.ICEBERG_GO, Transparent.ICEBERG_RUST})
_RENEWING = frozenset({Transparent.BOTO3, Transparent.AWSCLI, Transparent.TRINO})


class S3Site(msgspec.Struct, frozen=True, kw_only=True):
    """Where the S3 listener is, and where keys for it are issued."""

    catalog: str
    s3_url: str
    """Without a slash at its end."""
    public_url: str
    """Where keys are issued, likewise."""
    region: str
    bucket: str
    """One that it leads to, for examples."""
    catalog_uri: str = ""
    """Where its tables are, without a slash at its end; empty where signproxy is no facade of the catalog."""
    key_seconds: int = 3_600
    """How long a key lives at most."""

    @property
    def tls(self) -> bool:
        """Whether the listener speaks TLS."""
        return self.s3_url.startswith("https:")

    @property
    def authority(self) -> str:
        """Host and port of the listener."""
        return urlsplit(self.s3_url).netloc
