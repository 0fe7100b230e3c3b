"""Hold a catalog: its switches, its storages, its tables by name and by location, and what it leaves to an upstream."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

import msgspec

from signproxy.model import TableId
from signproxy.policy.location import Location
from signproxy.policy.location_index import LocationIndex
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import BEFORE_NAME, Grants, MetadataLevel, Namespace, Overwrite, Place, Table, table_key
from signproxy.policy.volume import Volumes
from signproxy.s3.storage import EndpointIndex, Storage


class TablesFrom(Enum):
    """Where a catalog's tables are known from."""

    DECLARED = "declared"
    UPSTREAM = "upstream"


class Authorizer(Enum):
    """Who authorizes a caller."""

    POLICY = "policy"
    CATALOG = "catalog"
    BOTH = "both"


class Listing(msgspec.Struct, frozen=True, gc=False):
    """What the policy says of a table whose location the upstream tells."""

    id: TableId
    metadata: MetadataLevel
    overwrite: Overwrite
    places: tuple[Place, ...]
    """Its own, wherever the upstream says that it lies, and no other table's."""
    uuid: str
    """Where it is given, the listing is of this table alone, and of no other of its name."""


class Learning(msgspec.Struct, frozen=True, gc=False):
    """Everything that a catalog with `tables: upstream` has besides. Built whole, then only read."""

    authorizer: Authorizer
    roots: tuple[Location, ...]
    """A table's locations lie below one of them."""
    caller_locations: tuple[Location, ...]
    """Places below which callers may choose where their tables and namespaces lie."""
    metadata: MetadataLevel
    overwrite: Overwrite
    nowhere: Namespace
    """Stands for a namespace that neither it nor one above was granted anything on."""
    listings: dict[str, Listing]
    """By the key of the table."""
    grants: dict[str, Grants]
    """Key of a table that is not declared -> what was granted on it and on its namespaces, merged.

    They are made with the policy and live as long, as the rights of a principal expect of grants.
    """
    reserved: PlaceTree[Listing]
    """The places of the listings."""


class TableBinding(Enum):
    """Whether a table-scoped route is bound to the table that its path names."""

    STRICT = "strict"
    BY_LOCATION = "by-location"


class Overlap(Enum):
    """Whether locations of two tables may nest or be shared; all owners must allow then."""

    FORBIDDEN = "forbidden"
    ALLOWED = "allowed"


class Delegation(Enum):
    """How a caller may be let reach the objects of a table; the values are those of `X-Iceberg-Access-Delegation`."""

    REMOTE_SIGNING = "remote-signing"
    VENDED_CREDENTIALS = "vended-credentials"


class CatalogKind(Enum):
    """Who keeps the catalog's metadata."""

    INTERNAL = "internal"
    EXTERNAL = "external"


_NO_TABLES: dict[str, Table] = {}


class Catalog(msgspec.Struct, eq=False):
    """A catalog of the policy. Built whole, then only read."""

    name: str
    storages: dict[str, Storage]
    remote_signing: bool = False
    kind: CatalogKind = CatalogKind.INTERNAL
    allow_external: bool = False
    binding: TableBinding = TableBinding.STRICT
    overlap: Overlap = Overlap.FORBIDDEN
    delegation: tuple[Delegation, ...] = (Delegation.REMOTE_SIGNING,)
    """What its callers are offered, but for those whose principal roles say otherwise."""
    prefixes: tuple[str, ...] = ()
    """Every prefix that means this catalog, its name first."""
    roles: dict[int, str] = {}
    """The names of its catalog roles; ids are unique in the whole state."""
    grants: Grants = {}
    """What is granted on the catalog itself."""
    learning: Learning | None = None
    """What an upstream is left to say; None where the policy declares every table."""
    below: dict[str, Grants] = {}
    """Namespace -> everything that is granted on what lies in it, taken together; the catalog itself is ''."""
    readers: dict[str, Grants] = {}
    """Bucket -> everything that is granted on the declared tables that lie in it, taken together."""
    namespaces: dict[str, Namespace] = {}
    volumes: Volumes = msgspec.field(default_factory=Volumes)
    locations: LocationIndex = msgspec.field(default_factory=LocationIndex)
    endpoints: EndpointIndex = EndpointIndex(())
    """Of its storages."""
    keyed: Callable[[str], Table | None] = _NO_TABLES.get
    """Returns the table of this key, as `table_key` makes it; None where there is none."""
    # One dict for all namespaces: a look-up then reads two lines of memory less.
    _tables: dict[str, Table] = {}

    def __post_init__(self) -> None:
        self.endpoints = EndpointIndex(self.storages.values())
        self.keyed = self._tables.get

    def __repr__(self) -> str:
        return f"Catalog({self.name!r})"

    @property
    def tables_from(self) -> TablesFrom:
        """Where its tables are known from."""
        return TablesFrom.DECLARED if self.learning is None else TablesFrom.UPSTREAM

    @property
    def learns(self) -> Learning:
        """What an upstream is left to say, for what only a catalog with `tables: upstream` is asked."""
        assert self.learning is not None  # noqa: S101 - see above
        return self.learning

    @property
    def authorizer(self) -> Authorizer:
        """Who authorizes a caller."""
        return Authorizer.POLICY if self.learning is None else self.learning.authorizer

    def table(self, namespace: str, name: str) -> Table | None:
        """Return the table of this name; `namespace` holds its levels joined by U+001F."""
        # As `table_key` does it, without the call.
        return self._tables.get(f"{namespace}{BEFORE_NAME}{name}")

    def tables(self) -> Collection[Table]:
        """Return all tables."""
        return self._tables.values()

    def storage_of(self, bucket: str) -> Storage | None:
        """Return the storage that holds a bucket; no two storages of a catalog hold the same."""
        for storage in self.storages.values():
            if bucket in storage.buckets:
                return storage
        return None

    def add_namespace(self, namespace: Namespace) -> None:
        """Enter a namespace, while the catalog is built."""
        self.namespaces[namespace.name] = namespace

    def add_table(self, table: Table) -> None:
        """Enter a table under its name and its locations, while the catalog is built."""
        self._tables[table_key(table.id.namespace, table.id.name)] = table
        settings = table.settings
        self.locations.add(settings.bucket, table.location, table)
        for place in settings.extra:
            self.locations.add(place.bucket, place.prefix, table)

    def note_readers(self) -> None:
        """Note who was granted something in which bucket, once every grant is in."""
        # Tables that share settings and grants, nearly all of them, add nothing but for the first.
        seen: set[tuple[int, int]] = set()
        for table in self._tables.values():
            settings, grants = table.settings, table.grants
            key = (id(settings), id(grants))
            if key in seen:
                continue
            seen.add(key)
            for bucket in {settings.bucket, *[place.bucket for place in settings.extra]}:
                readers = self.readers.setdefault(bucket, {})
                for role, mask in grants.items():
                    readers[role] = readers.get(role, 0) | mask
