"""Read the places that an upstream lets a table claim, as far as a catalog of the policy may believe them."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.declared.catalog_draft import LOCATION_PROPERTIES, METADATA_PATH
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Namespace, Place, Table, TableSettings
from signproxy.policy.learning import Learning, Listing
from signproxy.policy.location import Location, LocationInvalid, parse_location
from signproxy.policy.reach import grants_at, namespace_at
from signproxy.policy.table import MetadataLevel, table_key


class Unbelieved(msgspec.Struct, frozen=True, gc=False):
    """A location that the upstream names and that is not the table's."""

    reason: Reason
    detail: str


def place_of(catalog: Catalog, learning: Learning, text: str) -> tuple[Location, Place] | Unbelieved:
    """Return the place that a location of the upstream names: in a bucket of the catalog and below one of its roots."""
    try:
        location = parse_location(text)
    except LocationInvalid as invalid:
        return Unbelieved(Reason.LOCATION_OUTSIDE_ROOTS, str(invalid))
    storage = catalog.storage_of(location.bucket)
    if storage is None:
        detail = f"no storage of catalog {catalog.name!r} has bucket {location.bucket!r}"
        return Unbelieved(Reason.LOCATION_OUTSIDE_ROOTS, detail)
    if not any(root.contains(location) for root in learning.roots):
        detail = f"{str(location)!r} is not below a root of catalog {catalog.name!r}"
        return Unbelieved(Reason.LOCATION_OUTSIDE_ROOTS, detail)
    return location, Place(storage.name, location.bucket, location.prefix)


def is_operators(learning: Learning, location: Location) -> bool:
    """Whether the operator lets callers choose this place."""
    return any(place.contains(location) for place in learning.caller_locations)


def is_listed(listing: Listing | None, location: Location) -> bool:
    """Whether the policy lists this place for the table."""
    places = () if listing is None else listing.places
    return any(location.bucket == each.bucket and location.prefix.startswith(each.prefix) for each in places)


def location_in(text: str) -> Location | None:
    """Return the location that a text names; None for one that is none."""
    try:
        return parse_location(text)
    except LocationInvalid:
        return None


def outside_declared(catalog: Catalog, facts: TableFacts) -> SightingRefusal | None:
    """Return why nothing is signed at the place that the upstream gave a table which the policy declares elsewhere."""
    declared, location = catalog.table(facts.namespace, facts.name), location_in(facts.location)
    if declared is None or location is None:
        return None
    if any(location.bucket == each.bucket and location.prefix.startswith(each.prefix) for each in declared.places):
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


def unbelieved(
    catalog: Catalog, learning: Learning, facts: TableFacts, first: Place, listing: Listing | None
) -> Unbelieved | None:
    """Return the first location of the facts that lies neither in the table's first place nor in a listed one."""
    texts = [facts.location, *(facts.properties[name] for name in LOCATION_PROPERTIES if name in facts.properties)]
    for text in texts:
        found = place_of(catalog, learning, text)
        if isinstance(found, Unbelieved):
            return found
        if not _within(found[1], first, listing):
            detail = f"{str(found[0])!r} lies outside {str(first)!r}, where the table was first seen, and is not listed"
            return Unbelieved(Reason.LOCATION_DISPUTED, detail)
    return None


def table_of(
    catalog: Catalog,
    learning: Learning,
    identity: TableId,
    facts: TableFacts,
    place: Place,
) -> Table:
    """Return the table that decisions are made of, with what the policy lists and grants."""
    listing = listing_of(learning, identity, facts.uuid)
    settings = TableSettings(
        storage=place.storage,
        bucket=place.bucket,
        metadata=learning.metadata if listing is None else listing.metadata,
        overwrite=learning.overwrite if listing is None else listing.overwrite,
        extra=() if listing is None else listing.places,
        metadata_place=_metadata_place(catalog, learning, facts, place, listing),
    )
    namespace: Namespace = namespace_at(catalog, identity.namespace) or learning.nowhere
    grants = grants_at(catalog, identity.namespace, identity.name)
    return Table(identity, namespace, place.prefix, settings, grants, facts.uuid)


def open_for_removal(table: Table) -> Table:
    """Return a dropped table as its dropper may remove it: metadata files are files like all others."""
    settings = msgspec.structs.replace(table.settings, metadata=MetadataLevel.OPEN)
    return msgspec.structs.replace(table, settings=settings)


def _within(place: Place, first: Place, listing: Listing | None) -> bool:
    return any(
        place.bucket == known.bucket and place.prefix.startswith(known.prefix)
        for known in (first, *(() if listing is None else listing.places))
    )


def _metadata_place(
    catalog: Catalog, learning: Learning, facts: TableFacts, first: Place, listing: Listing | None
) -> Place | None:
    """Return where the metadata lies: as the property says, or beside the file that the upstream named."""
    path = facts.properties.get(METADATA_PATH) or facts.metadata_location.rpartition("/")[0]
    found = place_of(catalog, learning, path)
    # The folder of the table itself is none: sealing the metadata would seal the data.
    if isinstance(found, Unbelieved) or found[1] == first or not _within(found[1], first, listing):
        return None
    if found[1].bucket == first.bucket and found[1].prefix == f"{first.prefix}metadata/":
        # As every table has it, so that tables can share their settings.
        return None
    return found[1]
