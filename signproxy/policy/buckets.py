"""Find the catalogs in which a bucket has a meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from signproxy.policy.catalog import Catalog
from signproxy.s3.storage import Storage


class Reached(msgspec.Struct, frozen=True, gc=False):
    """A catalog in which a bucket has a meaning, and the storage that holds it there."""

    catalog: Catalog
    storage: Storage


class Buckets:
    """Every bucket of every catalog. Built once for a policy, then only read."""

    __slots__ = ("_catalogs", "_listed")

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self._catalogs = tuple(catalogs)
        self._listed: dict[str, tuple[Reached, ...]] = {}
        for catalog in self._catalogs:
            for storage in catalog.storages.values():
                for bucket in storage.buckets:
                    self._listed[bucket] = (*self._listed.get(bucket, ()), Reached(catalog, storage))

    def of(self, bucket: str) -> tuple[Reached, ...]:
        """Return where a bucket is listed; where it is nowhere, the catalogs with a volume for buckets of its name."""
        listed = self._listed.get(bucket)
        if listed is not None:
            return listed
        reached = []
        for catalog in self._catalogs:
            volume = next(catalog.volumes.in_bucket(bucket), None)
            if volume is not None:
                reached.append(Reached(catalog, catalog.storages[volume.storage]))
        return tuple(reached)

    def __len__(self) -> int:
        """Return how many buckets are listed."""
        return len(self._listed)

    def listed(self) -> Iterator[tuple[str, tuple[Reached, ...]]]:
        """Yield each bucket that a storage lists, and where."""
        yield from self._listed.items()
