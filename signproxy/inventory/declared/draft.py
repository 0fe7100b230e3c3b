"""Put together what the files of a policy declare, and gather what contradicts itself."""

from __future__ import annotations

from signproxy.documents import path_of
from signproxy.inventory.declared.catalog_draft import CatalogDraft, caller_locations_of, levels_of, roots_of
from signproxy.inventory.declared.document import (
    CATALOG_SWITCH,
    CatalogEntry,
    EnforcementMode,
    GrantEntry,
    InventoryLine,
    PolicyDocument,
    TableEntry,
    TableLine,
    VolumeEntry,
)
from signproxy.inventory.declared.findings import EntryInvalid, Findings, near
from signproxy.inventory.declared.storages import storage_of, storage_problems
from signproxy.model import NAMESPACE_SEPARATOR, TableId, VolumeId
from signproxy.policy.catalog import Catalog, Namespace
from signproxy.policy.learning import Authorizer, Learning, TablesFrom
from signproxy.policy.location import Location
from signproxy.policy.places import PlaceTree
from signproxy.policy.privileges import OF_VOLUMES, PrivilegeUnknown, mask_of, names_of
from signproxy.s3.storage import EndpointClash, Storage

RESERVED = frozenset({"api", "catalogs"})
"""Names that begin other routes."""

_OF_VOLUMES = [str(privilege.name) for privilege in OF_VOLUMES]

_Documents = list[tuple[str, PolicyDocument]]


