"""Build one catalog of a policy: enter its namespaces, tables and grants, and check each against the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from msgspec.structs import force_setattr

from signproxy.inventory.declared.document import CatalogEntry, NamespaceName, TableEntry, VolumeEntry
from signproxy.inventory.declared.findings import MAX_COMPARED, EntryInvalid, near
from signproxy.inventory.declared.volumes import volume_of
from signproxy.model import NAMESPACE_SEPARATOR, TableId
from signproxy.policy.catalog import Catalog, Listing
from signproxy.policy.location import Location, LocationInvalid, parse_location, parse_root
from signproxy.policy.table import (
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
from signproxy.s3.storage import Storage

METADATA_PATH = "write.metadata.path"
LOCATION_PROPERTIES = (METADATA_PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path")
"""The properties of an Iceberg table that name a place of its objects; the last two are the former names."""


class CatalogDraft:
    """A catalog under construction. Values that many tables share are made once."""

    def __init__(self, catalog: Catalog, entry: CatalogEntry, roots: tuple[Location, ...]) -> None:
        self.catalog = catalog
        self._entry = entry
        self._roots = roots
        self._storages: dict[str, Storage] = {
            bucket: storage for storage in catalog.storages.values() for bucket in storage.buckets
        }
        self._settings: dict[TableSettings, TableSettings] = {}
        self._plain: dict[tuple[str, MetadataLevel | None, Overwrite | None], TableSettings] = {}
        self._namespaces: dict[NamespaceName, Namespace] = {}
        self._grants: dict[tuple[tuple[int, int], ...], Grants] = {}
        self._pending: dict[tuple[str, str | None], list[tuple[int, int, str, str]]] = {}
        self._noted: set[tuple[int, int]] = set()

    def namespace(self, name: NamespaceName) -> Namespace:
        """Return the namespace of this name, entered with its parents if it is new. Raise EntryInvalid."""
        known = self._namespaces.get(name)
        if known is None:
            known = self._namespaces[name] = self._enter(levels_of(name))
        return known

    def add_table(self, entry: TableEntry) -> None:
        """Enter a table. Raise EntryInvalid."""
        name = entry.name
        if not name or not name.isprintable():
            raise EntryInvalid("name", f"{name!r} is no name of a table")
        namespace = self.namespace(entry.namespace)
        identity = TableId(self.catalog.name, namespace.name, name)
        if self.catalog.table(namespace.name, name) is not None or self._is_listed(identity):
            raise EntryInvalid("", f"table {dotted(namespace.name, name)} is declared twice")
        if entry.location is None:
            self._list(identity, entry)
            return
        location = self._location("location", entry.location)
        settings = self._settings_of(entry, location.bucket)
        grants = self._take_pending(namespace.name, name)
        self.catalog.add_table(Table(identity, namespace, location.prefix, settings, grants, entry.uuid))

    def add_volume(self, entry: VolumeEntry) -> None:
        """Enter a volume. Raise EntryInvalid."""
        self.catalog.volumes.add(volume_of(self.catalog, entry, self._entry.overwrite))

    def grant_on_catalog(self, role: int, mask: int) -> None:
        """Grant a role something on the whole catalog."""
        self.catalog.grants = self._with(self.catalog.grants, role, mask)

    def grant_on_namespace(self, name: NamespaceName, role: int, mask: int, file: str, path: str) -> None:
        """Grant a role something on a namespace, which may be declared later. Raise EntryInvalid."""
        joined = NAMESPACE_SEPARATOR.join(levels_of(name))
        namespace = self.catalog.namespaces.get(joined)
        if namespace is None:
            self._pending.setdefault((joined, None), []).append((role, mask, file, path))
        else:
            # The value is still under construction; nothing has read it yet.
            force_setattr(namespace, "own", self._with(namespace.own, role, mask))

    def grant_on_table(self, place: tuple[NamespaceName, str], role: int, mask: int, file: str, path: str) -> None:
        """Grant a role something on a table, which may be declared later. Raise EntryInvalid."""
        known = self._namespaces.get(place[0])
        namespace = NAMESPACE_SEPARATOR.join(levels_of(place[0])) if known is None else known.name
        table = self.catalog.table(namespace, place[1])
        if table is None:
            self._pending.setdefault((namespace, place[1]), []).append((role, mask, file, path))
        else:
            force_setattr(table, "grants", self._with(table.grants, role, mask))

    def grant_on_volume(self, name: str, role: int, mask: int) -> None:
        """Grant a role something on a volume; all volumes are in. Raise EntryInvalid."""
        volume = self.catalog.volumes.named(name)
        if volume is None:
            hint = near(name, [known.id.name for known in self.catalog.volumes])
            raise EntryInvalid("volume", f"catalog {self.catalog.name!r} has no volume {name!r}{hint}")
        force_setattr(volume, "grants", self._with(volume.grants, role, mask))

    def unresolved(self) -> Iterator[tuple[str, str, str]]:
        """Yield file, path and problem of each grant on a namespace or table that is never declared."""
        if self.catalog.learning is not None:
            return
        namespaces = [dotted(name) for name in self.catalog.namespaces]
        tables = [dotted(table.id.namespace, table.name) for table in islice(self.catalog.tables(), MAX_COMPARED + 1)]
        for (namespace, name), grants in self._pending.items():
            if name is None:
                what = f"namespace {dotted(namespace)!r}"
                hint = near(dotted(namespace), namespaces)
            else:
                what = f"table {dotted(namespace, name)!r}"
                hint = near(dotted(namespace, name), tables)
            for _, _, file, path in grants:
                yield file, path, f"unknown {what} in catalog {self.catalog.name!r}{hint}"

    def finish(self) -> Catalog:
        """Return the catalog with the grants of each namespace and table merged with those above."""
        learning = self.catalog.learning
        ahead = self._grants_ahead() if learning is not None else []
        # Sorted, a parent comes before its children.
        for _, namespace in sorted(self.catalog.namespaces.items()):
            if namespace.own:
                self._grant_below(namespace.parent, namespace.own)
            above = NO_GRANTS if namespace.parent is None else namespace.parent.grants
            force_setattr(namespace, "grants", self._merged(above, namespace.own))
        for table in self.catalog.tables():
            if table.grants:
                self._grant_below(table.namespace, table.grants)
            if table.namespace.grants:
                force_setattr(table, "grants", self._merged(table.namespace.grants, table.grants))
        if learning is not None:
            for namespace, name, own in ahead:
                self._grant_below(namespace, own)
                learning.grants[table_key(namespace.name, name)] = self._merged(namespace.grants, own)
        self.catalog.note_readers()
        return self.catalog

    def _grants_ahead(self) -> list[tuple[Namespace, str, Grants]]:
        """Enter the namespaces that only grants name, and return what is granted on undeclared tables."""
        for namespace, _ in list(self._pending):
            # Entering it takes what is pending on the namespace itself.
            self._enter(tuple(namespace.split(NAMESPACE_SEPARATOR)))
        return [
            (self.catalog.namespaces[namespace], name, self._take_pending(namespace, name))
            for namespace, name in list(self._pending)
            if name is not None
        ]

    def _grant_below(self, namespace: Namespace | None, own: Grants) -> None:
        """Note that something in a namespace, or (None) in the catalog, was granted this."""
        # Tables of one namespace that share their grants add nothing but for the first of them.
        seen = (id(namespace), id(own))
        if seen in self._noted:
            return
        self._noted.add(seen)
        while True:
            below = self.catalog.below.setdefault("" if namespace is None else namespace.name, {})
            for role, mask in own.items():
                below[role] = below.get(role, 0) | mask
            if namespace is None:
                return
            namespace = namespace.parent

    def _is_listed(self, table: TableId) -> bool:
        learning = self.catalog.learning
        return learning is not None and table_key(table.namespace, table.name) in learning.listings

    def _list(self, identity: TableId, entry: TableEntry) -> None:
        """Enter what is said of a table whose location the upstream tells."""
        learning = self.catalog.learning
        if learning is None:
            raise EntryInvalid("location", "this key is missing")
        settings = self._special(entry, "")
        listing = Listing(identity, settings.metadata, settings.overwrite, settings.extra, entry.uuid)
        learning.listings[table_key(identity.namespace, identity.name)] = listing
        for place in listing.places:
            learning.reserved.add(place.bucket, place.prefix, listing)

    def _merged(self, above: Grants, own: Grants) -> Grants:
        merged = above
        for role, mask in own.items():
            merged = self._with(merged, role, mask)
        return merged

    def _enter(self, levels: tuple[str, ...]) -> Namespace:
        name = NAMESPACE_SEPARATOR.join(levels)
        known = self.catalog.namespaces.get(name)
        if known is None:
            parent = self._enter(levels[:-1]) if len(levels) > 1 else None
            known = Namespace(self.catalog.name, name, parent)
            force_setattr(known, "own", self._take_pending(name, None))
            self.catalog.add_namespace(known)
        return known

    def _location(self, key: str, text: str) -> Location:
        """Return a location of a table, which lies in a bucket and below a root of the catalog."""
        try:
            location = parse_location(text)
        except LocationInvalid as invalid:
            raise EntryInvalid(key, str(invalid)) from None
        if location.bucket not in self._storages:
            hint = near(location.bucket, self._storages)
            raise EntryInvalid(key, f"no storage of catalog {self.catalog.name!r} has bucket {location.bucket!r}{hint}")
        if not any(root.contains(location) for root in self._roots):
            roots = ", ".join(map(str, self._roots))
            raise EntryInvalid(key, f"{str(location)!r} is not below a root of catalog {self.catalog.name!r}: {roots}")
        return location

    def _settings_of(self, entry: TableEntry, bucket: str) -> TableSettings:
        if entry.properties or entry.locations:
            return self._special(entry, bucket)
        key = (bucket, entry.metadata, entry.overwrite)
        settings = self._plain.get(key)
        if settings is None:
            settings = self._plain[key] = self._special(entry, bucket)
        return settings

    def _special(self, entry: TableEntry, bucket: str) -> TableSettings:
        extra: dict[Place, None] = {}
        metadata_place: Place | None = None
        for name in LOCATION_PROPERTIES:
            text = entry.properties.get(name)
            if text is not None:
                place = self._place(f"properties['{name}']", str(text))
                extra[place] = None
                if name == METADATA_PATH:
                    metadata_place = place
        for name in entry.properties:
            if name.startswith("write.") and name.endswith(".path") and name not in LOCATION_PROPERTIES:
                hint = near(name, LOCATION_PROPERTIES)
                raise EntryInvalid(f"properties['{name}']", f"unknown location property {name!r}{hint}")
        for index, text in enumerate(entry.locations):
            extra[self._place(f"locations[{index}]", text)] = None
        settings = TableSettings(
            storage=self._storages[bucket].name if bucket else "",
            bucket=bucket,
            metadata=self._entry.metadata if entry.metadata is None else entry.metadata,
            overwrite=self._entry.overwrite if entry.overwrite is None else entry.overwrite,
            extra=tuple(extra),
            metadata_place=metadata_place,
        )
        return self._settings.setdefault(settings, settings)

    def _place(self, key: str, text: str) -> Place:
        location = self._location(key, text)
        return Place(self._storages[location.bucket].name, location.bucket, location.prefix)

    def _take_pending(self, namespace: str, name: str | None) -> Grants:
        grants = NO_GRANTS
        if self._pending:
            for role, mask, _, _ in self._pending.pop((namespace, name), ()):
                grants = self._with(grants, role, mask)
        return grants

    def _with(self, grants: Grants, role: int, mask: int) -> Grants:
        """Return the grants with one more; equal ones are the same object, as long as the draft lives."""
        merged = {**grants, role: grants.get(role, 0) | mask} if grants else {role: mask}
        return self._grants.setdefault(tuple(sorted(merged.items())), merged)


def roots_of(entry: CatalogEntry, storages: Mapping[str, Storage]) -> tuple[Location, ...]:
    """Return the places below which a catalog's tables must lie. Raise EntryInvalid."""
    buckets = [bucket for storage in storages.values() for bucket in storage.buckets]
    if not entry.roots:
        return tuple(Location(bucket, "") for bucket in buckets)
    return _places("roots", entry.roots, buckets)


