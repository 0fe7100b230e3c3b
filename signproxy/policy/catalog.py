"""Hold a catalog: its switches, its storages, and its tables by name and by location."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from signproxy.policy.learning import Authorizer, Learning, TablesFrom
from signproxy.policy.location_index import LocationIndex
from signproxy.policy.table import (
    BEFORE_NAME,
    NO_GRANTS,
    Grants,
    MetadataLevel,
    Namespace,
    Overwrite,
    Place,
    Table,
    TableSettings,
    table_key,
)
from signproxy.policy.volume import Volumes
from signproxy.s3.storage import EndpointIndex, Storage

__all__ = [
    "NO_GRANTS",
    "Catalog",
    "CatalogKind",
    "Grants",
    "MetadataLevel",
    "Namespace",
    "Overlap",
    "Overwrite",
    "Place",
    "Table",
    "TableBinding",
    "TableSettings",
]


class TableBinding(Enum):
    """Whether a table-scoped route is bound to the table that its path names."""

    STRICT = "strict"
    BY_LOCATION = "by-location"


class Overlap(Enum):
    """Whether locations of two tables may nest or be shared; all owners must allow then."""

    FORBIDDEN = "forbidden"
    ALLOWED = "allowed"


class CatalogKind(Enum):
    """Who keeps the catalog's metadata."""

    INTERNAL = "internal"
    EXTERNAL = "external"


class Catalog:
    """A catalog of the policy. Built whole, then only read."""

    __slots__ = (
        "_tables",
        "allow_external",
        "below",
        "binding",
        "endpoints",
        "grants",
        "kind",
        "learning",
        "locations",
        "name",
        "namespaces",
        "overlap",
        "prefixes",
        "readers",
        "remote_signing",
        "roles",
        "storages",
        "volumes",
    )

    def __init__(  # noqa: PLR0913  (a value; its parts are given by name)
        self,
        name: str,
        *,
        storages: dict[str, Storage],
        remote_signing: bool = False,
        kind: CatalogKind = CatalogKind.INTERNAL,
        allow_external: bool = False,
        binding: TableBinding = TableBinding.STRICT,
        overlap: Overlap = Overlap.FORBIDDEN,
        prefixes: tuple[str, ...] = (),
        roles: dict[int, str] | None = None,
        grants: Grants = NO_GRANTS,
        learning: Learning | None = None,
    ) -> None:
        self.name = name
        self.storages = storages
        self.endpoints = EndpointIndex(storages.values())
        self.remote_signing = remote_signing
        self.kind = kind
        self.allow_external = allow_external
        self.binding = binding
        self.overlap = overlap
        self.prefixes = prefixes
        """Every prefix that means this catalog, its name first."""
        self.roles: dict[int, str] = {} if roles is None else roles
        """The names of its catalog roles; ids are unique in the whole state."""
        self.grants = grants
        """What is granted on the catalog itself."""
        self.learning = learning
        """What an upstream is left to say; None where the policy declares every table."""
        self.below: dict[str, Grants] = {}
        """Namespace -> everything that is granted on what lies in it, taken together; the catalog itself is ''."""
        self.readers: dict[str, Grants] = {}
        """Bucket -> everything that is granted on the declared tables that lie in it, taken together."""
        self.namespaces: dict[str, Namespace] = {}
        self.volumes = Volumes()
        self.locations = LocationIndex()
        # One dict for all namespaces: a look-up then reads two lines of memory less.
        self._tables: dict[str, Table] = {}

    @property
    def tables_from(self) -> TablesFrom:
        """Where its tables are known from."""
        return TablesFrom.DECLARED if self.learning is None else TablesFrom.UPSTREAM

    @property
    def authorizer(self) -> Authorizer:
        """Whose word a caller's rights are."""
        return Authorizer.POLICY if self.learning is None else self.learning.authorizer

    def table(self, namespace: str, name: str) -> Table | None:
        """Return the table of this name; `namespace` holds its levels joined by U+001F."""
        # As `table_key` does it; the call alone would cost a request as much as the look-up.
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
