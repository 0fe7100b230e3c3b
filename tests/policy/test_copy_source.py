"""Prove that a copy reads only what its caller may read."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.model import Allow, Deny
from signproxy.policy.catalog import Overlap, TableBinding
from signproxy.policy.table import MetadataLevel, Place
from signproxy.s3.operation import Operation
from tests.policy.world import FULL, OTHER_ROLE, READ, SIGN, WRITE, World, grants, request

KEY = "wh/orders/data/f"
COPIES = (Operation.COPY_OBJECT, Operation.UPLOAD_PART_COPY)


@pytest.mark.parametrize("operation", COPIES)
@pytest.mark.parametrize(
    ("source", "bucket", "allowed"),
    (
        ("wh/orders/data/g", "lake", True),
        ("data/orders/g", "cold", True),  # another location of the table
        ("wh/orders", "lake", False),
        ("wh/orders/", "lake", False),
        ("wh/orders2/g", "lake", False),
        ("wh/readable/g", "lake", False),  # may be read, but is another table
        ("wh/orders/data/g", "cold", False),
        ("old/g", "vault", False),  # the table's, on another storage: no server-side copy goes there
        ("nowhere", "lake", False),
        ("f", "foreign", False),
    ),
)
def test_a_strict_copy_stays_in_the_table(operation: Operation, source: str, bucket: str, allowed: bool) -> None:
    """An unchecked copy source turns write access to one table into read access to everything."""
    world = World()
    extra = (Place("aws", "cold", "data/orders/"), Place("backup", "vault", "old/"))
    table = world.table(extra=extra)
    world.table("readable", "wh/readable/")
    expected = Reason.ALLOWED if allowed else Reason.COPY_SOURCE_OUTSIDE
    assert world.reason(request(operation, KEY, source=source, source_bucket=bucket), table) is expected


@pytest.mark.parametrize("operation", COPIES)
@pytest.mark.parametrize(
    ("given", "allowed"),
    (((SIGN, READ), True), ((SIGN, WRITE), True), ((SIGN,), False), ((READ,), False), ((WRITE,), False), ((), False)),
)
def test_by_location_the_source_table_must_be_readable(
    operation: Operation, given: tuple[str, ...], allowed: bool
) -> None:
    """A copy is a read of its source, and needs all that a read through signing needs."""
    world = World(binding=TableBinding.BY_LOCATION)
    table = world.table()
    world.table("other", "wh/other/", grants(*given))
    expected = Reason.ALLOWED if allowed else Reason.COPY_SOURCE_OUTSIDE
    assert world.reason(request(operation, KEY, source="wh/other/g"), table) is expected


@pytest.mark.parametrize(
    ("source", "bucket"), (("nowhere/g", "lake"), ("wh/other", "lake"), ("old/g", "vault"), ("x/y", "foreign"))
)
def test_by_location_the_source_must_be_a_tables_on_the_same_storage(source: str, bucket: str) -> None:
    """Data that belongs to no table may not be read by any caller, and a copy cannot cross storages."""
    world = World(binding=TableBinding.BY_LOCATION)
    table = world.table()
    world.table("other", "wh/other/", extra=(Place("backup", "vault", "old/"),))
    copy = request(Operation.COPY_OBJECT, KEY, source=source, source_bucket=bucket)
    assert world.reason(copy, table) is Reason.COPY_SOURCE_OUTSIDE


@pytest.mark.parametrize("binding", TableBinding)
def test_every_owner_of_the_source_must_be_readable(binding: TableBinding) -> None:
    """Where locations overlap, copying must not be the way around an owner who does not allow."""
    world = World(binding=binding, overlap=Overlap.ALLOWED)
    table = world.table()
    copy = request(Operation.COPY_OBJECT, KEY, source="wh/orders/inner/g")
    assert world.reason(copy, table) is Reason.ALLOWED
    world.table("inner", "wh/orders/inner/", grants(SIGN, WRITE, role=OTHER_ROLE))
    assert world.reason(copy, table) is Reason.COPY_SOURCE_OUTSIDE


def test_a_strict_copy_stays_in_the_table_with_overlap_too() -> None:
    """Overlap widens whom to ask, not what may be reached."""
    world = World(overlap=Overlap.ALLOWED)
    table = world.table()
    world.table("other", "wh/other/")
    copy = request(Operation.COPY_OBJECT, KEY, source="wh/other/g")
    assert world.reason(copy, table) is Reason.COPY_SOURCE_OUTSIDE


@pytest.mark.parametrize("binding", TableBinding)
@pytest.mark.parametrize(
    ("level", "source", "expected"),
    (
        (MetadataLevel.PROTECTED, "wh/orders/metadata/v1.metadata.json", Reason.METADATA_PROTECTED),
        (MetadataLevel.PROTECTED, "wh/orders/metadata/m0.avro", Reason.ALLOWED),
        (MetadataLevel.PROTECTED, "wh/orders/metadata", Reason.ALLOWED),  # reading an ancestor harms no table
        (MetadataLevel.SEALED, "wh/orders/metadata/m0.avro", Reason.METADATA_SEALED),
        (MetadataLevel.OPEN, "wh/orders/metadata/v1.metadata.json", Reason.ALLOWED),
    ),
)
def test_the_metadata_level_holds_for_the_source(
    binding: TableBinding, level: MetadataLevel, source: str, expected: Reason
) -> None:
    """A copy of protected metadata to a plain key would make it readable."""
    world = World(binding=binding)
    table = world.table(metadata=level)
    assert world.reason(request(Operation.COPY_OBJECT, KEY, source=source), table) is expected


def test_full_metadata_lets_metadata_be_copied() -> None:
    """Maintenance may back up metadata."""
    world = World()
    table = world.table(given=grants(SIGN, WRITE, FULL))
    copy = request(Operation.COPY_OBJECT, KEY, source="wh/orders/metadata/v1.metadata.json")
    assert world.reason(copy, table) is Reason.ALLOWED


def test_a_refused_source_is_named_to_the_operator() -> None:
    """Without the source in the detail a refused copy cannot be told from a refused write."""
    world = World()
    table = world.table()
    decision = world.decide(request(Operation.COPY_OBJECT, KEY, source="wh/x\x1b/g"), table)
    assert decision == Deny(Reason.COPY_SOURCE_OUTSIDE, "source 's3://lake/wh/x\\x1b/g'", table.id)


def test_the_grants_on_the_source_stand_behind_the_allow() -> None:
    """Audit must show by which grant the source was read."""
    world = World(binding=TableBinding.BY_LOCATION)
    table = world.table()
    world.table("other", "wh/other/", grants(SIGN, READ))
    decision = world.decide(request(Operation.COPY_OBJECT, KEY, source="wh/other/g"), table)
    assert isinstance(decision, Allow)
    assert decision.authority.rule_id == "analyst@table:lake.sales.orders+analyst@table:lake.sales.other"


def test_the_target_is_judged_before_the_source() -> None:
    """The reason must be the first check that failed."""
    world = World()
    table = world.table()
    copy = request(Operation.COPY_OBJECT, "wh/x", source="wh/y")
    assert world.reason(copy, table) is Reason.OUTSIDE_TABLE
    copy = request(Operation.COPY_OBJECT, "wh/orders/v1.metadata.json", source="wh/y")
    assert world.reason(copy, table) is Reason.COPY_SOURCE_OUTSIDE
