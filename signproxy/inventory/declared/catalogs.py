"""Put together the storages and catalogs that the files of a policy declare, each catalog with its roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from signproxy.documents import path_of
from signproxy.inventory.declared.catalog_draft import CatalogDraft, caller_locations_of, roots_of
from signproxy.inventory.declared.document import CATALOG_SWITCH, CatalogEntry, PolicyDocument, StorageEntry
from signproxy.inventory.declared.findings import EntryInvalid, Findings, near
from signproxy.policy.catalog import Authorizer, Catalog, Learning, TablesFrom
from signproxy.policy.location import Location, bucket_problem
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import Namespace
from signproxy.s3.storage import EndpointClash, S3Endpoint, Storage, StorageKind, aws_endpoints

# An origin and nothing else: a path, a query or user information would be ignored by some and not by others.
_ORIGIN = re.compile(
    r"(https?)://((?:[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?"
    r"(?::[1-9][0-9]{0,4})?)/?"
)
_REGION = re.compile(r"[a-z0-9][a-z0-9\-]{0,62}")
_ACCOUNT = re.compile(r"[0-9A-Za-z\-]{0,64}")

MAX_PORT = 65_535


def storage_of(name: str, entry: StorageEntry) -> Storage:
    """Return the storage that an entry declares; only meaningful where `storage_problems` yields nothing."""
    aws = entry.kind is StorageKind.AWS
    listed = tuple(
        S3Endpoint(match[1], match[2], endpoint.styles)
        for endpoint in entry.endpoints
        if (match := _ORIGIN.fullmatch(endpoint.url)) is not None
    )
    checks = aws if entry.checks_unsigned_headers is None else entry.checks_unsigned_headers
    return Storage(
        name=name,
        kind=entry.kind,
        region=entry.region,
        buckets=entry.buckets,
        # Endpoints beside AWS' own are those of a private link.
        endpoints=(aws_endpoints(entry.region) if aws else ()) + listed,
        stamp=entry.stamp,
        checks_unsigned_headers=checks,
        checks_payload_hash=aws if entry.checks_payload_hash is None else entry.checks_payload_hash,
        pins_forwarded_headers=entry.pins_forwarded_headers,
        literal_keys=aws if entry.literal_keys is None else entry.literal_keys,
        checks_trailers=aws if entry.checks_trailers is None else entry.checks_trailers,
        accepts_chunked_transfer=aws if entry.accepts_chunked_transfer is None else entry.accepts_chunked_transfer,
        opt_ins=entry.opt_ins,
        bucket_owner=entry.bucket_owner,
    )


def storage_problems(entry: StorageEntry) -> Iterator[tuple[str, str]]:
    """Yield key and problem of everything that is wrong with an entry."""
    if not _REGION.fullmatch(entry.region):
        yield "region", f"{entry.region!r} is no region"
    if not _ACCOUNT.fullmatch(entry.bucket_owner):
        yield "bucket_owner", f"{entry.bucket_owner!r} is no account id"
    if not entry.buckets:
        yield "buckets", "a storage needs a bucket"
    for index, bucket in enumerate(entry.buckets):
        problem = bucket_problem(bucket)
        if problem:
            yield f"buckets[{index}]", problem
        elif bucket in entry.buckets[:index]:
            yield f"buckets[{index}]", f"bucket {bucket!r} is listed twice"
    if entry.kind is StorageKind.S3_COMPATIBLE and not entry.endpoints:
        yield "endpoints", "an s3-compatible storage needs an endpoint"
    for index, endpoint in enumerate(entry.endpoints):
        match = _ORIGIN.fullmatch(endpoint.url)
        if match is None or int(match[2].rpartition(":")[2] if ":" in match[2] else "0") > MAX_PORT:
            problem = f"{endpoint.url!r} is not scheme://host[:port] in lower case, without path or user"
            yield f"endpoints[{index}].url", problem
        if not endpoint.styles:
            yield f"endpoints[{index}].styles", "an endpoint speaks path, virtual-host or both"


RESERVED = frozenset({"api", "catalogs"})
"""Names that begin other routes."""

Documents = list[tuple[str, PolicyDocument]]
"""The policy files, each with its name."""

E = TypeVar("E")


class CatalogDrafts:
    """The catalogs of a policy under construction. What is wrong goes to `findings`; what is sound is built on."""

    def __init__(self, documents: Documents, findings: Findings) -> None:
        self._documents = documents
        self._findings = findings
        self.storages = self._storages()
        self.drafts = self._catalogs()
        self.default = self._default()
        self._roles = self._catalog_roles()

    def find(self, catalog: str, file: str, path: str) -> CatalogDraft | None:
        """Return a catalog that an entry names."""
        draft = self.drafts.get(catalog)
        if draft is None:
            problem = f"unknown catalog {catalog!r}{near(catalog, self.drafts)}"
            self._findings.add(
                file, path, problem if catalog else "this key is missing, and there is no default catalog"
            )
        return draft

    def role(self, catalog: str, name: str, file: str, path: str) -> int | None:
        """Return the id of a role that an entry names; its catalog was found."""
        roles = self._roles[catalog]
        role = roles.get(name)
        if role is None:
            self._findings.add(file, path, f"catalog {catalog!r} has no role {name!r}{near(name, roles)}")
        return role

    def _storages(self) -> dict[str, Storage]:
        storages: dict[str, Storage] = {}
        for file, where, name, entry in entries(self._documents, "storages", lambda document: document.storages):
            if name in storages:
                self._findings.add(file, where, f"storage {name!r} is declared twice")
                continue
            self.check_name(name, "a storage", file, where)
            for key, problem in storage_problems(entry):
                self._findings.add(file, f"{where}.{key}", problem)
            storages[name] = storage_of(name, entry)
        return storages

    def check_name(self, name: str, what: str, file: str, path: str) -> bool:
        """Return whether something can be called so."""
        if is_name(name):
            return True
        self._findings.add(file, path, f"{name!r} is no name of {what}")
        return False

    def _catalogs(self) -> dict[str, CatalogDraft]:
        drafts: dict[str, CatalogDraft] = {}
        prefixes: dict[str, str] = {}
        for file, where, name, entry in entries(self._documents, "catalogs", lambda document: document.catalogs):
            if name in drafts:
                self._findings.add(file, where, f"catalog {name!r} is declared twice")
                continue
            for prefix in dict.fromkeys((name, *entry.prefixes)):
                if not is_name(prefix) or "/" in prefix or prefix in RESERVED:
                    self._findings.add(file, where, f"{prefix!r} cannot be the name or a prefix of a catalog")
                elif prefixes.setdefault(prefix, name) != name:
                    problem = f"prefix {prefix!r} already means catalog {prefixes[prefix]!r}"
                    self._findings.add(file, where, problem)
            with self._findings.of(file, where):
                drafts[name] = self._catalog(name, entry, file)
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
        if entry.tables is TablesFrom.DECLARED:
            if entry.caller_locations:
                path = path_of("catalogs", name, "caller_locations")
                self._findings.add(file, path, "has no effect without `tables: upstream`")
            if entry.authorizer is not Authorizer.POLICY:
                problem = f"{entry.authorizer.value!r} needs `tables: upstream`"
                self._findings.add(file, path_of("catalogs", name, "authorizer"), problem)
        try:
            catalog = Catalog(
                name,
                storages=storages,
                remote_signing=self._switch(name, entry, file),
                kind=entry.kind,
                allow_external=entry.allow_external,
                binding=entry.binding,
                overlap=entry.overlap,
                delegation=entry.delegation,
                prefixes=tuple(dict.fromkeys((name, *entry.prefixes))),
                learning=_learning(name, entry, roots, caller_locations_of(entry, storages)),
            )
        except EndpointClash as clash:
            raise EntryInvalid("storages", str(clash)) from None
        return CatalogDraft(catalog, entry, roots)

    def _switch(self, name: str, entry: CatalogEntry, file: str) -> bool:
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
            problem = f"remote_signing and {CATALOG_SWITCH} contradict each other"
            self._findings.add(file, path_of("catalogs", name), problem)
        return bool(given) and all(given)

    def _default(self) -> str:
        given = ""
        for file, document in self._documents:
            name = document.default_catalog
            if name is None:
                continue
            if given and name != given:
                self._findings.add(file, "default_catalog", f"contradicts another file, which says {given!r}")
            if self.find(name, file, "default_catalog") is not None:
                given = name
        return given or (next(iter(self.drafts)) if len(self.drafts) == 1 else "")

    def _catalog_roles(self) -> dict[str, dict[str, int]]:
        roles: dict[str, dict[str, int]] = {name: {} for name in self.drafts}
        count = 0
        declared = entries(self._documents, "catalog_roles", lambda document: document.catalog_roles)
        for file, where, catalog, names in declared:
            draft = self.find(catalog, file, where)
            if draft is None:
                continue
            for name in names:
                if self.check_name(name, "a role", file, where) and name not in roles[catalog]:
                    roles[catalog][name] = count
                    draft.catalog.roles[count] = name
                    count += 1
        return roles


def entries(
    documents: Documents, section: str, of: Callable[[PolicyDocument], Mapping[str, E]]
) -> Iterator[tuple[str, str, str, E]]:
    """Yield file, path, name and content of each entry of a section."""
    for file, document in documents:
        for name, entry in of(document).items():
            yield file, path_of(section, name), name, entry


def is_name(name: str) -> bool:
    """Whether something can be called so."""
    return bool(name) and name.isprintable() and name == name.strip()


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
