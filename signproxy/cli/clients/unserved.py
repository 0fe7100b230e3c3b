"""Tell of clients that cannot have their requests signed, and of what works for them without signproxy."""

from __future__ import annotations

from typing import NamedTuple


class Unserved(NamedTuple):
    """A client that signproxy does not serve."""

    name: str
    why: str
    today: str
    """What works for it, none of which passes signproxy."""


_NO_SIGNER = "it has no way to ask a signer"

UNSERVED = {
    "duckdb": Unserved(
        "DuckDB",
        "its iceberg extension refuses `access_delegation_mode 'remote_signing'`",
        "keys of its own (CREATE SECRET), or those that its catalog vends",
    ),
    "boto3": Unserved("boto3", "it signs every request itself, with keys", "keys of its own"),
    "trino": Unserved("Trino", _NO_SIGNER, "keys of its own (`s3.aws-access-key`), or those that its catalog vends"),
    "comet": Unserved(
        "Comet",
        "its native scans read S3 themselves, with keys",
        "with a REST catalog Comet leaves the reading to Iceberg, which does sign: configure it as `spark`",
    ),
    "polars": Unserved(
        "Polars", "its own Iceberg and Parquet readers sign every request themselves", "keys of its own"
    ),
}
"""By what `--client` calls them."""


def refusal(client: str) -> list[str]:
    """Return the lines that say so."""
    unserved = UNSERVED[client]
    return [
        f"{unserved.name} cannot have its requests signed: {unserved.why}.",
        "signproxy serves clients that sign remotely, and no others: there is no configuration to print.",
        f"What works for it, without signproxy: {unserved.today}.",
    ]
