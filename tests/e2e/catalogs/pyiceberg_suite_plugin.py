"""Have PyIceberg's own integration tests use another REST catalog than the one that they would start in a container.

A plugin of pytest that is loaded before the tests' own fixtures: it is configuration, and changes no test. The
properties of the catalog are in a variable, as JSON.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
# PyIceberg is not installed where the tests are checked.

from __future__ import annotations

import json
import os
from typing import Any

import pyiceberg.catalog

_PROPERTIES = json.loads(os.environ["REST_CATALOG_PROPERTIES"])
_THEIRS = "http://localhost:8181"
"""Where the tests expect the catalog of their container."""

_load = pyiceberg.catalog.load_catalog


def _load_catalog(name: str | None = None, **properties: str | None) -> Any:
    if name == os.environ["PYICEBERG_TEST_CATALOG"] or properties.get("uri") == _THEIRS:
        return _load("lake", **_PROPERTIES)
    return _load(name, **properties)


pyiceberg.catalog.load_catalog = _load_catalog
