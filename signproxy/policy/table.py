"""Hold tables so that a million of them stay small and a decision reads few of their bytes.

None of these values is seen by the garbage collector, and none points back at what holds it: a state that was
replaced is freed by its last reference, and a full collection does not walk a million objects.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.model import TableId
from signproxy.policy.location import Location

Grants = dict[int, int]
"""Role id -> mask of what the role was granted here. Equal grants share one dict, which is never changed after load."""

NO_GRANTS: Grants = {}

BEFORE_NAME = "\0"
"""Stands between namespace and name; neither a declared name nor a learned one holds it, so no two names can meet."""


def table_key(namespace: str, name: str) -> str:
    """Return the key of a table in its catalog; `namespace` holds its levels joined by U+001F."""
    return f"{namespace}{BEFORE_NAME}{name}"


class MetadataLevel(Enum):
    """How far a table's metadata is kept from the data privileges."""

    PROTECTED = "protected"
    SEALED = "sealed"
    OPEN = "open"


class Overwrite(Enum):
    """Whether an object of the table may be written twice."""

    ALLOWED = "allowed"
    FORBID = "forbid"


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where keys may lie: a storage by name, a bucket, and what the keys begin with, final slash included."""

    storage: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return str(Location(self.bucket, self.prefix[:-1]))

    def holds(self, bucket: str, text: str) -> bool:
        """Whether a place, or every key that begins with a text, lies in it."""
        return bucket == self.bucket and text.startswith(self.prefix)


class TableSettings(msgspec.Struct, frozen=True, gc=False):
    """What many tables have in common; equal settings share one object."""

    storage: str
    bucket: str
    metadata: MetadataLevel = MetadataLevel.PROTECTED
    overwrite: Overwrite = Overwrite.ALLOWED
    extra: tuple[Place, ...] = ()
    """Locations besides the table's `location`: `write.data.path` and its like."""
    metadata_place: Place | None = None
    """`write.metadata.path`, where it is set."""


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace by its name (levels joined by U+001F) and what was granted on it and above, catalog excepted."""

    catalog: str
    name: str
    parent: Namespace | None = None
    own: Grants = NO_GRANTS
    grants: Grants = NO_GRANTS
    """Its own grants and those of every parent, merged."""


class Table(msgspec.Struct, frozen=True, gc=False):
    """A table: six references, so that it fills one line of the processor's cache.

    A decision reads `id`, `location` and the shared `settings` and `grants`, and nothing else.
    """

    id: TableId
    namespace: Namespace
    location: str
    """The path of the location with its final slash; the very object that the location index has as key."""
    settings: TableSettings
    grants: Grants = NO_GRANTS
    """What was granted on the table and on its namespaces, merged."""
    uuid: str = ""

    @property
    def name(self) -> str:
        return self.id.name

    @property
    def metadata(self) -> MetadataLevel:
        return self.settings.metadata

    @property
    def overwrite(self) -> Overwrite:
        return self.settings.overwrite

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place of the table, its `location` first."""
        settings = self.settings
        return (Place(settings.storage, settings.bucket, self.location), *settings.extra)

    @property
    def metadata_places(self) -> tuple[Place, ...]:
        """Where metadata files lie or once lay: `write.metadata.path`, and `metadata` below every location."""
        below = tuple(Place(place.storage, place.bucket, f"{place.prefix}metadata/") for place in self.places)
        special = self.settings.metadata_place
        return below if special is None else (special, *below)
