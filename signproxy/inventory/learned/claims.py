"""Read the places that an upstream lets a table claim, as far as a catalog of the policy may believe them.

A place that a caller gave a table, and that nothing vouches for, stays the caller's word: it is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.declared.catalog_draft import METADATA_PATH
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Learning, Listing
from signproxy.policy.location import Location, LocationInvalid, known_location
from signproxy.policy.reach import grants_at, namespace_at
from signproxy.policy.table import MetadataLevel, Namespace, Place, Table, TableSettings, table_key


class Unbelieved(msgspec.Struct, frozen=True, gc=False):
    """A location that the upstream names and that is not the table's."""

    reason: Reason
    detail: str


def place_of(catalog: Catalog, text: str) -> tuple[Location, Place] | Unbelieved:
    """Return the place that a location of the upstream names: in a bucket of the catalog and below one of its roots."""
    try:
        location = known_location(text)
    except LocationInvalid as invalid:
        return Unbelieved(Reason.LOCATION_OUTSIDE_ROOTS, str(invalid))
    storage = catalog.storage_of(location.bucket)
    if storage is None:
        detail = f"no storage of catalog {catalog.name!r} has bucket {location.bucket!r}"
    elif any(root.contains(location) for root in catalog.learns.roots):
        return location, Place(storage.name, location.bucket, location.prefix)
    else:
        detail = f"{str(location)!r} is not below a root of catalog {catalog.name!r}"
    return Unbelieved(Reason.LOCATION_OUTSIDE_ROOTS, detail)


def is_operators(learning: Learning, location: Location) -> bool:
    """Whether the operator lets callers choose this place."""
    return any(place.contains(location) for place in learning.caller_locations)


def is_listed(listing: Listing | None, location: Location | Place) -> bool:
    """Whether the policy lists this place for the table."""
    return listing is not None and any(each.holds(location.bucket, location.prefix) for each in listing.places)


def location_in(text: str) -> Location | None:
    """Return the location that a text names; None for one that is none."""
    try:
        return known_location(text)
    except LocationInvalid:
        return None


def outside_declared(catalog: Catalog, facts: TableFacts) -> SightingRefusal | None:
    """Return why nothing is signed at the place that the upstream gave a table which the policy declares elsewhere."""
    declared, location = catalog.table(facts.namespace, facts.name), location_in(facts.location)
    if declared is None or location is None:
        return None
    if any(each.holds(location.bucket, location.prefix) for each in declared.places):
        return None
    detail = f"{str(location)!r} is none of the locations that the policy declares for the table"
    return SightingRefusal(Reason.LOCATION_DISPUTED, detail, declared.id)


def is_astray(facts: TableFacts) -> bool:
    """Whether a table's metadata file lies outside its location, so that the file alone vouches for the place.

    A caller that may register tables can write such a file into its own place, and name any other in it. Catalogs put
    the files of their own tables below the location, where only callers that may write there anyway can put one.
    """
    location = location_in(facts.location)
    if location is None or not facts.metadata_location:
        return False
    folder = location_in(facts.metadata_location.rpartition("/")[0])
    return folder is None or not (folder == location or location.contains(folder))


def unvouched_refusal(table: TableId, text: str) -> SightingRefusal:
    """Return the refusal of a place that has no voucher."""
    whose = f"table {table.name!r}" if table.name else "the namespace"
    detail = f"{text[:1024]!r} was chosen by a caller for {whose}; neither the upstream nor the policy vouches for it"
    return SightingRefusal(Reason.LOCATION_UNVOUCHED, detail, table)


def listing_of(learning: Learning, table: TableId, uuid: str) -> Listing | None:
    """Return what the policy says of a table of this name and UUID."""
    listing = learning.listings.get(table_key(table.namespace, table.name))
    return listing if listing is not None and listing.uuid in ("", uuid) else None


def unbelieved(catalog: Catalog, facts: TableFacts, first: Place, listing: Listing | None) -> Unbelieved | None:
    """Return the first location of the facts that lies neither in the table's first place nor in a listed one."""
    for text in (facts.location, *facts.properties.values()):
        found = place_of(catalog, text)
        if isinstance(found, Unbelieved):
            return found
        if not _within(found[1], first, listing):
            detail = f"{str(found[0])!r} lies outside {str(first)!r}, where the table was first seen, and is not listed"
            return Unbelieved(Reason.LOCATION_DISPUTED, detail)
    return None


