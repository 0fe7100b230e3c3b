"""Write a policy of any size: one catalog, a hundred tables to a namespace, a grant of its own for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from bench.caller import SUBJECT

STORAGE = "lake-eu"
BUCKET = "lake"
REGION = "eu-central-1"
CATALOG = "lake"

_TABLES_PER_NAMESPACE = 100
_OWN_NAMESPACES = 10
"""The caller reads the first ten namespaces and the last: what one team of a large lake may see."""

_MAIN = "policy.yaml"


def namespace_of(number: int) -> str:
    """Return the namespace of a table."""
    return f"team{number // _TABLES_PER_NAMESPACE:05d}"


def table_name(number: int) -> str:
    """Return the name of a table."""
    return f"orders{number:07d}"


def location_of(number: int) -> str:
    """Return the location of a table below its bucket."""
    return f"warehouse/{namespace_of(number)}/{table_name(number)}"


def write(directory: Path, tables: int) -> None:
    """Put a policy with so many tables, and as many grants, in the place of the directory's present one."""
    inventory = directory / f"tables-{tables}.ndjson"
    with inventory.open("w") as stream:
        stream.writelines(_lines(tables))
    namespaces = sorted({namespace_of(number) for number in range(0, tables, _TABLES_PER_NAMESPACE)})
    own = dict.fromkeys([*namespaces[:_OWN_NAMESPACES], namespaces[-1]])
    document = {
        "remote_signing": True,
        "default_catalog": CATALOG,
        "storages": {STORAGE: {"kind": "aws", "region": REGION, "buckets": [BUCKET], "stamp": "query"}},
        "catalogs": {CATALOG: {"storages": [STORAGE], "roots": [f"s3://{BUCKET}/warehouse"], "remote_signing": True}},
        "catalog_roles": {CATALOG: [_role(namespace) for namespace in namespaces]},
        "principal_roles": {"engineers": {CATALOG: [_role(namespace) for namespace in own]}},
        "principals": {f"bench/{SUBJECT}": {"roles": ["engineers"]}},
        "inventories": [inventory.name],
    }
    # The main file is swapped in one step, so that no reader ever sees it half written.
    draft = directory / f".{_MAIN}"
    draft.write_text(yaml.safe_dump(document, sort_keys=False))
    draft.replace(directory / _MAIN)
    for old in directory.glob("tables-*.ndjson"):
        if old != inventory:
            old.unlink()


def _role(namespace: str) -> str:
    return f"{namespace}-reader"


def _lines(tables: int) -> Iterator[str]:
    for number in range(tables):
        namespace, name = namespace_of(number), table_name(number)
        yield (
            f'{{"kind":"table","namespace":"{namespace}","name":"{name}",'
            f'"location":"s3://{BUCKET}/{location_of(number)}"}}\n'
        )
        yield (
            f'{{"kind":"grant","role":"{_role(namespace)}","namespace":"{namespace}","table":"{name}",'
            '"privileges":["TABLE_READ_DATA","TABLE_WRITE_DATA","TABLE_REMOTE_SIGN"]}\n'
        )
