"""Build small policies by hand: one catalog, tables with the grants that a test is about."""

from __future__ import annotations

from collections.abc import Mapping

from signproxy.errors import Reason
from signproxy.model import NAMESPACE_SEPARATOR, Allow, Ceiling, Deny, Principal, Subject, TableId
from signproxy.policy.catalog import Catalog, Overlap, TableBinding
from signproxy.policy.decide import decide
from signproxy.policy.privileges import mask_of
from signproxy.policy.state import PolicyState
from signproxy.policy.table import MetadataLevel, Namespace, Overwrite, Place, Table, TableSettings
from signproxy.s3.operation import Operation
from signproxy.s3.request import ObjectRef, S3Request
from signproxy.s3.storage import Storage, StorageKind, aws_endpoints

SIGN = "TABLE_REMOTE_SIGN"
READ = "TABLE_READ_DATA"
WRITE = "TABLE_WRITE_DATA"
FULL = "TABLE_FULL_METADATA"

PREFIX_LISTS = (
    Operation.LIST_OBJECTS,
    Operation.LIST_OBJECTS_V2,
    Operation.LIST_OBJECT_VERSIONS,
    Operation.LIST_MULTIPART_UPLOADS,
)
# About buckets, or open in volumes alone.
NOT_OF_TABLES = (
    Operation.HEAD_BUCKET,
    Operation.GET_BUCKET_LOCATION,
    Operation.LIST_BUCKETS,
    Operation.OTHER_READ,
    Operation.OTHER_WRITE,
)
OF_TABLES = tuple(operation for operation in Operation if operation not in NOT_OF_TABLES)
KEYED = tuple(operation for operation in OF_TABLES if operation not in {*PREFIX_LISTS, Operation.DELETE_OBJECTS})

ROLE = 7
OTHER_ROLE = 8
ALICE = Principal("corp/alice", "corp", "alice", 4e9)
BOB = Principal("corp/bob", "corp", "bob", 4e9)


def storage(name: str, *buckets: str) -> Storage:
    region = "us-east-1" if name == "aws" else "eu-west-1"
    return Storage(name, StorageKind.AWS, region, buckets, aws_endpoints(region))


AWS = storage("aws", "lake", "cold")
BACKUP = storage("backup", "vault")


def grants(*privileges: str, role: int = ROLE) -> dict[int, int]:
    return {role: mask_of(privileges)} if privileges else {}


class World:
    """A catalog under construction, and a state around it."""

    def __init__(
        self,
        *,
        binding: TableBinding = TableBinding.STRICT,
        overlap: Overlap = Overlap.FORBIDDEN,
        on_catalog: Mapping[int, int] | None = None,
    ) -> None:
        self.catalog = Catalog(
            "lake",
            storages={"aws": AWS, "backup": BACKUP},
            binding=binding,
            overlap=overlap,
            prefixes=("lake",),
            roles={ROLE: "analyst", OTHER_ROLE: "loader"},
            grants=dict(on_catalog or {}),
        )
        self.state = PolicyState(
            rev="r1",
            epoch=1,
            catalogs={"lake": self.catalog},
            remote_signing=True,
            principals={"corp/alice": ("analysts",)},
            principal_roles={"analysts": {"lake": frozenset({ROLE})}, "loaders": {"lake": frozenset({OTHER_ROLE})}},
        )

    def namespace(self, dotted: str = "sales", given: Mapping[int, int] | None = None) -> Namespace:
        """Return a namespace; `given` is granted on it, and its parents' grants reach it."""
        name = dotted.replace(".", NAMESPACE_SEPARATOR)
        above = dotted.rpartition(".")[0]
        parent = None
        if above:
            parent = self.catalog.namespaces.get(above.replace(".", NAMESPACE_SEPARATOR)) or self.namespace(above)
        own = dict(given or {})
        merged = dict(parent.grants) if parent is not None else {}
        for role, mask in own.items():
            merged[role] = merged.get(role, 0) | mask
        made = Namespace("lake", name, parent, own, merged)
        self.catalog.add_namespace(made)
        return made

    def table(
        self,
        name: str = "orders",
        location: str = "wh/orders/",
        given: Mapping[int, int] | None = None,
        *,
        namespace: Namespace | None = None,
        metadata: MetadataLevel = MetadataLevel.PROTECTED,
        overwrite: Overwrite = Overwrite.ALLOWED,
        extra: tuple[Place, ...] = (),
        metadata_place: Place | None = None,
    ) -> Table:
        """Enter a table; `given` is granted on it."""
        inside = namespace if namespace is not None else self.namespace()
        merged = dict(inside.grants)
        for role, mask in (grants(SIGN, WRITE) if given is None else given).items():
            merged[role] = merged.get(role, 0) | mask
        settings = TableSettings("aws", "lake", metadata, overwrite, extra, metadata_place)
        made = Table(TableId("lake", inside.name, name), inside, location, settings, merged)
        self.catalog.add_table(made)
        return made

    def decide(
        self, request: S3Request, *owners: Table, principal: Principal = ALICE, ceiling: Ceiling = Ceiling.NONE
    ) -> Allow | Deny:
        return decide(self.state, self.catalog, Subject(principal, principal, (), ceiling), owners, request)

    def reason(
        self, request: S3Request, *owners: Table, principal: Principal = ALICE, ceiling: Ceiling = Ceiling.NONE
    ) -> Reason:
        """Return the reason of a denial, ALLOWED otherwise."""
        decision = self.decide(request, *owners, principal=principal, ceiling=ceiling)
        return decision.reason if isinstance(decision, Deny) else Reason.ALLOWED


def request(
    operation: Operation = Operation.GET_OBJECT,
    key: str = "",
    *,
    bucket: str = "lake",
    store: Storage = AWS,
    prefix: str = "",
    delete_keys: tuple[str, ...] = (),
    source: str | None = None,
    source_bucket: str = "lake",
    conditional: bool = False,
) -> S3Request:
    return S3Request(
        operation=operation,
        method="GET",
        uri="https://lake.s3.us-east-1.amazonaws.com/",
        storage=store,
        bucket=bucket,
        key=key,
        host="lake.s3.us-east-1.amazonaws.com",
        canonical_path="/",
        canonical_query="",
        headers=(),
        payload="UNSIGNED-PAYLOAD",
        prefix=prefix,
        delete_keys=delete_keys,
        copy_source=None if source is None else ObjectRef(source_bucket, source),
        conditional=conditional,
    )