def table_of(catalog: Catalog, identity: TableId, facts: TableFacts, place: Place) -> Table:
    """Return the table that decisions are made of, with what the policy lists and grants."""
    learning = catalog.learns
    listing = listing_of(learning, identity, facts.uuid)
    settings = TableSettings(
        storage=place.storage,
        bucket=place.bucket,
        metadata=learning.metadata if listing is None else listing.metadata,
        overwrite=learning.overwrite if listing is None else listing.overwrite,
        extra=() if listing is None else listing.places,
        metadata_place=_metadata_place(catalog, facts, place, listing),
    )
    namespace: Namespace = namespace_at(catalog, identity.namespace) or learning.nowhere
    grants = grants_at(catalog, identity.namespace, identity.name)
    return Table(identity, namespace, place.prefix, settings, grants, facts.uuid)


def open_for_removal(table: Table) -> Table:
    """Return a dropped table as its dropper may remove it: metadata files are files like all others."""
    settings = msgspec.structs.replace(table.settings, metadata=MetadataLevel.OPEN)
    return msgspec.structs.replace(table, settings=settings)


def _within(place: Place, first: Place, listing: Listing | None) -> bool:
    return first.holds(place.bucket, place.prefix) or is_listed(listing, place)


def _metadata_place(catalog: Catalog, facts: TableFacts, first: Place, listing: Listing | None) -> Place | None:
    """Return where the metadata lies: as the property says, or beside the file that the upstream named."""
    path = facts.properties.get(METADATA_PATH) or facts.metadata_location.rpartition("/")[0]
    found = place_of(catalog, path)
    # The folder of the table itself is none: sealing the metadata would seal the data.
    if isinstance(found, Unbelieved) or found[1] == first or not _within(found[1], first, listing):
        return None
    if found[1].bucket == first.bucket and found[1].prefix == f"{first.prefix}metadata/":
        # As every table has it, so that tables can share their settings.
        return None
    return found[1]


UNVOUCHED_AT_MOST = 100_000
"""Names of tables whose place a caller chose: they are not believed when others load them; some 400 bytes each."""

UNVOUCHED_EACH = 16
"""Places that are remembered of one name."""


class Unvouched(msgspec.Struct, frozen=True, gc=False):
    """A place that a caller chose for a table; the upstream repeats it in each answer about the table.

    Whatever the UUID: it stands in the registered file, and a later commit may assign another one.
    """

    table: TableId
    location: str


def unvouched_place(table: TableId, text: str) -> Unvouched:
    """Return a table's place as it is remembered: however it is spelled, it is the same."""
    location = location_in(text)
    return Unvouched(table, text if location is None else str(location))


class UnvouchedPlaces:
    """What one process knows of them."""

    def __init__(self, tell: Callable[[Unvouched], None]) -> None:
        """`tell` is given each place that was not known here, so that it can be kept."""
        self._tell = tell
        self._held: OrderedDict[TableId, frozenset[Unvouched]] = OrderedDict()

    def __contains__(self, place: Unvouched) -> bool:
        return place in self._held.get(place.table, ())

    def add(self, place: Unvouched) -> None:
        """Remember a place, and have it kept."""
        if self._put(place):
            self._tell(place)

    def replay(self, place: Unvouched) -> None:
        """Take in what was kept."""
        self._put(place)

    def rename(self, source: TableId, target: TableId) -> None:
        """Take the doubt along: another name makes nothing more credible."""
        self.spread(source, target)
        self._held.pop(source, None)

    def spread(self, source: TableId, target: TableId) -> None:
        """Doubt another name as well: the table may have it now."""
        for place in tuple(self._held.get(source, ())):
            self.add(Unvouched(target, place.location))

    def _put(self, place: Unvouched) -> bool:
        known = self._held.pop(place.table, frozenset())
        # A name whose table is registered again and again keeps the last of its places.
        fresh = frozenset((place,))
        self._held[place.table] = known | fresh if place in known or len(known) < UNVOUCHED_EACH else fresh
        if len(self._held) > UNVOUCHED_AT_MOST:
            self._held.popitem(last=False)
        return place not in known
