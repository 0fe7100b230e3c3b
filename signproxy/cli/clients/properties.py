"""Make the properties of a client's catalog, and of a Spark session that has it."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import msgspec

from signproxy.catalog.carried import APPLICATION, APPLICATION_HEADER, QUERY, QUERY_HEADER
from signproxy.catalog.config_answer import TABLELESS_ENDPOINT
from signproxy.catalog.signer_grant import DELEGATION_HEADER
from signproxy.cli.clients.connection import Connection, Site
from signproxy.cli.clients.templates import TEMPLATES, filled

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def configuration(connection: Connection) -> dict[str, str]:
    """Return the catalog's properties, as the client takes them when it is given the catalog."""
    lines = filled(TEMPLATES.signed.properties, told(connection))
    return dict(line.split("=", 1) for line in lines)


def spark_conf(connection: Connection) -> dict[str, str]:
    """Return a Spark session's configuration: the extensions, and the catalog under its name."""
    prefix = f"spark.sql.catalog.{connection.called}"
    conf = {"spark.sql.extensions": SPARK_EXTENSIONS, prefix: SPARK_CATALOG}
    return conf | {f"{prefix}.{key}": value for key, value in configuration(connection).items()}


def told(connection: Connection) -> dict[str, str]:
    """Return what templates of a connection are filled with: its fields, its site's, and what follows from them."""
    client = connection.client
    said = {APPLICATION: connection.application, QUERY: connection.query_id}
    # For signproxy alone: a header would go to the catalog, too.
    query = urlencode({name: value for name, value in said.items() if value}, quote_via=quote)
    return (
        _texts(connection)
        | _texts(connection.site)
        | {
            client.value: "client",
            connection.mode.value: "mode",
            "java": "yes" if client.java else "",
            "minor": connection.minor,
            "mount": mount(connection.site),
            # Iceberg 1.12 ignores `s3.signer.*`; 1.10 does not know `signer.*` yet.
            "signer": "signer" if client.java and connection.minor == "1.12" else "s3.signer",
            # Relative and without a leading slash, which older clients break on; table-less, for it serves every table.
            "signer_endpoint": f"{TABLELESS_ENDPOINT}?{query}" if query else TABLELESS_ENDPOINT,
            "delegation_header": DELEGATION_HEADER,
            "application_header": APPLICATION_HEADER,
            "query_header": QUERY_HEADER,
        }
    )


def mount(site: Site) -> str:
    """Return the URL below which a catalog is found at signproxy, whichever way it is asked."""
    return f"{site.public_url}/catalogs/{quote(site.catalog, safe='')}"


def _texts(value: msgspec.Struct) -> dict[str, str]:
    """Return the fields of a value that hold something."""
    return {name: str(held) for name, held in msgspec.structs.asdict(value).items() if held}
