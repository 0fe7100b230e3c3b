"""Write what Spark is configured with: a properties file, a command, a session's builder."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from signproxy.cli.clients.token import TokenSource

PACKAGES = "spark.jars.packages"


def properties_file(conf: Mapping[str, str], jars: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a `spark-defaults.conf`."""
    everything = _with_packages(conf, jars)
    width = max(map(len, everything))
    for key, value in everything.items():
        # Java reads the file, and takes a backslash for the beginning of an escape.
        yield f"{key:<{width}}  {value.replace(chr(92), chr(92) * 2)}"


def command(conf: Mapping[str, str], jars: tuple[str, ...], token: TokenSource) -> Iterator[str]:
    """Yield a script that hands its arguments to `spark-submit`; the token is in none of them."""
    if exported := token.exported(token.variable):
        yield exported
    yield "spark-submit \\"
    if jars:
        yield f"  --packages {','.join(jars)} \\"
    for key, value in conf.items():
        yield f"  --conf {shlex.quote(f'{key}={value}')} \\"
    yield '  "$@"'


def builder(conf: Mapping[str, str], jars: tuple[str, ...], token: TokenSource) -> Iterator[str]:
    """Yield the code that makes a session."""
    if token.file:
        yield token.module
        yield ""
    yield "from pyspark.sql import SparkSession"
    yield ""
    yield "spark = ("
    yield "    SparkSession.builder"
    for key, value in _with_packages(conf, jars).items():
        held = token.for_python if token.file and value == token.for_iceberg else repr(value)
        yield f"    .config({key!r}, {held})"
    yield "    .getOrCreate()"
    yield ")"


def _with_packages(conf: Mapping[str, str], jars: tuple[str, ...]) -> dict[str, str]:
    return {**({PACKAGES: ",".join(jars)} if jars else {}), **conf}