def caller_locations_of(entry: CatalogEntry, storages: Mapping[str, Storage]) -> tuple[Location, ...]:
    """Return the places below which callers may choose locations. Raise EntryInvalid."""
    buckets = [bucket for storage in storages.values() for bucket in storage.buckets]
    return _places("caller_locations", entry.caller_locations, buckets)


def _places(key: str, texts: Iterable[str], buckets: Collection[str]) -> tuple[Location, ...]:
    places = []
    for index, text in enumerate(texts):
        try:
            place = parse_root(text)
        except LocationInvalid as invalid:
            raise EntryInvalid(f"{key}[{index}]", str(invalid)) from None
        if place.bucket not in buckets:
            hint = near(place.bucket, buckets)
            raise EntryInvalid(f"{key}[{index}]", f"none of the catalog's storages has bucket {place.bucket!r}{hint}")
        places.append(place)
    return tuple(places)


def levels_of(name: NamespaceName) -> tuple[str, ...]:
    """Return the levels of a namespace. Raise EntryInvalid."""
    levels = tuple(name.split(".")) if isinstance(name, str) else name
    # The separator of levels is no printable character, so that no level can pose as two.
    if not levels or not all(level and level.isprintable() for level in levels):
        raise EntryInvalid(
            "namespace", f"{name!r} is no namespace: an empty level, or a character that is not printable"
        )
    return levels


def dotted(namespace: str, *names: str) -> str:
    """Return a namespace, or a table in it, as people write it."""
    return ".".join((*namespace.split(NAMESPACE_SEPARATOR), *names))
