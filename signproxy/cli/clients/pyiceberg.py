"""Write what PyIceberg is configured with: a call, a file, variables."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from signproxy.cli.clients.token import TokenSource

MAX_WORKERS = "PYICEBERG_MAX_WORKERS"
ONE = "1"
"""PyIceberg loses its signer between threads: apache/iceberg-python#3896."""

_TOKEN = "token"  # noqa: S105 - the property's name

# PyIceberg reads variables in lower case, with dashes for underscores.
_IN_VARIABLES = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def call(name: str, properties: Mapping[str, str], token: TokenSource) -> Iterator[str]:
    """Yield the code that loads the catalog."""
    yield from sorted({"import os", token.module}, reverse=True)
    yield ""
    yield "from pyiceberg.catalog import load_catalog"
    yield ""
    yield f"os.environ[{MAX_WORKERS!r}] = {ONE!r}"
    yield "catalog = load_catalog("
    yield f"    {name!r},"
    yield "    **{"
    for key, value in properties.items():
        yield f"        {key!r}: {value!r},"
    yield f"        {_TOKEN!r}: {token.for_python},"
    yield "    },"
    yield ")"


def file(name: str, properties: Mapping[str, str], token: TokenSource) -> Iterator[str]:
    """Yield the lines of a `.pyiceberg.yaml`. It cannot refer to a token, so that is said beside it."""
    if can_be_in_variables(name):
        yield f"# {token.exported(_variable(name, _TOKEN))}"
    else:
        yield f"# load_catalog({name!r}, token={token.for_python})"
    yield "catalog:"
    yield f"  {json.dumps(name)}:"
    for key, value in properties.items():
        yield f"    {key}: {json.dumps(value)}"
    yield f"max-workers: {ONE}"


def variables(name: str, properties: Mapping[str, str], token: TokenSource) -> Iterator[str]:
    """Yield the lines of a shell that set the variables."""
    for key, value in properties.items():
        yield f"export {_variable(name, key)}={shlex.quote(value)}"
    yield token.exported(_variable(name, _TOKEN))
    yield f"export {MAX_WORKERS}={ONE}"


def can_be_in_variables(name: str) -> bool:
    """Whether a catalog of this name can be configured by variables at all."""
    return _IN_VARIABLES.fullmatch(name) is not None


def _variable(name: str, key: str) -> str:
    return "__".join(("PYICEBERG_CATALOG", _spelled(name), _spelled(key)))


def _spelled(text: str) -> str:
    return text.replace(".", "__").replace("-", "_").upper()
