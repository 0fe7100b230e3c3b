"""Put together what the files of a policy declare: who has which roles, and what is granted on which tables."""

from __future__ import annotations

from signproxy.documents import path_of
from signproxy.inventory.declared.catalog_draft import CatalogDraft, levels_of
from signproxy.inventory.declared.catalogs import CatalogDrafts, Documents, entries
from signproxy.inventory.declared.document import (
    EnforcementMode,
    GrantEntry,
    InventoryLine,
    PolicyDocument,
    TableEntry,
    TableLine,
    VolumeEntry,
)
from signproxy.inventory.declared.findings import EntryInvalid, Findings, near
from signproxy.model import NAMESPACE_SEPARATOR, TableId, VolumeId
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.privileges import OF_VOLUMES, PrivilegeUnknown, mask_of, names_of
from signproxy.s3.storage import Storage

_OF_VOLUMES = [str(privilege.name) for privilege in OF_VOLUMES]


class PolicyDraft:
    """A policy under construction. Everything that is wrong goes to `findings`; what is sound is built on."""

    def __init__(self, documents: Documents, findings: Findings, *, single_issuer: bool) -> None:
        self._documents = documents
        self._findings = findings
        self._single_issuer = single_issuer
        self._masks: dict[tuple[str, ...], int] = {}
        self.remote_signing = self._switch()
        self._catalogs = CatalogDrafts(documents, findings)
        self.default_catalog = self._catalogs.default
        self.principal_roles = self._principal_roles()
        self.delegations = self._delegations()
        self.principals = self._principals()
        self.observed = self._observed()
        self._volumes()

    @property
    def storages(self) -> dict[str, Storage]:
        """Every storage, by its name."""
        return self._catalogs.storages

    def add_entries(self, file: str, document: PolicyDocument) -> None:
        """Add the namespaces, tables and grants of a policy file."""
        for catalog, names in document.namespaces.items():
            where = path_of("namespaces", catalog)
            draft = self._catalogs.find(catalog, file, where)
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
        drafts = self._catalogs.drafts.values()
        for draft in drafts:
            for file, path, problem in draft.unresolved():
                self._findings.add(file, path, problem)
        return [draft.finish() for draft in drafts]

    def volume_identity(self, entry: VolumeEntry) -> VolumeId:
        """Return the full name of a volume that was added before."""
        return VolumeId(entry.catalog or self.default_catalog, entry.name)

    def identity(self, entry: TableEntry) -> TableId:
        """Return the full name of a table that was added before."""
        namespace = NAMESPACE_SEPARATOR.join(levels_of(entry.namespace))
        return TableId(entry.catalog or self.default_catalog, namespace, entry.name)

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

    def _principal_roles(self) -> dict[str, dict[str, frozenset[int]]]:
        stands_for: dict[str, dict[str, frozenset[int]]] = {}
        declared = entries(self._documents, "principal_roles", lambda document: document.principal_roles)
        for file, where, principal_role, catalogs in declared:
            self._catalogs.check_name(principal_role, "a role", file, where)
            reached = stands_for.setdefault(principal_role, {})
            for catalog, names in catalogs.items():
                path = f"{where}.{catalog}"
                if self._catalogs.find(catalog, file, path) is None:
                    continue
                ids = {self._catalogs.role(catalog, name, file, path) for name in names}
                reached[catalog] = reached.get(catalog, frozenset()) | {role for role in ids if role is not None}
        return stands_for

    def _delegations(self) -> dict[str, dict[str, tuple[Delegation, ...]]]:
        said: dict[str, dict[str, tuple[Delegation, ...]]] = {}
        declared = entries(self._documents, "delegation", lambda document: document.delegation)
        for file, where, principal_role, catalogs in declared:
            if principal_role not in self.principal_roles:
                hint = near(principal_role, self.principal_roles)
                self._findings.add(file, where, f"unknown principal role {principal_role!r}{hint}")
            held = said.setdefault(principal_role, {})
            for catalog, modes in catalogs.items():
                path = f"{where}.{catalog}"
                if self._catalogs.find(catalog, file, path) is not None and held.setdefault(catalog, modes) != modes:
                    self._findings.add(file, path, "contradicts another file")
        return said

    def _principals(self) -> dict[str, tuple[str, ...]]:
        principals: dict[str, tuple[str, ...]] = {}
        for file, where, name, entry in entries(self._documents, "principals", lambda document: document.principals):
            if self._catalogs.check_name(name, "a principal", file, where) and not ("/" in name or self._single_issuer):
                self._findings.add(file, where, f"there is not exactly one issuer; write <issuer>/{name}")
            for role in entry.roles:
                if role not in self.principal_roles:
                    hint = near(role, self.principal_roles)
                    self._findings.add(file, f"{where}.roles", f"unknown principal role {role!r}{hint}")
            principals[name] = tuple(dict.fromkeys(principals.get(name, ()) + entry.roles))
        return principals

    def _observed(self) -> frozenset[str]:
        modes: dict[str, EnforcementMode] = {}
        for file, where, name, entry in entries(self._documents, "principals", lambda document: document.principals):
            if entry.mode is not None and modes.setdefault(name, entry.mode) is not entry.mode:
                problem = f"contradicts another file, which says {modes[name].value!r}"
                self._findings.add(file, f"{where}.mode", problem)
        return frozenset(name for name, mode in modes.items() if mode is EnforcementMode.OBSERVE)

    def _volumes(self) -> None:
        """Enter the volumes: before any grant, which may name one of another file."""
        for file, document in self._documents:
            for index, entry in enumerate(document.volumes):
                path = f"volumes[{index}]"
                draft = self._catalogs.find(entry.catalog or self.default_catalog, file, path)
                if draft is not None:
                    with self._findings.of(file, path):
                        draft.add_volume(entry)

    def _add_table(self, entry: TableEntry, file: str, path: str) -> None:
        draft = self._catalogs.find(entry.catalog or self.default_catalog, file, path)
        if draft is not None:
            with self._findings.of(file, path):
                draft.add_table(entry)

    def _add_grant(self, grant: GrantEntry, file: str, path: str) -> None:
        catalog = grant.catalog or self.default_catalog
        draft = self._catalogs.find(catalog, file, path)
        if draft is None:
            return
        role = self._catalogs.role(catalog, grant.role, file, f"{path}.role")
        mask = self._mask(grant.privileges, file, f"{path}.privileges")
        if role is None or not mask:
            return
        with self._findings.of(file, path):
            if grant.volume is not None:
                _grant_on_volume(draft, grant, role, mask)
            elif grant.namespace is None and grant.table is None:
                draft.grant_on_catalog(role, mask)
            elif grant.namespace is None:
                raise EntryInvalid("namespace", "this key is missing; a table lies in a namespace")
            elif grant.table is None:
                draft.grant_on_namespace(grant.namespace, role, mask, file, path)
            else:
                draft.grant_on_table((grant.namespace, grant.table), role, mask, file, path)

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


def _grant_on_volume(draft: CatalogDraft, grant: GrantEntry, role: int, mask: int) -> None:
    other = mask & ~int(OF_VOLUMES)
    if grant.namespace is not None or grant.table is not None:
        raise EntryInvalid("volume", "a volume lies in a catalog; leave namespace and table out")
    if other:
        problem = f"{', '.join(names_of(other))} cannot be granted on a volume; it has {', '.join(_OF_VOLUMES)}"
        raise EntryInvalid("privileges", problem)
    draft.grant_on_volume(grant.volume or "", role, mask)
