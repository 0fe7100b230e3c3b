"""Print a client's configuration for a catalog, ready to be used, and what has to be known beside it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator

from signproxy.cli import configuration
from signproxy.cli.clients.client import RUNTIMES, VERSIONS, Client
from signproxy.cli.clients.connection import Connection, Mode
from signproxy.cli.clients.formats import FORMATS, Format, written
from signproxy.cli.clients.notes import notes
from signproxy.cli.clients.site import site_of
from signproxy.cli.clients.token import DEFAULT_VARIABLE, TokenSource
from signproxy.cli.clients.transparent import Transparent
from signproxy.cli.clients.transparent_forms import page as transparent_page
from signproxy.cli.clients.transparent_site import s3_site_of
from signproxy.cli.terminal import say
from signproxy.errors import Finding, Invalid

PRINTED = 0

_OF_SIGNING = {
    "mode": Mode.FACADE.value,
    "catalog_uri": "",
    "warehouse": "",
    "client_version": "",
    "spark_version": "",
    "name": "",
    "application": "",
    "query_id": "",
}
"""What says something of a client that has its requests signed, and nothing of one that signs by itself."""

_WIDTH = 110
"""Columns of a comment."""


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
    parser.add_argument("--client-version", metavar="V", default="", help=_versions())
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
    if options.client not in {client.value for client in Client}:
        return _transparent(options, Transparent(options.client))
    client = Client(options.client)
    form = FORMATS[client][0] if options.format is None else Format(options.format)
    mode = Mode(options.mode)
    settings = configuration.settings_of(options)
    from signproxy.server.process.build import policy_source

    connection = Connection(
        client=client,
        site=site_of(settings, policy_source(settings).load(0), mode, options.catalog, options.storage),
        mode=mode,
        version=options.client_version,
        name=options.name,
        catalog_uri=options.catalog_uri,
        warehouse=options.warehouse,
        application=options.application,
        query_id=options.query_id,
    )
    _check_spark_version(connection, options.spark_version)
    token = TokenSource(options.token_file, options.token_variable)
    for line in page(connection, form, token, options.spark_version):
        say(line)
    return PRINTED


def _transparent(options: argparse.Namespace, client: Transparent) -> int:
    given = [name for name, nothing in _OF_SIGNING.items() if getattr(options, name) != nothing]
    if given:
        option = "--as" if given[0] == "name" else f"--{given[0].replace('_', '-')}"
        problem = f"goes with clients that have their requests signed; {client.title} signs by itself"
        raise Invalid([Finding("command line", option, problem)])
    settings = configuration.settings_of(options)
    from signproxy.server.process.build import policy_source

    site = s3_site_of(client, settings, policy_source(settings).load(0), options.catalog, options.storage)
    form = None if options.format is None else Format(options.format)
    for line in transparent_page(client, site, form, TokenSource(options.token_file, options.token_variable)):
        say(line)
    return PRINTED


def page(connection: Connection, form: Format, token: TokenSource, spark_version: str = "") -> Iterator[str]:
    """Yield what is printed: the notes as comments, where the form has any, and the configuration."""
    lines = written(connection, form, token, spark_version)
    if form.comment:
        for note in (_title(connection), *_of_token(connection, form, token), *notes(connection)):
            yield from textwrap.wrap(
                note, _WIDTH, initial_indent=f"{form.comment} ", subsequent_indent=f"{form.comment}   "
            )
    yield from lines


def _title(connection: Connection) -> str:
    way = (
        "through signproxy"
        if connection.mode is Mode.FACADE
        else "signed by signproxy, which its catalog does not know"
    )
    library = "PyIceberg" if connection.client is Client.PYICEBERG else "Iceberg"
    of = "" if connection.client is Client.PYICEBERG else f"{connection.client.value.capitalize()} with "
    return f"{of}{library} {connection.minor}: catalog {connection.called}, {way}."


def _of_token(connection: Connection, form: Format, token: TokenSource) -> Iterator[str]:
    """Say what becomes of a token that Iceberg itself looks for; other forms show where they take it from."""
    if connection.client.java and not (form is Format.PYTHON and token.file):
        yield f"Iceberg takes the token from the variable {token.variable} of the process that opens the catalog."
        if token.file and form is not Format.SHELL:
            yield f"Put it there: {token.exported(token.variable)}"
    yield "signproxy and the catalog are shown the same token; where it is not renewed, it must outlive the job."


def _versions() -> str:
    return (
        f"of Iceberg ({', '.join(VERSIONS[Client.SPARK])}), or of PyIceberg ({', '.join(VERSIONS[Client.PYICEBERG])}); "
        "default: the newest"
    )


def _check_spark_version(connection: Connection, asked: str) -> None:
    known = RUNTIMES.get(connection.minor, ()) if connection.client is Client.SPARK else ()
    if asked and asked not in known:
        problem = f"Iceberg {connection.minor} was not run with Spark {asked!r}; known: {', '.join(known) or 'none'}"
        if connection.client is not Client.SPARK:
            problem = "goes with --client spark"
        raise Invalid([Finding("command line", "--spark-version", problem)])
