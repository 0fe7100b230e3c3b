"""Find tables whose locations nest in, or equal, those of another table that has not agreed to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations

from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Overlap
from signproxy.policy.table import Place
from signproxy.s3.storage import Storage


def overlaps(catalogs: Sequence[Catalog]) -> Iterator[tuple[TableId, str]]:
    """Yield each table in the place of another, and what is wrong with that."""
    for catalog in catalogs:
        if catalog.overlap is Overlap.FORBIDDEN:
            for place, table, other in catalog.locations.clashes():
                yield table.id, _problem(place, other.id)
    for pair in combinations(catalogs, 2):
        for catalog, other_catalog in permutations(pair):
            yield from _across(catalog, other_catalog)
    for catalog in catalogs:
        yield from _listed(catalog, catalogs)


def settle(catalogs: Sequence[Catalog]) -> None:
    """Make the locations of sound catalogs ready to be asked what lies below a place, where that will be asked."""
    learning = [catalog for catalog in catalogs if catalog.learning is not None]
    for catalog in catalogs:
        if (
            catalog.overlap is Overlap.ALLOWED
            or catalog.learning is not None
            or any(True for _ in beside(catalog, learning))
        ):
            catalog.locations.sort()


def beside(catalog: Catalog, catalogs: Iterable[Catalog]) -> Iterator[Catalog]:
    """Yield the other catalogs whose tables may lie in the same buckets."""
    for other in catalogs:
        if other is not catalog and any(
            is_shared(bucket, catalog, other) for storage in catalog.storages.values() for bucket in storage.buckets
        ):
            yield other


def is_shared(bucket: str, catalog: Catalog, other: Catalog) -> bool:
    """Whether a bucket's name means the same bucket in both catalogs: one storage, or one address."""
    first, second = catalog.storage_of(bucket), other.storage_of(bucket)
    return first is not None and second is not None and meet(first, second)


def meet(first: Storage, second: Storage) -> bool:
    """Whether two storages have an address in common."""
    addresses = {endpoint.authority for endpoint in first.endpoints}
    return any(endpoint.authority in addresses for endpoint in second.endpoints)


def declared_at(catalog: Catalog, place: Place) -> TableId | None:
    """Return a declared table with a location that contains this place, equals it or nests in it.

    The catalog was settled.
    """
    owners = catalog.locations.owners(place.bucket, place.prefix)
    found = owners[0] if owners else catalog.locations.reached(place.bucket, place.prefix, ())
    return None if found is None else found.id


def listed_at(catalog: Catalog, place: Place, own: TableId) -> TableId | None:
    """Return another table for which the policy lists a place that meets this one."""
    if catalog.learning is None:
        return None
    met = catalog.learning.reserved.meeting(place.bucket, place.prefix)
    return next((listing.id for listing in met if listing.id != own), None)


def _across(catalog: Catalog, other: Catalog) -> Iterator[tuple[TableId, str]]:
    """Yield tables of one catalog in a table of another.

    `overlap: allowed` does not lift this: a request is judged by the grants of one catalog alone.
    """
    for bucket in catalog.locations.buckets():
        if is_shared(bucket, catalog, other):
            for prefix, table in catalog.locations.locations(bucket):
                for owner in other.locations.owners(bucket, prefix):
                    yield table.id, _problem(f"s3://{bucket}/{prefix[:-1]}", owner.id)


def _listed(catalog: Catalog, catalogs: Sequence[Catalog]) -> Iterator[tuple[TableId, str]]:
    """Yield tables for which a place is listed that meets another table's, listed or declared."""
    if catalog.learning is None:
        return
    for listing in catalog.learning.listings.values():
        for place in listing.places:
            for other in catalogs:
                same = other is catalog
                if same and catalog.overlap is Overlap.ALLOWED:
                    continue
                if not same and not is_shared(place.bucket, catalog, other):
                    continue
                found = declared_at(other, place) or listed_at(other, place, listing.id)
                if found is not None:
                    yield listing.id, _problem(str(place), found)


def _problem(place: str, other: TableId) -> str:
    return f"{place!r} nests in, or equals, a location of table {str(other)!r}"
