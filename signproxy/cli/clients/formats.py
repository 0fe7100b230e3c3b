"""Write a client's configuration in the form that is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from signproxy.cli.clients.client import Client, packages
from signproxy.cli.clients.connection import Connection
from signproxy.cli.clients.properties import configuration, spark_conf
from signproxy.cli.clients.templates import TEMPLATES, Values, filled
from signproxy.cli.clients.token import TokenSource
from signproxy.errors import Finding, Invalid

# PyIceberg reads variables in lower case, with dashes for underscores.
_IN_VARIABLES = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


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


FORMATS = {client: tuple(map(Format, TEMPLATES.signed.forms[client.value])) for client in Client}
"""Of each client; the first one is the default."""


def written(connection: Connection, form: Format, token: TokenSource, spark_version: str = "") -> Iterator[str]:
    """Return the lines of a configuration. Raise Invalid for a form that the client does not take."""
    client, name = connection.client, connection.called
    must_take(form, client.value, FORMATS[client])
    in_variables = _IN_VARIABLES.fullmatch(name) is not None
    if client is Client.PYICEBERG and form is Format.SHELL and not in_variables:
        raise _wrong(f"PyIceberg's variables cannot name a catalog {name!r}; use another form, or --as")
    if client.java:
        connection = msgspec.structs.replace(connection, token=token.for_iceberg)
    jars: tuple[str, ...] = ()
    properties = configuration(connection)
    if client is Client.SPARK:
        properties, jars = spark_conf(connection), packages(connection.minor, spark_version)
    conf = {**({"spark.jars.packages": ",".join(jars)} if jars else {}), **properties}
    values: Values = {
        "name": name,
        "json": json.dumps(properties, indent=2).splitlines(),
        "packages": ",".join(jars),
        "module": token.module,
        "token": token.for_python,
        "file": token.file,
        "exported": token.exported(token.variable if client.java else _variable(name, "token")),
        "variables": "yes" if in_variables else "",
        "width": str(max(map(len, conf))),
    }
    options = ({"option": f"{key}={value}"} for key, value in properties.items())
    return filled(_template(client, form), values, conf=_entries(conf, name, token), options=options)


def flink_statement(name: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of CREATE CATALOG."""
    return filled(_template(Client.FLINK, Format.SQL), {"name": name}, conf=_entries(properties, name, TokenSource()))


def must_take(form: Format, client: str, known: tuple[Format, ...]) -> None:
    """Raise Invalid for a form that a client does not take."""
    if form not in known:
        raise _wrong(f"{form.value!r} is no form that {client} takes: {', '.join(each.value for each in known)}")


def _template(client: Client, form: Format) -> str:
    return TEMPLATES.signed.forms[client.value][form.value]


def _entries(conf: Mapping[str, str], name: str, token: TokenSource) -> Iterator[dict[str, str]]:
    for left, (key, value) in zip(reversed(range(len(conf))), conf.items(), strict=True):
        held = token.for_python if token.file and value == token.for_iceberg else repr(value)
        yield {"key": key, "value": value, "held": held, "variable": _variable(name, key), "comma": "," * bool(left)}


def _variable(name: str, key: str) -> str:
    return "__".join(("PYICEBERG_CATALOG", _spelled(name), _spelled(key)))


def _spelled(text: str) -> str:
    return text.replace(".", "__").replace("-", "_").upper()


def _wrong(problem: str) -> Invalid:
    return Invalid([Finding("command line", "--format", problem)])
