"""Prove that the metadata of a table stays the catalog's, at each of the three levels."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.policy.catalog import Overlap
from signproxy.policy.table import MetadataLevel, Place
from signproxy.s3.operation import Access, Operation
from tests.policy.world import FULL, KEYED, OF_TABLES, PREFIX_LISTS, SIGN, WRITE, World, grants, request

PROTECTED = (
    "wh/orders/metadata/00001-ab.metadata.json",
    "wh/orders/metadata/00001-ab.gz.metadata.json",
    "wh/orders/metadata/00001-ab.metadata.json.gz",
    "wh/orders/metadata/.metadata.json",
    "wh/orders/metadata/version-hint.text",
    "wh/orders/version-hint.text",
    "wh/orders/data/x.metadata.json",  # wherever it lies: a table may be registered from there
    # Servlet containers cut path parameters, Windows file systems dots and blanks at the end.
    "wh/orders/metadata/v1.metadata.json;x",
    "wh/orders/metadata/v1.metadata.json;",
    "wh/orders/metadata/v1.metadata.json.",
    "wh/orders/metadata/v1.metadata.json ",
    "wh/orders/metadata;a=b/v1.metadata.json. .",
    "wh/orders/metadata/version-hint.text;jsessionid=1",
)
PLAIN = (
    "wh/orders/data/f.parquet",
    "wh/orders/metadata/snap-1.avro",
    "wh/orders/metadata/m0.avro",
    "wh/orders/metadata/stats.puffin",
    "wh/orders/metadata/x.metadata.json.bz2",
    "wh/orders/metadata/metadata.json",  # no dot before: Iceberg never names a file so
    "wh/orders/metadata/my-version-hint.text",
    "wh/orders/metadata/version-hint.text2",
    "wh/orders/data/a;b/c. d/e .parquet",
    "wh/orders/data/x;.metadata.jsonx",
)


@pytest.mark.parametrize("key", PROTECTED)
@pytest.mark.parametrize("operation", KEYED)
def test_protected_files_need_full_metadata(operation: Operation, key: str) -> None:
    """Writing a metadata file repoints the table; reading it tells other places."""
    world = World()
    assert world.reason(request(operation, key), world.table()) is Reason.METADATA_PROTECTED
    world = World()
    maintained = world.table(given=grants(SIGN, WRITE, FULL))
    assert world.reason(request(operation, key), maintained) is Reason.ALLOWED


@pytest.mark.parametrize("key", PLAIN)
@pytest.mark.parametrize("operation", KEYED)
def test_other_files_follow_the_data_privileges(operation: Operation, key: str) -> None:
    """Iceberg clients read and write manifests themselves; a guard over them breaks every commit."""
    world = World()
    assert world.reason(request(operation, key), world.table()) is Reason.ALLOWED


@pytest.mark.parametrize("level", ("catalog", "namespace", "table"))
def test_full_metadata_may_be_granted_on_any_level(level: str) -> None:
    """The right to metadata cascades like any other, even where the rest was found further up."""
    full = grants(FULL)
    everything = grants(SIGN, WRITE)
    world = World(on_catalog={7: everything[7] | (full[7] if level == "catalog" else 0)})
    namespace = world.namespace("sales", full if level == "namespace" else {})
    table = world.table(given=full if level == "table" else {}, namespace=namespace)
    assert world.reason(request(key=PROTECTED[0]), table) is Reason.ALLOWED


@pytest.mark.parametrize("position", (0, 1, 2))
def test_one_protected_file_among_many_is_found(position: int) -> None:
    """A bulk delete must not hide a metadata file between data files."""
    world = World()
    table = world.table()
    keys = ["wh/orders/data/1", "wh/orders/data/2"]
    keys.insert(position, PROTECTED[0])
    deletion = request(Operation.DELETE_OBJECTS, delete_keys=tuple(keys))
    assert world.reason(deletion, table) is Reason.METADATA_PROTECTED


@pytest.mark.parametrize(
    ("key", "ancestor"),
    (
        ("wh/orders/metadata", True),
        ("wh/orders/meta", False),
        ("wh/orders/metadata2", False),
        ("wh/orders/data", False),
        ("wh/orders/metadata/x", False),
        ("wh/orders/a", True),  # of write.metadata.path
        ("wh/orders/a/meta", True),
        ("wh/orders/a/meta/x", False),
        ("wh/orders/a/m", False),
    ),
)
@pytest.mark.parametrize("level", (MetadataLevel.PROTECTED, MetadataLevel.SEALED))
def test_an_ancestor_of_metadata_is_not_deleted(level: MetadataLevel, key: str, ancestor: bool) -> None:
    """MinIO deletes a whole folder if the client adds one unsigned header to the signed DELETE."""
    metadata_place = Place("aws", "lake", "wh/orders/a/meta/")
    world = World()
    table = world.table(metadata=level, extra=(metadata_place,), metadata_place=metadata_place)
    closed = Reason.METADATA_PROTECTED if level is MetadataLevel.PROTECTED else Reason.METADATA_SEALED
    below = level is MetadataLevel.SEALED and key.endswith("/x")
    expected = closed if ancestor or below else Reason.ALLOWED
    for operation in OF_TABLES:
        if operation.access is Access.DELETE and operation is not Operation.DELETE_OBJECTS:
            assert world.reason(request(operation, key), table) is expected
    assert world.reason(request(Operation.DELETE_OBJECTS, delete_keys=(key,)), table) is expected
    if not below:
        # Only deleting reaches what lies below.
        assert world.reason(request(Operation.PUT_OBJECT, key), table) is Reason.ALLOWED


def test_an_ancestor_may_be_deleted_with_full_metadata() -> None:
    """Purging a dropped table deletes its folders."""
    world = World()
    table = world.table(given=grants(SIGN, WRITE, FULL))
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/orders/metadata"), table) is Reason.ALLOWED


def test_the_root_of_the_table_inside_its_data_path_is_an_ancestor() -> None:
    """With `write.data.path` above the location, the location's own folder is a key of the table."""
    world = World()
    table = world.table(location="wh/all/orders/", extra=(Place("aws", "lake", "wh/all/"),))
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/all/orders"), table) is Reason.METADATA_PROTECTED
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/all/other"), table) is Reason.ALLOWED


