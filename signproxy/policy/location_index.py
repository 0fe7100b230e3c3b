"""Find the tables that own a key, by dictionary look-ups of the key's ancestors alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from signproxy.policy.table import Table

_Owners = Table | tuple[Table, ...]


class LocationIndex:
    """The locations of one catalog's tables, by bucket. Built once, then only read."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        # Bucket -> its prefixes in order; only where locations may nest.
        self._sorted: dict[str, list[str]] = {}

    def add(self, bucket: str, prefix: str, table: Table) -> None:
        """Enter a location of a table; `prefix` ends with a slash."""
        place = self._buckets.get(bucket)
        if place is None:
            place = self._buckets[bucket] = _Bucket()
        place.add(prefix, table)

    def owners(self, bucket: str, key: str) -> tuple[Table, ...]:
        """Return every table with a location that the key lies below, or that the list prefix reaches past."""
        place = self._buckets.get(bucket)
        return () if place is None else place.owners(key)

    def buckets(self) -> Iterator[str]:
        """Yield the buckets in which tables lie."""
        yield from self._buckets

    def locations(self, bucket: str) -> Iterator[tuple[str, Table]]:
        """Yield prefix and table of every location in a bucket."""
        place = self._buckets.get(bucket)
        if place is not None:
            yield from place.locations()

    def clashes(self) -> Iterator[tuple[str, Table, Table]]:
        """Yield each location that nests in, or equals, a location of another table: the place and both tables."""
        for bucket, place in self._buckets.items():
            for prefix, table, other in place.clashes():
                yield f"s3://{bucket}/{prefix[:-1]}", table, other

    def sort(self) -> None:
        """Make `reached` possible, for a catalog whose locations may nest."""
        self._sorted = {bucket: sorted(place.prefixes) for bucket, place in self._buckets.items()}

    def reached(self, bucket: str, prefix: str, owners: tuple[Table, ...]) -> Table | None:
        """Return a table other than the owners with a location that begins with `prefix`, if there is one.

        A list with this prefix, or a store that deletes whole folders, would reach into that table.
        """
        ordered = self._sorted.get(bucket, [])
        for index in range(bisect_left(ordered, prefix), len(ordered)):
            if not ordered[index].startswith(prefix):
                break
            for table in _as_tuple(self._buckets[bucket].prefixes[ordered[index]]):
                if not _holds(owners, table):
                    return table
        return None


class _Bucket:
    """The locations in one bucket, and between which depths they lie."""

    __slots__ = ("_deepest", "_shallowest", "prefixes")

    def __init__(self) -> None:
        self.prefixes: dict[str, _Owners] = {}
        self._shallowest = 1 << 30
        self._deepest = 0

    def add(self, prefix: str, table: Table) -> None:
        owners = self.prefixes.setdefault(prefix, table)
        if owners is table:
            depth = prefix.count("/")
            self._shallowest = min(self._shallowest, depth)
            self._deepest = max(self._deepest, depth)
        elif not _holds(_as_tuple(owners), table):
            self.prefixes[prefix] = (*_as_tuple(owners), table)

    def owners(self, key: str) -> tuple[Table, ...]:
        found: tuple[Table, ...] = ()
        end = -1
        for depth in range(1, self._deepest + 1):
            end = key.find("/", end + 1)
            if end < 0:
                break
            # No location is as shallow: the look-up could only miss, and a miss costs as much as a hit.
            if depth < self._shallowest:
                continue
            owners = self.prefixes.get(key[: end + 1])
            if owners is None:
                continue
            if not found:
                found = _as_tuple(owners)
            else:
                found += tuple(table for table in _as_tuple(owners) if not _holds(found, table))
        return found

    def locations(self) -> Iterator[tuple[str, Table]]:
        for prefix, owners in self.prefixes.items():
            for table in _as_tuple(owners):
                yield prefix, table

    def clashes(self) -> Iterator[tuple[str, Table, Table]]:
        # Where all lie at one depth none can nest: the walk over a million ancestors is saved.
        flat = self._shallowest == self._deepest
        for prefix, owners in self.prefixes.items():
            if isinstance(owners, tuple):
                yield prefix, owners[1], owners[0]
            elif not flat:
                for other in self.owners(prefix[:-1]):
                    if other is not owners:
                        yield prefix, owners, other


def _as_tuple(owners: _Owners) -> tuple[Table, ...]:
    return owners if isinstance(owners, tuple) else (owners,)


def _holds(tables: tuple[Table, ...], table: Table) -> bool:
    """Whether this very table is among them; comparing values would read them whole."""
    return any(known is table for known in tables)
