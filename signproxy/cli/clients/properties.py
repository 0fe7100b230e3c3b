"""Make the properties of a client's catalog, and of a Spark session that has it."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from signproxy.catalog.carried import APPLICATION, APPLICATION_HEADER, QUERY, QUERY_HEADER
from signproxy.catalog.client_config import DELEGATION_HEADER, TABLELESS_ENDPOINT
from signproxy.cli.clients.client import Client
from signproxy.cli.clients.connection import Connection, Mode, Site

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
_FSSPEC_FILE_IO = "pyiceberg.io.fsspec.FsspecFileIO"

_SIGNER_KEYS = {"1.10": "s3.signer", "1.11": "s3.signer", "1.12": "signer"}
"""Iceberg 1.12 ignores `s3.signer.*`; 1.10 does not know `signer.*` yet."""


def configuration(connection: Connection) -> dict[str, str]:
    """Return the catalog's properties, as the client takes them when it is given the catalog."""
    properties = {**_kind(connection.client), "uri": _uri(connection)}
    if connection.token:
        properties["token"] = connection.token
    if connection.warehouse:
        properties["warehouse"] = connection.warehouse
    # Said by the client itself: without it, an answer that does not ask for signing has it look for keys of its own.
    switch = {"s3.remote-signing-enabled": "true"} if connection.client.java else {"s3.signer": "S3V4RestSigner"}
    way = _through_facade if connection.mode is Mode.FACADE else _past_catalog
    return properties | way(connection) | switch | _store(connection)


def spark_conf(connection: Connection) -> dict[str, str]:
    """Return a Spark session's configuration: the extensions, and the catalog under its name."""
    prefix = f"spark.sql.catalog.{connection.called}"
    conf = {"spark.sql.extensions": SPARK_EXTENSIONS, prefix: SPARK_CATALOG}
    return conf | {f"{prefix}.{key}": value for key, value in configuration(connection).items()}


def mount(site: Site) -> str:
    """Return the URL below which a catalog is found at signproxy, whichever way it is asked."""
    return f"{site.public_url}/catalogs/{quote(site.catalog, safe='')}"


def _kind(client: Client) -> dict[str, str]:
    match client:
        case Client.FLINK:
            return {"type": "iceberg", "catalog-type": "rest"}
        case Client.SPARK | Client.PYICEBERG:
            return {"type": "rest"}


def _uri(connection: Connection) -> str:
    return mount(connection.site) if connection.mode is Mode.FACADE else connection.catalog_uri


def _through_facade(connection: Connection) -> dict[str, str]:
    """Ask for signing; each table's answer says where, and a client that is not told goes to the catalog's address."""
    properties = {f"header.{DELEGATION_HEADER}": "remote-signing"}
    for header, said in ((APPLICATION_HEADER, connection.application), (QUERY_HEADER, connection.query_id)):
        if said:
            properties[f"header.{header}"] = said
    return properties


def _past_catalog(connection: Connection) -> dict[str, str]:
    """Name the signer: nothing else would. No header asks the catalog for what it may refuse."""
    keys = _SIGNER_KEYS[connection.minor] if connection.client.java else "s3.signer"
    return {
        f"{keys}.uri": mount(connection.site),
        # Relative and without a leading slash, which older clients break on; table-less, for it serves every table.
        f"{keys}.endpoint": TABLELESS_ENDPOINT + _context(connection),
    }


def _context(connection: Connection) -> str:
    """Return what says who asks, for signproxy alone: a header would go to the catalog, too."""
    said = {APPLICATION: connection.application, QUERY: connection.query_id}
    query = urlencode({name: value for name, value in said.items() if value}, quote_via=quote)
    return f"?{query}" if query else ""


def _store(connection: Connection) -> dict[str, str]:
    """Return how the store is addressed, and through which FileIO: the others never sign."""
    site, java = connection.site, connection.client.java
    properties = {"io-impl": _S3_FILE_IO} if java else {"py-io-impl": _FSSPEC_FILE_IO}
    if site.region:
        properties["client.region" if java else "s3.region"] = site.region
    if site.s3_endpoint:
        properties["s3.endpoint"] = site.s3_endpoint
    if java and site.path_style:
        properties["s3.path-style-access"] = "true"
    if not java and site.s3_endpoint and not site.path_style:
        properties["s3.force-virtual-addressing"] = "true"
    return properties