@pytest.mark.parametrize(
    ("bucket", "key", "expected"),
    (
        ("lake", "wh/orders/metadata/m0.avro", Reason.METADATA_SEALED),
        ("lake", "wh/orders/metadata/deep/m0.avro", Reason.METADATA_SEALED),
        ("lake", "wh/orders/metadata2/m0.avro", Reason.ALLOWED),
        ("lake", "wh/orders/Metadata/m0.avro", Reason.ALLOWED),
        ("lake", "wh/orders/data/metadata/m0.avro", Reason.ALLOWED),
        ("lake", "wh/orders/data/f.parquet", Reason.ALLOWED),
        ("cold", "meta/orders/m0.avro", Reason.METADATA_SEALED),  # write.metadata.path
        ("cold", "old/f", Reason.ALLOWED),
        ("cold", "old/metadata/m0.avro", Reason.METADATA_SEALED),  # of a former location
        ("lake", "wh/orders/data/x.metadata.json", Reason.METADATA_PROTECTED),
    ),
)
@pytest.mark.parametrize("operation", KEYED)
def test_sealed_closes_everything_below_the_metadata_path(
    operation: Operation, bucket: str, key: str, expected: Reason
) -> None:
    """A seal that leaves a manifest open leaves the list of all data files open."""
    metadata_place = Place("aws", "cold", "meta/orders/")
    extra = (metadata_place, Place("aws", "cold", "old/"))
    world = World()
    table = world.table(metadata=MetadataLevel.SEALED, extra=extra, metadata_place=metadata_place)
    assert world.reason(request(operation, key, bucket=bucket), table) is expected


def test_sealed_holds_against_full_metadata() -> None:
    """A seal is stronger than any grant; protected names elsewhere are not sealed."""
    world = World()
    table = world.table(given=grants("CATALOG_MANAGE_CONTENT"), metadata=MetadataLevel.SEALED)
    for operation in (Operation.GET_OBJECT, Operation.PUT_OBJECT, Operation.DELETE_OBJECT):
        sealed = request(operation, "wh/orders/metadata/m0.avro")
        assert world.reason(sealed, table) is Reason.METADATA_SEALED
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/orders/metadata"), table) is Reason.METADATA_SEALED
    assert world.reason(request(key="wh/orders/data/x.metadata.json"), table) is Reason.ALLOWED


@pytest.mark.parametrize("operation", PREFIX_LISTS)
@pytest.mark.parametrize(
    ("prefix", "closed"),
    (
        ("wh/orders/", True),  # shows everything, metadata included
        ("wh/orders/meta", True),
        ("wh/orders/metadata", True),
        ("wh/orders/metadata/", True),
        ("wh/orders/metadata/snap", True),
        ("wh/orders/metadata2", False),
        ("wh/orders/metadata2/", False),
        ("wh/orders/data", False),
        ("wh/orders/data/", False),
    ),
)
def test_a_sealed_list_does_not_reach_the_metadata(operation: Operation, prefix: str, closed: bool) -> None:
    """The names of metadata files tell the history of a table."""
    world = World()
    table = world.table(metadata=MetadataLevel.SEALED)
    expected = Reason.METADATA_SEALED if closed else Reason.ALLOWED
    assert world.reason(request(operation, prefix=prefix), table) is expected


