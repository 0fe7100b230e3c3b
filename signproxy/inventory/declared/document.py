"""Name what a policy file and an inventory line may hold; unknown keys are faults."""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.policy.catalog import Authorizer, CatalogKind, Delegation, Overlap, TableBinding, TablesFrom
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.s3.rules import KeyRules, OperationsAllowed
from signproxy.s3.storage import OptIns, Stamp, StorageKind, Style

CATALOG_SWITCH = "polaris.config.remote-signing.enabled"
"""Polaris' name of a catalog's `remote_signing`."""

NamespaceName = str | tuple[str, ...]
"""Levels joined by dots, or as a list where a level holds a dot itself."""


class EndpointEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An address of a storage."""

    url: str
    styles: tuple[Style, ...] = (Style.PATH,)


class StorageEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A store, its buckets, and where it answers."""

    kind: StorageKind
    region: str
    buckets: tuple[str, ...]
    endpoints: tuple[EndpointEntry, ...] = ()
    stamp: Stamp = Stamp.QUERY
    checks_unsigned_headers: bool | None = None
    """Left out: true for `aws`, which refuses them, and false for every other store."""
    checks_payload_hash: bool | None = None
    """Left out: true for `aws`, which compares it with the body, and false for every other store."""
    pins_forwarded_headers: bool = False
    literal_keys: bool | None = None
    checks_trailers: bool | None = None
    accepts_chunked_transfer: bool | None = None
    """The three left out: true for `aws`, and false for every other store."""
    bucket_owner: str = ""
    opt_ins: OptIns = OptIns()


class CatalogEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A catalog: its storages, its switches and the defaults of its tables."""

    storages: tuple[str, ...]
    roots: tuple[str, ...] = ()
    """Left out: the buckets of its storages."""
    remote_signing: bool | None = None
    remote_signing_alias: bool | None = msgspec.field(default=None, name=CATALOG_SWITCH)
    properties: dict[str, bool | str] = {}
    """As Polaris has them; only the switch is read."""
    kind: CatalogKind = CatalogKind.INTERNAL
    allow_external: bool = False
    metadata: MetadataLevel = MetadataLevel.PROTECTED
    binding: TableBinding = TableBinding.STRICT
    overlap: Overlap = Overlap.FORBIDDEN
    delegation: tuple[Delegation, ...] = (Delegation.REMOTE_SIGNING,)
    overwrite: Overwrite = Overwrite.ALLOWED
    prefixes: tuple[str, ...] = ()
    tables: TablesFrom = TablesFrom.DECLARED
    """`upstream`: an upstream catalog tells of the tables; those that are declared beside win."""
    authorizer: Authorizer = Authorizer.POLICY
    caller_locations: tuple[str, ...] = ()
    """With `tables: upstream`: places below which callers may choose locations themselves."""


class TableEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A table and where its objects lie; or, in a catalog with `tables: upstream`, what is added to what it says."""

    name: str
    namespace: NamespaceName
    location: str | None = None
    """Left out only where the upstream tells it."""
    catalog: str = ""
    """Left out: the default catalog."""
    uuid: str = ""
    properties: dict[str, str | bool | int | float | None] = {}
    """The table's Iceberg properties; only those that name a location are read."""
    locations: tuple[str, ...] = ()
    """Further locations, for example former ones."""
    metadata: MetadataLevel | None = None
    overwrite: Overwrite | None = None


class VolumeEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A place for data that is no table."""

    name: str
    storage: str
    bucket: str
    """One that the storage lists, or what the names of unlisted buckets begin with, and a star."""
    prefix: str = ""
    """Left out: whole buckets."""
    catalog: str = ""
    """Left out: the default catalog."""
    operations: OperationsAllowed = OperationsAllowed.OBJECT
    keys: KeyRules = KeyRules.STRICT
    overwrite: Overwrite | None = None


class GrantEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a catalog role may do on a catalog, a namespace, a table or a volume, and below it."""

    role: str
    privileges: tuple[str, ...]
    catalog: str = ""
    """Left out: the default catalog."""
    namespace: NamespaceName | None = None
    table: str | None = None
    volume: str | None = None


class EnforcementMode(Enum):
    """What happens to what the policy refuses to a principal, on the way that can serve it all the same."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class PrincipalEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A principal, by `issuer/claim`, or by the claim alone where there is one issuer."""

    roles: tuple[str, ...] = ()
    """Its principal roles, besides those that its token brings."""
    mode: EnforcementMode | None = None
    """Left out: `enforce`."""


class PolicyDocument(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One policy file; several in a directory are merged."""

    remote_signing: bool | None = None
    remote_signing_alias: bool | None = msgspec.field(default=None, name="REMOTE_SIGNING_ENABLED")
    default_catalog: str | None = None
    storages: dict[str, StorageEntry] = {}
    catalogs: dict[str, CatalogEntry] = {}
    catalog_roles: dict[str, tuple[str, ...]] = {}
    """Catalog -> the roles that can be granted something there."""
    principal_roles: dict[str, dict[str, tuple[str, ...]]] = {}
    """Principal role -> catalog -> the catalog roles that it stands for."""
    delegation: dict[str, dict[str, tuple[Delegation, ...]]] = {}
    """Principal role -> catalog -> what its holders are offered, in place of the catalog's own `delegation`."""
    principals: dict[str, PrincipalEntry] = {}
    namespaces: dict[str, tuple[NamespaceName, ...]] = {}
    """Catalog -> namespaces, where they are not known by their tables."""
    tables: tuple[TableEntry, ...] = ()
    volumes: tuple[VolumeEntry, ...] = ()
    grants: tuple[GrantEntry, ...] = ()
    inventories: tuple[str, ...] = ()
    """NDJSON files in the same directory."""


class TableLine(TableEntry, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="kind", tag="table"):
    """A table, as a line of an inventory."""


class GrantLine(GrantEntry, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="kind", tag="grant"):
    """A grant, as a line of an inventory."""


InventoryLine = TableLine | GrantLine
