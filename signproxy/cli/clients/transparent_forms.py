"""Write the configurations of clients that sign by themselves. None holds a key: each says how one gets there."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping

from signproxy.cli.clients.formats import Format
from signproxy.cli.clients.token import TokenSource
from signproxy.cli.clients.transparent import PROFILE, S3Site, Transparent
from signproxy.cli.key_forms import KeyEndpoint, KeyForm, command, profile
from signproxy.config.loopback import is_loopback
from signproxy.errors import Finding, Invalid

_WIDTH = 110
"""Columns of a comment."""

_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def page(client: Transparent, site: S3Site, form: Format | None, token: TokenSource) -> Iterator[str]:
    """Yield what is printed: as comments what has to be known, and the configuration. Raise Invalid."""
    forms = FORMS[client]
    chosen = next(iter(forms)) if form is None else form
    if chosen not in forms:
        known = ", ".join(each.value for each in forms)
        problem = f"{chosen.value!r} is no form that {client.value} takes: {known}"
        raise Invalid([Finding("command line", "--format", problem)])
    mark = chosen.comment
    for note in _notes(client, site):
        yield from textwrap.wrap(note, _WIDTH, initial_indent=f"{mark} ", subsequent_indent=f"{mark}   ")
    write = forms[chosen]
    if write not in _WITH_KEYS:
        # A command is not wrapped: it is there to be copied.
        yield f"{mark} Before it{', once' if client.renews else ''}:"
        yield f"{mark} {_profile_line(site, token) if client.renews else issuing(site, token)}"
    yield from write(site, token)


def issuing(site: S3Site, token: TokenSource) -> str:
    """Return the line of a shell that issues a key and puts it where clients look for one; nothing if that fails."""
    return f'{_assignment(site, token)} && eval "$keys"'


def _assignment(site: S3Site, token: TokenSource) -> str:
    words = command(site.public_url, token, _asked(site), KeyForm.ENV)
    return f'keys="$({shlex.join(words)})"'


def _profile_line(site: S3Site, token: TokenSource) -> str:
    """Return the line of a shell that adds the profile which issues keys."""
    asked = {**_asked(site), "--s3-url": site.s3_url, "--region": site.region}
    words = command(site.public_url, token, asked, KeyForm.AWS_CONFIG)
    return f"{shlex.join(words)} >> ~/.aws/config"


def _asked(site: S3Site) -> dict[str, str]:
    return {"--catalog": site.catalog}


def _notes(client: Transparent, site: S3Site) -> Iterator[str]:
    yield f"{client.title}: catalog {site.catalog}, through signproxy's S3 listener."
    if client.renews:
        yield "It runs `signproxy keys issue` for each key, and again before one ends."
    else:
        yield f"Its key comes in variables, lives for {site.key_seconds} s at most, and is not renewed."
    yield "The key is good at signproxy alone, for this catalog alone; give the client no other."
    match client:
        case Transparent.TRINO:
            yield f"Every node needs the profile, and AWS_PROFILE={PROFILE} in its environment."
            yield "Later releases call the first line fs.s3.enabled. Vended keys would win: switch them off."
        case Transparent.COMET:
            yield (
                "Driver and executors need the variables. With an Iceberg REST catalog Comet leaves the reading to "
                "Iceberg, which has its requests signed: configure that as `spark`."
            )
        case Transparent.DUCKDB:
            yield "DuckDB reads the variables when httpfs is loaded: a new key needs a new start."
        case _:
            pass
    host = site.authority.rpartition(":")[0].strip("[]") or site.authority
    if is_loopback(host):
        yield f"{host} is each machine's own: every process that reads or writes needs a signproxy beside it."


def _boto3(site: S3Site, _token: TokenSource) -> Iterator[str]:
    yield "import boto3"
    yield "from botocore.config import Config"
    yield ""
    yield f"s3 = boto3.Session(profile_name={PROFILE!r}).client("
    yield "    's3',"
    yield f"    endpoint_url={site.s3_url!r},"
    yield f"    region_name={site.region!r},"
    yield "    config=Config(signature_version='s3v4', s3={'addressing_style': 'path'}),"
    yield ")"


def _profile(site: S3Site, token: TokenSource) -> Iterator[str]:
    words = command(site.public_url, token, _asked(site), KeyForm.PROCESS)
    yield from profile(PROFILE, words, KeyEndpoint(site.s3_url, site.region))


def _duckdb(site: S3Site, token: TokenSource) -> Iterator[str]:
    yield "INSTALL httpfs;"
    yield "LOAD httpfs;"
    yield from _duckdb_settings(site)
    if site.catalog_uri:
        if token.file:
            yield "-- The shell of DuckDB reads variables, and no files:"
            yield f"-- {token.exported(token.variable)}"
        yield from _duckdb_attached(site, f"getenv({_quoted(token.variable)})")


def _duckdb_in_python(site: S3Site, token: TokenSource) -> Iterator[str]:
    if site.catalog_uri:
        yield token.module
        yield ""
    yield "import duckdb"
    yield ""
    yield "connection = duckdb.connect()"
    yield "connection.install_extension('httpfs')"
    # It takes keys from the variables as it is loaded.
    yield "connection.load_extension('httpfs')"
    for line in _duckdb_settings(site):
        yield f"connection.execute({line.removesuffix(';')!r})"
    if site.catalog_uri:
        yield f"""token = {token.for_python}.replace("'", "''")"""
        for line in _duckdb_attached(site, "'{token}'"):
            literal = f"f{line.removesuffix(';')!r}" if "{token}" in line else repr(line.removesuffix(";"))
            yield f"connection.execute({literal})"


def _duckdb_settings(site: S3Site) -> Iterator[str]:
    yield f"SET s3_endpoint = {_quoted(site.authority)};"
    yield f"SET s3_region = {_quoted(site.region)};"
    yield "SET s3_url_style = 'path';"
    yield f"SET s3_use_ssl = {'true' if site.tls else 'false'};"


def _duckdb_attached(site: S3Site, token: str) -> Iterator[str]:
    """Yield the statements that make the catalog's tables known: the extensions that it takes, and the catalog."""
    for extension in ("avro", "iceberg"):
        yield f"INSTALL {extension};"
        yield f"LOAD {extension};"
    yield f"CREATE OR REPLACE SECRET {PROFILE} (TYPE iceberg, TOKEN {token});"
    name = '"' + site.catalog.replace('"', '""') + '"'
    where = f"ENDPOINT {_quoted(site.catalog_uri)}, SECRET {PROFILE}"
    yield f"ATTACH {_quoted(site.catalog)} AS {name} (TYPE iceberg, {where});"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _pyarrow(site: S3Site, token: TokenSource) -> Iterator[str]:
    yield from _loaded(site, token)
    yield "# catalog.load_table('namespace.table').scan().to_arrow()"