def test_a_seal_in_another_bucket_does_not_close_this_one() -> None:
    """Each location is closed where it lies."""
    world = World()
    table = world.table(extra=(Place("aws", "cold", "x/"),), metadata=MetadataLevel.SEALED)
    assert world.reason(request(Operation.LIST_OBJECTS_V2, bucket="cold", prefix="x/"), table) is Reason.METADATA_SEALED
    assert world.reason(request(key="x/metadata/f", bucket="cold"), table) is Reason.METADATA_SEALED
    other = world.table(
        "t2", "wh/t2/", extra=(Place("aws", "cold", "wh/t2/metadata/sub/"),), metadata=MetadataLevel.SEALED
    )
    assert world.reason(request(key="wh/t2/metadata/sub/f", bucket="cold"), other) is Reason.ALLOWED
    deletion = request(Operation.DELETE_OBJECT, "wh/t2/metadata/sub/metadata", bucket="cold")
    assert world.reason(deletion, other) is Reason.METADATA_SEALED


@pytest.mark.parametrize("level", (MetadataLevel.PROTECTED, MetadataLevel.OPEN))
@pytest.mark.parametrize("prefix", ("wh/orders/", "wh/orders/metadata/", "wh/orders/metadata/v1.metadata.json"))
def test_metadata_may_be_listed_unless_it_is_sealed(level: MetadataLevel, prefix: str) -> None:
    """Removing orphan files lists the whole table."""
    world = World()
    table = world.table(metadata=level)
    assert world.reason(request(Operation.LIST_OBJECTS_V2, prefix=prefix), table) is Reason.ALLOWED


@pytest.mark.parametrize("key", (*PROTECTED, *PLAIN, "wh/orders/metadata"))
@pytest.mark.parametrize("operation", KEYED)
def test_open_lifts_the_guard(operation: Operation, key: str) -> None:
    """Hadoop tables have no catalog that could write their metadata."""
    world = World()
    table = world.table(metadata=MetadataLevel.OPEN)
    assert world.reason(request(operation, key), table) is Reason.ALLOWED


def test_the_strictest_owner_decides() -> None:
    """Where a location is shared, the other table's level must not lift the guard."""
    world = World(overlap=Overlap.ALLOWED)
    loose = world.table(metadata=MetadataLevel.OPEN)
    strict = world.table("strict", "wh/orders/")
    for owners in ((loose, strict), (strict, loose)):
        assert world.reason(request(key=PROTECTED[0]), *owners) is Reason.METADATA_PROTECTED


def test_the_detail_names_the_key() -> None:
    """An operator must see which key of many was refused, and why."""
    world = World()
    decision = world.decide(request(key=PROTECTED[0]), world.table())
    assert getattr(decision, "detail", "") == f"key {PROTECTED[0]!r} without TABLE_FULL_METADATA"
    sealed = World()
    table = sealed.table(metadata=MetadataLevel.SEALED)
    decision = sealed.decide(request(key="wh/orders/metadata/f"), table)
    assert getattr(decision, "detail", "") == "key 'wh/orders/metadata/f'"
    decision = sealed.decide(request(Operation.LIST_OBJECTS_V2, prefix="wh/orders/"), table)
    assert getattr(decision, "detail", "") == "prefix 'wh/orders/'"
    assert getattr(decision, "table", None) == table.id


def test_metadata_in_another_bucket_has_no_ancestor_here() -> None:
    """A folder may be deleted although a folder of the same name holds metadata elsewhere."""
    world = World()
    table = world.table(extra=(Place("aws", "cold", "wh/"),))
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/orders", bucket="cold"), table) is Reason.ALLOWED
    assert world.reason(request(Operation.DELETE_OBJECT, "wh/metadata", bucket="cold"), table) is (
        Reason.METADATA_PROTECTED
    )


@pytest.mark.parametrize(
    "key", ("wh/orders/metadata;x/snap.avro", "wh/orders/metadata /snap.avro", "wh/orders/metadata./s")
)
def test_a_seal_holds_for_stores_that_read_leniently(key: str) -> None:
    """The file that such a store serves lies below the sealed path."""
    world = World()
    table = world.table(metadata=MetadataLevel.SEALED)
    assert world.reason(request(Operation.GET_OBJECT, key), table) is Reason.METADATA_SEALED


def test_a_seal_holds_for_a_location_that_lenient_stores_read_otherwise() -> None:
    """Reading leniently must only ever close more."""
    world = World()
    table = world.table(location="wh/or;ders./", metadata=MetadataLevel.SEALED)
    assert world.reason(request(Operation.GET_OBJECT, "wh/or;ders./metadata/m.avro"), table) is Reason.METADATA_SEALED
