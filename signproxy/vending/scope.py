"""Say of a table how far the keys for it may reach, and whose places it would touch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from math import isfinite
from typing import Protocol

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.inventory.declared.overlap import is_shared
from signproxy.model import Principal, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.location import Location
from signproxy.policy.places import folded
from signproxy.policy.table import MetadataLevel, Place, Table
from signproxy.vending.folded_places import folded_places
from signproxy.vending.vended import OtherPlaces, VendAccess, VendScope


class KnownTable(Protocol):
    """A table that an upstream told of."""

    @property
    def table(self) -> Table: ...


class KnownPlaces(Protocol):
    """The places of the tables that an upstream told of."""

    def owners(self, catalog: Catalog, bucket: str, key: str, now: float) -> tuple[KnownTable, ...]:
        """Return the tables that a key lies in."""

    def reached(self, catalog: Catalog, bucket: str, prefix: str, now: float) -> tuple[KnownTable, ...]:
        """Return the tables with a place that begins with a prefix and is longer."""

    def alike(self, catalog: str, bucket: str, prefix: str, fold: Callable[[str], str]) -> Iterator[TableId]:
        """Yield the tables with a place inside of this one, around it or equal to it once names are folded."""


class CatalogPlaces:
    """The places of a catalog that are not one table's own, by look-ups of ancestors and neighbours alone."""

    def __init__(
        self,
        catalog: Catalog,
        table: Table,
        known: KnownPlaces | None = None,
        now: float = 0.0,
        catalogs: Iterable[Catalog] = (),
    ) -> None:
        """`known` are those of catalogs with an upstream, at a time of the clock that they go by.

        `catalogs` are all that there are: others may have tables in the same bucket.
        """
        self._catalog = catalog
        self._table = table
        self._known = known
        self._now = now
        self._catalogs = catalogs

    def resembles(self, location: Location) -> Generator[None, None, str]:
        """Return the name of one with such a place to a store that takes `t1` and `T1` for the same, or nothing.

        No policy keeps the places of two catalogs apart by anything but their letters.
        """
        own, wanted, bucket = self._table.id, folded(location.prefix), location.bucket
        here = self._catalog
        beside = [each for each in self._catalogs if each is not here and is_shared(bucket, here, each)]
        for catalog in (here, *beside):
            table = (yield from folded_places(catalog)).met(bucket, wanted, own)
            if table is not None:
                return f"table {table}"
            if self._known is not None and catalog.learning is not None:
                for other in self._known.alike(catalog.name, bucket, location.prefix, folded):
                    if other != own:
                        return f"table {other}"
            for volume in catalog.volumes.in_bucket(bucket):
                place = folded(volume.prefix)
                if place.startswith(wanted) or wanted.startswith(place):
                    return f"volume {volume.id}"
                yield
        return ""

    def meets(self, location: Location) -> str:
        """Return the name of another table or volume with a place inside a location or around it, or nothing."""
        catalog, bucket, prefix = self._catalog, location.bucket, location.prefix
        around = catalog.locations.owners(bucket, prefix)
        tables = [table.id for table in around]
        # Where no locations may overlap the policy was refused if one did, and there is nothing to look for.
        below = catalog.locations.reached(bucket, prefix, around)
        tables += [] if below is None else [below.id]
        if catalog.learning is not None:
            if self._known is not None:
                tables += [each.table.id for each in self._known.owners(catalog, bucket, prefix, self._now)]
                tables += [each.table.id for each in self._known.reached(catalog, bucket, prefix, self._now)]
            reserved = catalog.learning.reserved
            tables += [each.id for each in (*reserved.over(bucket, prefix), *reserved.below(bucket, prefix))]
        for table in tables:
            if table != self._table.id:
                return f"table {table}"
        for volume in catalog.volumes.in_bucket(bucket):
            if prefix.startswith(volume.prefix) or volume.prefix.startswith(prefix):
                return f"volume {volume.id}"
        return ""


class VendCaller(msgspec.Struct, frozen=True):
    """Who asks for keys, and what was decided besides the access."""

    principal: Principal
    policy_epoch: int
    event_id: str
    full_metadata: bool = False
    """TABLE_FULL_METADATA is granted on the table."""
    never_beyond_token: bool = False
    """The keys end with the caller's token. Those of a token or key with a scope always do."""

    @property
    def latest(self) -> float | None:
        """Unix time beyond which the keys may not live; None where there is none."""
        ends = self.principal.expires_at
        bound = self.never_beyond_token or bool(self.principal.scopes)
        return ends if bound and isfinite(ends) else None


def scope_of(table: Table, access: VendAccess, caller: VendCaller, others: OtherPlaces) -> VendScope:
    """Return the scope of a table for a caller who was allowed this access. Raise Refused with SCOPE_NOT_VENDABLE."""
    storage = table.settings.storage
    level = table.metadata
    if level is MetadataLevel.PROTECTED and caller.full_metadata:
        level = MetadataLevel.OPEN
    return VendScope(
        storage=storage,
        locations=tuple(_location(table.id, storage, place) for place in table.places),
        access=access,
        metadata=level,
        metadata_locations=tuple(_location(table.id, storage, place) for place in table.metadata_places),
        others=others,
        principal=caller.principal.name,
        policy_epoch=caller.policy_epoch,
        event_id=caller.event_id,
        overwrite=table.overwrite,
        latest=caller.latest,
    )


def _location(table: TableId, storage: str, place: Place) -> Location:
    if place.storage != storage:
        detail = f"{table} lies on storages {storage!r} and {place.storage!r}; one session reaches one of them"
        raise Refused(Reason.SCOPE_NOT_VENDABLE, detail)
    return Location(place.bucket, place.prefix.removesuffix("/"))