def _daft(site: S3Site, token: TokenSource) -> Iterator[str]:
    yield from _loaded(site, token, "import daft")
    yield "# daft.read_iceberg(catalog.load_table('namespace.table'))"


def _loaded(site: S3Site, token: TokenSource, *modules: str) -> Iterator[str]:
    """Yield the code that loads the catalog: where objects are, it is told with each table."""
    yield token.module
    yield ""
    yield from modules
    yield "from pyiceberg.catalog import load_catalog"
    yield ""
    yield f"catalog = load_catalog({site.catalog!r}, type='rest', uri={site.catalog_uri!r}, token={token.for_python})"


def _catalog_properties(site: S3Site, token: TokenSource) -> Iterator[str]:
    yield "type=rest"
    yield f"uri={site.catalog_uri}"
    held = f"the file {token.file}" if token.file else f"the variable {token.variable}"
    yield f"# token=…, which {held} holds"


def _trino(site: S3Site, _token: TokenSource) -> Iterator[str]:
    yield "fs.native-s3.enabled=true"
    yield f"s3.endpoint={site.s3_url}"
    yield f"s3.region={site.region}"
    yield "s3.path-style-access=true"


def _comet(site: S3Site, _token: TokenSource) -> Iterator[str]:
    conf = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": site.s3_url,
        "fs.s3a.endpoint.region": site.region,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "true" if site.tls else "false",
        "fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
        ),
    }
    width = max(map(len, conf))
    for key, value in conf.items():
        yield f"spark.hadoop.{key:<{width}}  {value}"


def _polars(site: S3Site, token: TokenSource) -> Iterator[str]:
    yield "import os"
    yield ""
    yield "import polars as pl"
    yield ""
    yield "storage_options = {"
    for variable in _VARIABLES:
        yield f"    {variable.lower()!r}: os.environ[{variable!r}],"
    yield f"    'aws_endpoint_url': {site.s3_url!r},"
    yield f"    'aws_region': {site.region!r},"
    yield "    'aws_virtual_hosted_style_request': 'false',"
    if not site.tls:
        yield "    'aws_allow_http': 'true',"
    yield "}"
    yield f"# pl.scan_parquet('s3://{site.bucket}/…', storage_options=storage_options, credential_provider=None)"
    if site.catalog_uri:
        yield ""
        yield from _loaded(site, token)
        yield "# table = catalog.load_table('namespace.table')"
        yield "# pl.scan_iceberg(table, storage_options=table.io.properties)"


def _s5cmd(site: S3Site, token: TokenSource) -> Iterator[str]:
    # Two lines: a shell that ends at the first failure does not do so before `&&`.
    yield _assignment(site, token)
    yield 'eval "$keys"'
    yield f"export AWS_REGION={shlex.quote(site.region)}"
    yield f"export S3_ENDPOINT_URL={shlex.quote(site.s3_url)}"


def _rclone(site: S3Site, _token: TokenSource) -> Iterator[str]:
    yield f"[{PROFILE}]"
    yield "type = s3"
    yield "provider = Other"
    yield "env_auth = true"
    yield f"region = {site.region}"
    yield f"endpoint = {site.s3_url}"
    yield "force_path_style = true"


_WITH_KEYS = (_profile, _s5cmd)
"""Those that say themselves where the keys come from."""

FORMS: dict[Transparent, Mapping[Format, Callable[[S3Site, TokenSource], Iterator[str]]]] = {
    Transparent.DUCKDB: {Format.SQL: _duckdb, Format.PYTHON: _duckdb_in_python},
    Transparent.PYARROW: {Format.PYTHON: _pyarrow},
    Transparent.BOTO3: {Format.PYTHON: _boto3, Format.INI: _profile},
    Transparent.AWSCLI: {Format.INI: _profile},
    Transparent.TRINO: {Format.PROPERTIES: _trino},
    Transparent.COMET: {Format.PROPERTIES: _comet},
    Transparent.POLARS: {Format.PYTHON: _polars},
    Transparent.DAFT: {Format.PYTHON: _daft},
    Transparent.ICEBERG_GO: {Format.PROPERTIES: _catalog_properties},
    Transparent.ICEBERG_RUST: {Format.PROPERTIES: _catalog_properties},
    Transparent.S5CMD: {Format.SHELL: _s5cmd},
    Transparent.RCLONE: {Format.INI: _rclone},
}
"""Of each client; the first one is the default."""
