"""Write the generated parts of the page about clients, by the functions of the command."""

from __future__ import annotations

from collections.abc import Iterator

from signproxy.cli.client_config import page
from signproxy.cli.clients.client import RUNTIMES, VERSIONS, Client, packages
from signproxy.cli.clients.connection import Connection, Mode, Site
from signproxy.cli.clients.formats import FORMATS, Format
from signproxy.cli.clients.properties import configuration
from signproxy.cli.clients.token import TokenSource
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.cli.clients.transparent_forms import FORMS as TRANSPARENT_FORMS
from signproxy.cli.clients.transparent_forms import page as transparent_page
from tools.docs.markdown import code, codes, table

EXAMPLE = Site(catalog="lake", public_url="http://127.0.0.1:8181", region="eu-central-1")
S3_EXAMPLE = S3Site(
    catalog="lake",
    s3_url="http://127.0.0.1:8182",
    public_url="http://127.0.0.1:8181",
    region="eu-central-1",
    bucket="acme-lake",
    catalog_uri="http://127.0.0.1:8181/catalogs/lake",
)
CATALOG_URI = "https://catalog.example/api/catalog"

_NAMES = {Client.SPARK: "Spark", Client.FLINK: "Flink", Client.PYICEBERG: "PyIceberg"}
_LANGUAGES = {Format.PROPERTIES: "", Format.PYTHON: "python", Format.SQL: "sql"}


def spark() -> str:
    """Return what is printed for Spark."""
    return _block(Client.SPARK, Format.PROPERTIES)


def pyiceberg() -> str:
    """Return what is printed for PyIceberg."""
    return _block(Client.PYICEBERG, Format.PYTHON)


def flink() -> str:
    """Return what is printed for Flink."""
    return _block(Client.FLINK, Format.SQL)


def direct() -> str:
    """Return what each version is told of the signer where its catalog knows nothing of it."""
    return table(("client", "what it is told besides its catalog and its store"), _direct_rows())


def forms() -> str:
    """Return which clients and versions there are, and in which forms they are configured."""
    rows = [
        (
            _NAMES[client],
            code(client.value),
            f"{_library(client)} {', '.join(versions)}",
            codes(form.value for form in FORMATS[client]),
        )
        for client, versions in VERSIONS.items()
    ]
    return table(("client", "`--client`", "`--client-version`", "`--format`, the first by default"), rows)


def runtimes() -> str:
    """Return the packages of each pair of Iceberg and Spark."""
    rows = [
        (iceberg, spark, codes(packages(iceberg, spark))) for iceberg, sparks in RUNTIMES.items() for spark in sparks
    ]
    return table(("Iceberg", "Spark", "packages"), rows)


def transparent() -> str:
    """Return the clients that sign by themselves, and why."""
    rows = [
        (
            each.known.title,
            code(each.value),
            each.known.why,
            codes(form.value for form in TRANSPARENT_FORMS[each]),
            "by itself" if each.known.renews else "none: one key for each run",
        )
        for each in Transparent
    ]
    return table(("client", "`--client`", "why it cannot be signed for", "`--format`", "who renews its key"), rows)


def duckdb() -> str:
    """Return what is printed for DuckDB."""
    return _transparent(Transparent.DUCKDB, "sql")


def pyarrow() -> str:
    """Return what is printed for PyIceberg's own default."""
    return _transparent(Transparent.PYARROW, "python")


def polars() -> str:
    """Return what is printed for Polars."""
    return _transparent(Transparent.POLARS, "python")


def awscli() -> str:
    """Return what is printed for the AWS CLI, which is what every SDK of AWS reads."""
    return _transparent(Transparent.AWSCLI, "ini")


def _transparent(client: Transparent, language: str) -> str:
    lines = transparent_page(client, S3_EXAMPLE, None, TokenSource())
    return "\n".join((f"```{language}", *lines, "```", ""))


def _block(client: Client, form: Format) -> str:
    lines = page(Connection(client=client, site=EXAMPLE), form, TokenSource())
    return "\n".join((f"```{_LANGUAGES[form]}", *lines, "```", ""))


def _direct_rows() -> Iterator[tuple[str, str]]:
    """Yield a row for each set of properties, with the versions that share it."""
    clients: dict[str, list[str]] = {}
    for client, versions in VERSIONS.items():
        for version in versions:
            told = _signer(
                Connection(client=client, site=EXAMPLE, mode=Mode.DIRECT, version=version, catalog_uri=CATALOG_URI)
            )
            clients.setdefault(told, []).append(f"{_library(client)} {version}")
    for told, named in clients.items():
        yield ", ".join(dict.fromkeys(named)), told


def _signer(connection: Connection) -> str:
    return codes(f"{key}={value}" for key, value in configuration(connection).items() if "sign" in key)


def _library(client: Client) -> str:
    return "Iceberg" if client.java else "PyIceberg"
