"""Turn the volumes that a policy declares into values, and find those that lie where something else does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from signproxy.inventory.declared.document import VolumeEntry
from signproxy.inventory.declared.findings import EntryInvalid, near
from signproxy.inventory.declared.overlap import is_shared, meet
from signproxy.model import VolumeId
from signproxy.policy.catalog import Catalog
from signproxy.policy.location import LocationInvalid, parse_location
from signproxy.policy.table import Overwrite
from signproxy.policy.volume import Volume
from signproxy.s3.rules import OperationsAllowed, Rules

_PATTERN = re.compile(r"[a-z0-9][a-z0-9.\-]{0,61}\*")


_Placed = Sequence[tuple[Catalog, Volume]]
"""Volumes, each with its catalog."""


def volume_of(catalog: Catalog, entry: VolumeEntry, overwrite: Overwrite) -> Volume:
    """Return the volume that an entry declares; `overwrite` is its catalog's. Raise EntryInvalid."""
    if not entry.name or not entry.name.isprintable():
        raise EntryInvalid("name", f"{entry.name!r} is no name of a volume")
    if catalog.volumes.named(entry.name) is not None:
        raise EntryInvalid("", f"volume {entry.name!r} is declared twice in catalog {catalog.name!r}")
    storage = catalog.storages.get(entry.storage)
    if storage is None:
        hint = near(entry.storage, catalog.storages)
        raise EntryInvalid("storage", f"catalog {catalog.name!r} has no storage {entry.storage!r}{hint}")
    if entry.bucket.endswith("*"):
        if not _PATTERN.fullmatch(entry.bucket):
            raise EntryInvalid("bucket", f"{entry.bucket!r} is not the beginning of a bucket's name and a star")
    elif entry.bucket not in storage.buckets:
        hint = near(entry.bucket, storage.buckets)
        raise EntryInvalid("bucket", f"storage {storage.name!r} has no bucket {entry.bucket!r}{hint}")
    if entry.operations is OperationsAllowed.TABLE:
        raise EntryInvalid("operations", "object or all expected; table is what tables have")
    return Volume(
        id=VolumeId(catalog.name, entry.name),
        storage=storage.name,
        bucket=entry.bucket,
        prefix=_prefix(entry.prefix),
        rules=Rules(entry.operations, entry.keys),
        overwrite=overwrite if entry.overwrite is None else entry.overwrite,
    )


def misplaced(catalogs: Sequence[Catalog]) -> Iterator[tuple[VolumeId, str]]:
    """Yield each volume that lies where something else does, and what is wrong with that."""
    volumes = [(catalog, volume) for catalog in catalogs for volume in catalog.volumes]
    if not volumes:
        return
    yield from _volumes_met([placed for placed in volumes if not placed[1].is_pattern])
    yield from _patterns_met([placed for placed in volumes if placed[1].is_pattern], catalogs)
    for catalog in catalogs:
        yield from _tables_met(catalog, volumes)
        yield from _learned_met(catalog, volumes)


def _volumes_met(volumes: _Placed) -> Iterator[tuple[VolumeId, str]]:
    """Yield volumes that lie in another one, or where it lies."""
    held: dict[tuple[str, str], list[tuple[Catalog, Volume]]] = {}
    for catalog, volume in volumes:
        held.setdefault((volume.bucket, volume.prefix), []).append((catalog, volume))
    for catalog, volume in volumes:
        end = -1
        while True:
            for other_catalog, other in held.get((volume.bucket, volume.prefix[: end + 1]), ()):
                if other is not volume and is_shared(volume.bucket, catalog, other_catalog):
                    yield volume.id, _met(volume, other)
            end = volume.prefix.find("/", end + 1)
            if end < 0:
                break


def _patterns_met(patterns: _Placed, catalogs: Sequence[Catalog]) -> Iterator[tuple[VolumeId, str]]:
    """Yield volumes for buckets that are listed, or that another one is for as well.

    A bucket that is listed has its own meaning, in every catalog.
    """
    listed = dict.fromkeys(
        bucket for catalog in catalogs for storage in catalog.storages.values() for bucket in storage.buckets
    )
    for number, (catalog, volume) in enumerate(patterns):
        for name in listed:
            if volume.holds_bucket(name):
                yield volume.id, f"bucket {volume.bucket!r} matches {name!r}, which a storage lists"
        for other_catalog, other in patterns[:number]:
            stores = catalog.storages[volume.storage], other_catalog.storages[other.storage]
            if _nest(volume.bucket[:-1], other.bucket[:-1]) and _nest(volume.prefix, other.prefix) and meet(*stores):
                yield volume.id, _met(volume, other)


def _met(volume: Volume, other: Volume) -> str:
    return f"{str(volume)!r} meets {str(other)!r}, volume {str(other.id)!r}"


def _nest(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _tables_met(catalog: Catalog, volumes: _Placed) -> Iterator[tuple[VolumeId, str]]:
    """Yield volumes that meet a declared table of a catalog."""
    by_bucket: dict[str, list[Volume]] = {}
    for owner, volume in volumes:
        if not volume.is_pattern and is_shared(volume.bucket, catalog, owner):
            by_bucket.setdefault(volume.bucket, []).append(volume)
    for bucket, placed in by_bucket.items():
        prefixes = tuple([volume.prefix for volume in placed])
        for volume in placed:
            for table in catalog.locations.owners(bucket, volume.prefix):
                yield volume.id, f"{str(volume)!r} lies in table {str(table.id)!r}"
        for prefix, table in catalog.locations.locations(bucket):
            # One scan that runs in C for a table in no volume, of which there may be a million.
            if prefix.startswith(prefixes):
                for volume in placed:
                    if prefix.startswith(volume.prefix) and prefix != volume.prefix:
                        yield volume.id, f"table {str(table.id)!r} lies in {str(volume)!r}"


def _learned_met(catalog: Catalog, volumes: _Placed) -> Iterator[tuple[VolumeId, str]]:
    """Yield volumes in which an upstream may tell of a table: then it could not be said whose a key is."""
    if catalog.learning is None:
        return
    for owner, volume in volumes:
        if volume.is_pattern:
            continue
        for root in catalog.learning.roots:
            same = root.bucket == volume.bucket and is_shared(volume.bucket, catalog, owner)
            if same and _nest(root.prefix, volume.prefix):
                problem = f"{str(volume)!r} meets root {str(root)!r} of catalog {catalog.name!r}"
                yield volume.id, f"{problem}, whose tables an upstream tells of; give the catalog `roots` beside it"
                break


def _prefix(text: str) -> str:
    """Return what the keys of a volume begin with. Raise EntryInvalid."""
    if not text:
        return ""
    try:
        # As the location of a table in some bucket: what is no place for a table is none for a volume.
        return parse_location(f"s3://bucket/{text}").prefix
    except LocationInvalid as invalid:
        raise EntryInvalid("prefix", str(invalid)) from None