class PolicyDraft:
    """A policy under construction. Everything that is wrong goes to `findings`; what is sound is built on."""

    def __init__(self, documents: _Documents, findings: Findings, *, single_issuer: bool) -> None:
        self._documents = documents
        self._findings = findings
        self._single_issuer = single_issuer
        self._masks: dict[tuple[str, ...], int] = {}
        self._roles: dict[str, dict[str, int]] = {}
        self.remote_signing = self._switch()
        self.storages = self._storages()
        self._drafts = self._catalogs()
        self.default_catalog = self._default_catalog()
        self._catalog_roles()
        self.principal_roles = self._principal_roles()
        self.principals = self._principals()
        self.observed = self._observed()
        self._volumes()

    def add_entries(self, file: str, document: PolicyDocument) -> None:
        """Add the namespaces, tables and grants of a policy file."""
        for catalog, names in document.namespaces.items():
            where = path_of("namespaces", catalog)
            draft = self._draft(catalog, file, where)
            if draft is None:
                continue
            for index, name in enumerate(names):
                try:
                    draft.namespace(name)
                except EntryInvalid as invalid:
                    self._findings.add(file, f"{where}[{index}]", invalid.problem)
        for index, table in enumerate(document.tables):
            self._add_table(table, file, f"tables[{index}]")
        for index, grant in enumerate(document.grants):
            self._add_grant(grant, file, f"grants[{index}]")

    def add_line(self, file: str, number: int, line: InventoryLine) -> None:
        """Add a line of an inventory."""
        if isinstance(line, TableLine):
            self._add_table(line, file, f"line {number}")
        else:
            self._add_grant(line, file, f"line {number}")

    def finish(self) -> list[Catalog]:
        """Return the catalogs, once all tables and grants are in."""
        for draft in self._drafts.values():
            for file, path, problem in draft.unresolved():
                self._findings.add(file, path, problem)
        return [draft.finish() for draft in self._drafts.values()]

    def volume_identity(self, entry: VolumeEntry) -> VolumeId:
        """Return the full name of a volume that was added before."""
        return VolumeId(self._drafts[entry.catalog or self.default_catalog].catalog.name, entry.name)

    def identity(self, entry: TableEntry) -> TableId:
        """Return the full name of a table that was added before."""
        catalog = self._drafts[entry.catalog or self.default_catalog].catalog
        return TableId(catalog.name, NAMESPACE_SEPARATOR.join(levels_of(entry.namespace)), entry.name)

    def _switch(self) -> bool:
        given: dict[bool, str] = {}
        for file, document in self._documents:
            for path, value in (
                ("remote_signing", document.remote_signing),
                ("REMOTE_SIGNING_ENABLED", document.remote_signing_alias),
            ):
                if value is not None:
                    if given.get(not value) is not None:
                        self._findings.add(file, path, f"contradicts {given[not value]}")
                    given[value] = f"{path} in {file}"
        return True in given and False not in given

    def _storages(self) -> dict[str, Storage]:
        storages: dict[str, Storage] = {}
        for file, document in self._documents:
            for name, entry in document.storages.items():
                where = path_of("storages", name)
                if name in storages:
                    self._findings.add(file, where, f"storage {name!r} is declared twice")
                    continue
                if not _is_name(name):
                    self._findings.add(file, where, f"{name!r} is no name of a storage")
                problems = list(storage_problems(entry))
                for key, problem in problems:
                    self._findings.add(file, f"{where}.{key}", problem)
                storages[name] = storage_of(name, entry)
        return storages

    def _catalogs(self) -> dict[str, CatalogDraft]:
        drafts: dict[str, CatalogDraft] = {}
        prefixes: dict[str, str] = {}
        for file, document in self._documents:
            for name, entry in document.catalogs.items():
                where = path_of("catalogs", name)
                if name in drafts:
                    self._findings.add(file, where, f"catalog {name!r} is declared twice")
                    continue
                for prefix in dict.fromkeys((name, *entry.prefixes)):
                    if not _is_name(prefix) or "/" in prefix or prefix in RESERVED:
                        self._findings.add(file, where, f"{prefix!r} cannot be the name or a prefix of a catalog")
                    elif prefixes.setdefault(prefix, name) != name:
                        problem = f"prefix {prefix!r} already means catalog {prefixes[prefix]!r}"
                        self._findings.add(file, where, problem)
                try:
                    drafts[name] = self._catalog(name, entry, file)
                except EntryInvalid as invalid:
                    self._findings.add(file, f"{where}.{invalid.key}", invalid.problem)
        return drafts

    def _catalog(self, name: str, entry: CatalogEntry, file: str) -> CatalogDraft:
        storages: dict[str, Storage] = {}
        buckets: dict[str, str] = {}
        for index, storage_name in enumerate(entry.storages):
            storage = self.storages.get(storage_name)
            if storage is None:
                hint = near(storage_name, self.storages)
                raise EntryInvalid(f"storages[{index}]", f"unknown storage {storage_name!r}{hint}")
            storages[storage_name] = storage
            for bucket in storage.buckets:
                # A location names its bucket alone, so the bucket must say which storage is meant.
                if buckets.setdefault(bucket, storage_name) != storage_name:
                    problem = f"bucket {bucket!r} is claimed by storages {buckets[bucket]!r} and {storage_name!r}"
                    raise EntryInvalid(f"storages[{index}]", problem)
        if not storages:
            raise EntryInvalid("storages", "a catalog needs a storage")
        roots = roots_of(entry, storages)
        if entry.tables is TablesFrom.DECLARED and entry.caller_locations:
            path = path_of("catalogs", name, "caller_locations")
            self._findings.add(file, path, "has no effect without `tables: upstream`")
        if entry.tables is TablesFrom.DECLARED and entry.authorizer is not Authorizer.POLICY:
            problem = f"{entry.authorizer.value!r} needs `tables: upstream`"
            self._findings.add(file, path_of("catalogs", name, "authorizer"), problem)
        try:
            catalog = Catalog(
                name,
                storages=storages,
                remote_signing=self._catalog_switch(name, entry, file),
                kind=entry.kind,
                allow_external=entry.allow_external,
                binding=entry.binding,
                overlap=entry.overlap,
                prefixes=tuple(dict.fromkeys((name, *entry.prefixes))),
                learning=_learning(name, entry, roots, caller_locations_of(entry, storages)),
            )
        except EndpointClash as clash:
            raise EntryInvalid("storages", str(clash)) from None
        return CatalogDraft(catalog, entry, roots)

    def _catalog_switch(self, name: str, entry: CatalogEntry, file: str) -> bool:
        given = [value for value in (entry.remote_signing, entry.remote_signing_alias) if value is not None]
        for key, text in entry.properties.items():
            path = path_of("catalogs", name, "properties", key)
            if key != CATALOG_SWITCH:
                self._findings.add(file, path, f"unknown property {key!r}{near(key, (CATALOG_SWITCH,))}")
            elif text in (True, False, "true", "false"):
                given.append(text in (True, "true"))
            else:
                self._findings.add(file, path, f"true or false expected, got {text!r}")
        if len(set(given)) > 1:
            self._findings.add(
                file, path_of("catalogs", name), f"remote_signing and {CATALOG_SWITCH} contradict each other"
            )
        return bool(given) and all(given)

    def _default_catalog(self) -> str:
        given = ""
        for file, document in self._documents:
            name = document.default_catalog
            if name is None:
                continue
            if given and name != given:
                self._findings.add(file, "default_catalog", f"contradicts another file, which says {given!r}")
            if self._draft(name, file, "default_catalog") is not None:
                given = name
        return given or (next(iter(self._drafts)) if len(self._drafts) == 1 else "")

    def _catalog_roles(self) -> None:
        self._roles = {name: {} for name in self._drafts}
        count = 0
        for file, document in self._documents:
            for catalog, names in document.catalog_roles.items():
                where = path_of("catalog_roles", catalog)
                draft = self._draft(catalog, file, where)
                if draft is None:
                    continue
                for name in names:
                    if not _is_name(name):
                        self._findings.add(file, where, f"{name!r} is no name of a role")
                    elif name not in self._roles[catalog]:
                        self._roles[catalog][name] = count
                        draft.catalog.roles[count] = name
                        count += 1

    def _principal_roles(self) -> dict[str, dict[str, frozenset[int]]]:
        stands_for: dict[str, dict[str, frozenset[int]]] = {}
        for file, document in self._documents:
            for principal_role, catalogs in document.principal_roles.items():
                where = path_of("principal_roles", principal_role)
                if not _is_name(principal_role):
                    self._findings.add(file, where, f"{principal_role!r} is no name of a role")
                reached = stands_for.setdefault(principal_role, {})
                for catalog, names in catalogs.items():
                    if self._draft(catalog, file, f"{where}.{catalog}") is None:
                        continue
                    ids = {self._role(catalog, name, file, f"{where}.{catalog}") for name in names}
                    reached[catalog] = reached.get(catalog, frozenset()) | {role for role in ids if role is not None}
        return stands_for

    def _principals(self) -> dict[str, tuple[str, ...]]:
        principals: dict[str, tuple[str, ...]] = {}
        for file, document in self._documents:
            for name, entry in document.principals.items():
                where = path_of("principals", name)
                if not _is_name(name):
                    self._findings.add(file, where, f"{name!r} is no name of a principal")
                elif "/" not in name and not self._single_issuer:
                    self._findings.add(file, where, f"there is not exactly one issuer; write <issuer>/{name}")
                for role in entry.roles:
                    if role not in self.principal_roles:
                        hint = near(role, self.principal_roles)
                        self._findings.add(file, f"{where}.roles", f"unknown principal role {role!r}{hint}")
                principals[name] = tuple(dict.fromkeys(principals.get(name, ()) + entry.roles))
        return principals

    def _observed(self) -> frozenset[str]:
        modes: dict[str, EnforcementMode] = {}
        for file, document in self._documents:
            for name, entry in document.principals.items():
                if entry.mode is not None and modes.setdefault(name, entry.mode) is not entry.mode:
                    problem = f"contradicts another file, which says {modes[name].value!r}"
                    self._findings.add(file, path_of("principals", name, "mode"), problem)
        return frozenset(name for name, mode in modes.items() if mode is EnforcementMode.OBSERVE)

    def _volumes(self) -> None:
        """Enter the volumes: before any grant, which may name one of another file."""
        for file, document in self._documents:
            for index, entry in enumerate(document.volumes):
                path = f"volumes[{index}]"
                draft = self._draft(entry.catalog or self.default_catalog, file, path)
                if draft is not None:
                    try:
                        draft.add_volume(entry)
                    except EntryInvalid as invalid:
                        self._findings.add(file, ".".join(filter(None, (path, invalid.key))), invalid.problem)

    def _add_table(self, entry: TableEntry, file: str, path: str) -> None:
        draft = self._draft(entry.catalog or self.default_catalog, file, path)
        if draft is not None:
            try:
                draft.add_table(entry)
            except EntryInvalid as invalid:
                self._findings.add(file, ".".join(filter(None, (path, invalid.key))), invalid.problem)

    def _add_grant(self, grant: GrantEntry, file: str, path: str) -> None:
        catalog = grant.catalog or self.default_catalog
        draft = self._draft(catalog, file, path)
        if draft is None:
            return
        role = self._role(catalog, grant.role, file, f"{path}.role")
        mask = self._mask(grant.privileges, file, f"{path}.privileges")
        if role is None or not mask:
            return
        try:
            if grant.volume is not None:
                self._grant_on_volume(draft, grant, role, mask, file, path)
            elif grant.namespace is None and grant.table is None:
                draft.grant_on_catalog(role, mask)
            elif grant.namespace is None:
                self._findings.add(file, f"{path}.namespace", "this key is missing; a table lies in a namespace")
            elif grant.table is None:
                draft.grant_on_namespace(grant.namespace, role, mask, file, path)
            else:
                draft.grant_on_table((grant.namespace, grant.table), role, mask, file, path)
        except EntryInvalid as invalid:
            self._findings.add(file, f"{path}.{invalid.key}", invalid.problem)

    def _grant_on_volume(
        self, draft: CatalogDraft, grant: GrantEntry, role: int, mask: int, file: str, path: str
    ) -> None:
        other = mask & ~int(OF_VOLUMES)
        if grant.namespace is not None or grant.table is not None:
            self._findings.add(file, f"{path}.volume", "a volume lies in a catalog; leave namespace and table out")
        elif other:
            problem = f"{', '.join(names_of(other))} cannot be granted on a volume; it has {', '.join(_OF_VOLUMES)}"
            self._findings.add(file, f"{path}.privileges", problem)
        else:
            draft.grant_on_volume(grant.volume or "", role, mask)

    def _mask(self, privileges: tuple[str, ...], file: str, path: str) -> int:
        mask = self._masks.get(privileges)
        if mask is None:
            try:
                mask = mask_of(privileges)
            except PrivilegeUnknown as unknown:
                self._findings.add(file, path, str(unknown))
                return 0
            if not mask:
                self._findings.add(file, path, "a grant needs a privilege")
            self._masks[privileges] = mask
        return mask

    def _role(self, catalog: str, name: str, file: str, path: str) -> int | None:
        roles = self._roles[catalog]
        role = roles.get(name)
        if role is None:
            self._findings.add(file, path, f"catalog {catalog!r} has no role {name!r}{near(name, roles)}")
        return role

    def _draft(self, catalog: str, file: str, path: str) -> CatalogDraft | None:
        draft = self._drafts.get(catalog)
        if draft is None:
            problem = f"unknown catalog {catalog!r}{near(catalog, self._drafts)}"
            self._findings.add(
                file, path, problem if catalog else "this key is missing, and there is no default catalog"
            )
        return draft


def _learning(
    name: str, entry: CatalogEntry, roots: tuple[Location, ...], caller_locations: tuple[Location, ...]
) -> Learning | None:
    if entry.tables is TablesFrom.DECLARED:
        return None
    return Learning(
        authorizer=entry.authorizer,
        roots=roots,
        caller_locations=caller_locations,
        metadata=entry.metadata,
        overwrite=entry.overwrite,
        nowhere=Namespace(name, ""),
        listings={},
        grants={},
        reserved=PlaceTree(),
    )


def _is_name(name: str) -> bool:
    return bool(name) and name.isprintable() and name == name.strip()
