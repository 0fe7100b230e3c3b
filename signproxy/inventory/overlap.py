"""Find tables whose locations nest in, or equal, those of another table that has not agreed to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Overlap


def overlaps(catalogs: Sequence[Catalog]) -> Iterator[tuple[TableId, str]]:
    """Yield each table in the place of another, and what is wrong with that."""
    for catalog in catalogs:
        if catalog.overlap is Overlap.FORBIDDEN:
            for place, table, other in catalog.locations.clashes():
                yield table.id, _problem(place, other.id)
    for pair in combinations(catalogs, 2):
        for catalog, other_catalog in permutations(pair):
            yield from _across(catalog, other_catalog)


def _across(catalog: Catalog, other: Catalog) -> Iterator[tuple[TableId, str]]:
    """Yield tables of one catalog in a table of another.

    `overlap: allowed` does not lift this: a request is judged by the grants of one catalog alone.
    """
    for bucket in catalog.locations.buckets():
        if _is_shared(bucket, catalog, other):
            for prefix, table in catalog.locations.locations(bucket):
                for owner in other.locations.owners(bucket, prefix):
                    yield table.id, _problem(f"s3://{bucket}/{prefix[:-1]}", owner.id)


def _is_shared(bucket: str, catalog: Catalog, other: Catalog) -> bool:
    """Whether a bucket's name means the same bucket in both catalogs: one storage, or one address."""
    first, second = catalog.storage_of(bucket), other.storage_of(bucket)
    if first is None or second is None:
        return False
    addresses = {endpoint.authority for endpoint in first.endpoints}
    return any(endpoint.authority in addresses for endpoint in second.endpoints)


def _problem(place: str, other: TableId) -> str:
    return f"{place!r} nests in, or equals, a location of table {str(other)!r}"
