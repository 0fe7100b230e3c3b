"""Print a client's configuration for a catalog, ready to be used, and what has to be known beside it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from urllib.parse import urlsplit

from signproxy.cli import configuration
from signproxy.cli.clients.client import RUNTIMES, VERSIONS, Client
from signproxy.cli.clients.connection import Connection, Mode
from signproxy.cli.clients.formats import FORMATS, Format, written
from signproxy.cli.clients.properties import told
from signproxy.cli.clients.site import s3_site_of, site_of
from signproxy.cli.clients.templates import TEMPLATES, commented, filled
from signproxy.cli.clients.token import DEFAULT_VARIABLE, TokenSource
from signproxy.cli.clients.transparent import Transparent
from signproxy.cli.clients.transparent_forms import page as transparent_page
from signproxy.cli.terminal import say
from signproxy.config.addresses import is_loopback
from signproxy.errors import Finding, Invalid

PRINTED = 0

_OF_SIGNING = ("catalog_uri", "warehouse", "client_version", "spark_version", "name", "application", "query_id")
"""What says something of a client that has its requests signed, and nothing of one that signs by itself."""

NEVER_SIGN = ("2026.2.0", "2026.3.0", "2026.4.0")
"""Versions of s3fs that do not call a signer: apache/iceberg-python#3625."""

_FLINK_RUN = "1.11"
"""The newest Iceberg that is published for a Flink."""

_VERSIONS = (
    f"of Iceberg ({', '.join(VERSIONS[Client.SPARK])}), or of PyIceberg ({', '.join(VERSIONS[Client.PYICEBERG])}); "
    "default: the newest"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the client, the catalog, and how the one is to reach the other."""
    clients = [client.value for client in (*Client, *Transparent)]
    parser.add_argument("--client", required=True, choices=clients, help="who is to be configured")
    parser.add_argument("--catalog", metavar="NAME", help="a catalog of the policy; default: its default catalog")
    parser.add_argument("--storage", metavar="NAME", help="which one of the catalog's, where it has several")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.FACADE.value,
        help="facade: the client's catalog is signproxy, in front of yours (default); direct: the client asks its "
        "own catalog, which knows nothing of signing",
    )
    parser.add_argument("--catalog-uri", metavar="URI", default="", help="your catalog's own, with --mode direct")
    parser.add_argument("--warehouse", metavar="NAME", default="", help="what your catalog is asked for, likewise")
    parser.add_argument("--client-version", metavar="V", default="", help=_VERSIONS)
    parser.add_argument(
        "--spark-version", metavar="V", default="", help="3.5, 4.0 or 4.1; default: the newest that fits"
    )
    parser.add_argument("--as", dest="name", metavar="NAME", default="", help="what the client calls the catalog")
    parser.add_argument(
        "--token-file", metavar="FILE", default="", help="where the client has its token; never read here"
    )
    parser.add_argument(
        "--token-variable", metavar="NAME", default=DEFAULT_VARIABLE, help=f"where else; default: {DEFAULT_VARIABLE}"
    )
    parser.add_argument("--application", metavar="TEXT", default="", help="who asks, for the audit trail")
    parser.add_argument("--query-id", metavar="TEXT", default="", help="for which query, likewise")
    parser.add_argument(
        "--format",
        choices=[form.value for form in Format],
        help="default: the client's own first one, such as properties, python or sql",
    )
    configuration.arguments(parser)
    parser.epilog = "Exit code: 0 printed, 1 invalid input, or the client would not be served, 2 wrong usage."


def run(options: argparse.Namespace) -> int:
    """Print it; no token is read, so none can be shown."""
    signed = options.client in {client.value for client in Client}
    if not signed:
        _check_own(options, Transparent(options.client))
    form = None if options.format is None else Format(options.format)
    settings = configuration.settings_of(options)
    from signproxy.server.process.build import policy_source

    state = policy_source(settings).load(0)
    token = TokenSource(options.token_file, options.token_variable)
    if signed:
        client, mode = Client(options.client), Mode(options.mode)
        connection = Connection(
            client=client,
            site=site_of(settings, state, mode, options.catalog, options.storage),
            mode=mode,
            version=options.client_version,
            name=options.name,
            catalog_uri=options.catalog_uri,
            warehouse=options.warehouse,
            application=options.application,
            query_id=options.query_id,
        )
        _check_spark_version(connection, options.spark_version)
        lines = page(connection, form or FORMATS[client][0], token, options.spark_version)
    else:
        own = Transparent(options.client)
        site = s3_site_of(own, settings, state, options.catalog, options.storage)
        lines = transparent_page(own, site, form, token)
    for line in lines:
        say(line)
    return PRINTED


def _check_own(options: argparse.Namespace, client: Transparent) -> None:
    given = [] if options.mode == Mode.FACADE.value else ["mode"]
    given += [name for name in _OF_SIGNING if getattr(options, name)]
    if given:
        option = "--as" if given[0] == "name" else f"--{given[0].replace('_', '-')}"
        problem = f"goes with clients that have their requests signed; {client.known.title} signs by itself"
        raise Invalid([Finding("command line", option, problem)])


def page(connection: Connection, form: Format, token: TokenSource, spark_version: str = "") -> Iterator[str]:
    """Yield what is printed: the notes as comments, where the form has any, and the configuration."""
    lines = written(connection, form, token, spark_version)
    if form.comment:
        yield from commented(form.comment, [*title(connection, form, token), *notes(connection)])
    yield from lines


def _check_spark_version(connection: Connection, asked: str) -> None:
    known = RUNTIMES.get(connection.minor, ()) if connection.client is Client.SPARK else ()
    if asked and asked not in known:
        problem = f"Iceberg {connection.minor} was not run with Spark {asked!r}; known: {', '.join(known) or 'none'}"
        if connection.client is not Client.SPARK:
            problem = "goes with --client spark"
        raise Invalid([Finding("command line", "--spark-version", problem)])


def title(connection: Connection, form: Format, token: TokenSource) -> list[str]:
    """Return what is configured here, and what becomes of the token: other forms show where they take it from."""
    library = "PyIceberg" if not connection.client.java else f"{connection.client.value.capitalize()} with Iceberg"
    values = {
        "library": library,
        "name": connection.called,
        "variable": token.variable,
        "file": token.file,
        "carried": token.file if form is Format.PYTHON else "",
        "exported": token.exported(token.variable),
        form.value: "form",
    }
    return list(filled(TEMPLATES.signed.title, _facts(connection) | values))


def notes(connection: Connection) -> list[str]:
    """Return what is worth knowing before the first request, each a sentence or two."""
    return list(filled(TEMPLATES.signed.notes, _facts(connection)))


def _facts(connection: Connection) -> dict[str, str]:
    """Return what the notes depend on."""
    url = urlsplit(connection.site.public_url)
    host = url.hostname or ""
    true = {
        url.scheme: True,
        "run": connection.client is Client.FLINK and (connection.minor, connection.mode) == (_FLINK_RUN, Mode.FACADE),
        "repeats": connection.minor == "1.12",
        "said": bool(connection.application or connection.query_id),
        "loopback": is_loopback(host),
    }
    facts = {name: "yes" for name, holds in true.items() if holds}
    return told(connection) | facts | {"host": host, "never_sign": ", ".join(NEVER_SIGN)}
