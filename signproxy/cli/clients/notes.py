"""Say what a client's configuration cannot: what it must not be given beside it, and where it is known to fail."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from signproxy.cli.clients.client import Client
from signproxy.cli.clients.connection import Connection, Mode
from signproxy.config.loopback import is_loopback

NEVER_SIGN = ("2026.2.0", "2026.3.0", "2026.4.0")
"""Versions of s3fs that do not call a signer: apache/iceberg-python#3625."""

_FLINK_RUN = "1.11"
"""The newest Iceberg that is published for a Flink."""


def notes(connection: Connection) -> list[str]:
    """Return what is worth knowing before the first request, each a sentence or two."""
    of_client = _of_java(connection) if connection.client.java else _of_pyiceberg(connection)
    return [*of_client, *_of_address(connection)]


def _of_java(connection: Connection) -> Iterator[str]:
    if connection.client is Client.FLINK and (connection.minor != _FLINK_RUN or connection.mode is Mode.DIRECT):
        yield (
            f"Flink 2.1 was run with Iceberg {_FLINK_RUN}, through the facade. Other releases were not run; they read "
            "and write through the same S3FileIO as Spark does."
        )
    if connection.mode is Mode.FACADE:
        yield "Set no `signer.uri` and no `s3.signer.uri` besides: they win over what the catalog's answers say."
        if connection.application or connection.query_id:
            yield "A JVM sends the headers of its first catalog with every sign call (iceberg #16460)."
    else:
        yield "Do not ask the catalog for vended credentials besides: the client would hold keys."
    yield "`s3.analytics-accelerator.enabled` must stay off: its S3 client is never signed."
    if connection.minor != "1.12":
        yield (
            f"Iceberg {connection.minor} repeats a sign call after 429, or 503 with Retry-After, and never after a "
            "broken connection: signproxy must be there before the job and until its end."
        )


def _of_pyiceberg(connection: Connection) -> Iterator[str]:
    yield f"s3fs {', '.join(NEVER_SIGN)} never call a signer (iceberg-python #3625): take an older or newer one."
    yield (
        "PyIceberg loses its signer between threads (iceberg-python #3896), which shows as PermissionError or "
        "SignError: one worker it must be."
    )
    yield (
        "It removes a file by a bulk delete whose body it does not show, which is refused (delete_without_body). "
        "Append, overwrite, delete and scan do without; manifests of a commit that was repeated stay behind, for "
        "Spark's remove_orphan_files."
    )
    if connection.mode is Mode.DIRECT:
        yield "By itself it asks its catalog for vended credentials: one that vends hands it keys, which lie unused."


def _of_address(connection: Connection) -> Iterator[str]:
    java = connection.client.java
    url = urlsplit(connection.site.public_url)
    host = url.hostname or ""
    if url.scheme == "https":
        yield (
            "The JVMs must trust signproxy's certificate: -Djavax.net.ssl.trustStore in their options, or a class of "
            "your own in `rest.client.tls.configurer-impl`."
            if java
            else "Where a private authority signed signproxy's certificate, set REQUESTS_CA_BUNDLE to its file."
        )
    if is_loopback(host):
        yield f"{host} is each machine's own: every process that reads or writes needs a signproxy beside it."
        if not java:
            yield f"Behind a proxy set NO_PROXY={host}: signproxy would be asked for through it."
