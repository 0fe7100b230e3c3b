"""Name what the clients of a catalog work on: each run of a client has a namespace of its own, with the same tables."""

from __future__ import annotations

CATALOG = "lake"

TABLES = ("first", "second", "staged", "moved", "abandoned")
READABLE = "first"
"""The table that the analyst may read."""

PYICEBERG = {scheme: f"py_{scheme}" for scheme in ("http", "https")}
JAVA = {version: f"java_{version.replace('.', '_')}" for version in ("1.12.0", "1.11.0")}
NAMESPACES = (*PYICEBERG.values(), *JAVA.values())

APPLICATION = "nightly"
"""What each run says it is, which is not verified; its query is called as its namespace."""
