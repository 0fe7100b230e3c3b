"""Write a client's configuration in the form that is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum

import msgspec

from signproxy.cli.clients import flink, pyiceberg, spark
from signproxy.cli.clients.client import Client, packages
from signproxy.cli.clients.connection import Connection
from signproxy.cli.clients.properties import configuration, spark_conf
from signproxy.cli.clients.token import TokenSource
from signproxy.errors import Finding, Invalid


class Format(Enum):
    """The forms of a configuration."""

    PROPERTIES = "properties"
    SHELL = "shell"
    PYTHON = "python"
    YAML = "yaml"
    SQL = "sql"
    JSON = "json"
    INI = "ini"

    @property
    def comment(self) -> str:
        """What begins a comment; empty where there are none."""
        return {Format.SQL: "--", Format.JSON: ""}.get(self, "#")


FORMATS = {
    Client.SPARK: (Format.PROPERTIES, Format.SHELL, Format.PYTHON, Format.JSON),
    Client.FLINK: (Format.SQL, Format.JSON),
    Client.PYICEBERG: (Format.PYTHON, Format.YAML, Format.SHELL, Format.JSON),
}
"""Of each client; the first one is the default."""


def written(connection: Connection, form: Format, token: TokenSource, spark_version: str = "") -> Iterator[str]:
    """Return the lines of a configuration. Raise Invalid for a form that the client does not take."""
    client = connection.client
    if form not in FORMATS[client]:
        known = ", ".join(each.value for each in FORMATS[client])
        raise _wrong(f"{form.value!r} is no form that {client.value} takes: {known}")
    match client:
        case Client.SPARK:
            return _for_spark(_referring(connection, token), form, token, spark_version)
        case Client.FLINK:
            properties = configuration(_referring(connection, token))
            return _as_json(properties) if form is Format.JSON else flink.statement(connection.called, properties)
        case Client.PYICEBERG:
            return _for_pyiceberg(connection, form, token)


def _for_spark(connection: Connection, form: Format, token: TokenSource, spark_version: str) -> Iterator[str]:
    conf, jars = spark_conf(connection), packages(connection.minor, spark_version)
    match form:
        case Format.SHELL:
            return spark.command(conf, jars, token)
        case Format.PYTHON:
            return spark.builder(conf, jars, token)
        case Format.JSON:
            return _as_json(conf)
        case _:
            return spark.properties_file(conf, jars)


def _for_pyiceberg(connection: Connection, form: Format, token: TokenSource) -> Iterator[str]:
    name, properties = connection.called, configuration(connection)
    match form:
        case Format.SHELL:
            if not pyiceberg.can_be_in_variables(name):
                raise _wrong(f"PyIceberg's variables cannot name a catalog {name!r}; use another form, or --as")
            return pyiceberg.variables(name, properties, token)
        case Format.YAML:
            return pyiceberg.file(name, properties, token)
        case Format.JSON:
            return _as_json(properties)
        case _:
            return pyiceberg.call(name, properties, token)


def _referring(connection: Connection, token: TokenSource) -> Connection:
    return msgspec.structs.replace(connection, token=token.for_iceberg)


def _as_json(properties: dict[str, str]) -> Iterator[str]:
    return iter(json.dumps(properties, indent=2).splitlines())


def _wrong(problem: str) -> Invalid:
    return Invalid([Finding("command line", "--format", problem)])
