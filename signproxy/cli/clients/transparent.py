"""Know the clients that sign by themselves, and what each of them is told of signproxy's own S3 listener."""

from __future__ import annotations

from enum import Enum
from urllib.parse import urlsplit

import msgspec

from signproxy.cli.clients.templates import TEMPLATES, OwnTemplate


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
    def known(self) -> OwnTemplate:
        """What is known of it, and its forms."""
        return TEMPLATES.own.clients[self.value]


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
