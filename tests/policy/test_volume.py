"""Find the volume of a key, and decide what may be done in it."""

from __future__ import annotations

import msgspec
import pytest

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, KeyScope, Subject, TableScope, VolumeId
from signproxy.policy.decide_volume import decide_bucket, decide_volume
from signproxy.policy.table import Overwrite, Place
from signproxy.policy.volume import Volume, Volumes
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from tests.policy.world import ALICE, AWS, BACKUP, BOB, OTHER_ROLE, READ, ROLE, SIGN, World, grants, request

VREAD = "VOLUME_READ_DATA"
VWRITE = "VOLUME_WRITE_DATA"
VMANAGE = "VOLUME_MANAGE"
OBJECTS = Rules(OperationsAllowed.OBJECT)
ALL_OF_S3 = Rules(OperationsAllowed.ALL, KeyRules.S3)


def volume(
    name: str = "raw",
    bucket: str = "lake",
    prefix: str = "raw/",
    given: dict[int, int] | None = None,
    *,
    storage: str = "aws",
    rules: Rules = OBJECTS,
    overwrite: Overwrite = Overwrite.ALLOWED,
) -> Volume:
    granted = grants(VREAD, VWRITE) if given is None else given
    return Volume(VolumeId("lake", name), storage, bucket, prefix, rules, overwrite, granted)


def judged(held: Volume, asked: S3Request, *, world: World | None = None, subject: Subject | None = None) -> Reason:
    used = world or World()
    decision = decide_volume(used.state, used.catalog, subject or Subject.of(ALICE), held, asked)
    assert isinstance(decision, Allow) or decision.volume == held.id
    return Reason.ALLOWED if isinstance(decision, Allow) else decision.reason


# -- finding -----------------------------------------------------------------------------------------------------------


def placed(*volumes: Volume) -> Volumes:
    held = Volumes()
    for each in volumes:
        held.add(each)
    return held


def found(volumes: Volumes, bucket: str, key: str) -> str | None:
    volume = volumes.find(bucket, key)
    return None if volume is None else volume.id.name


def test_a_key_is_found_by_whole_segments() -> None:
    """A folder whose name merely begins alike belongs to another owner."""
    volumes = placed(volume("raw"), volume("deep", prefix="in/here/"), volume("other", bucket="cold", prefix=""))
    assert found(volumes, "lake", "raw/a") == "raw"
    assert found(volumes, "lake", "raw/a/b") == "raw"
    assert found(volumes, "lake", "raw-2/a") is None
    assert found(volumes, "lake", "in/a") is None
    assert found(volumes, "lake", "in/here/a") == "deep"
    assert found(volumes, "lake", "") is None
    assert found(volumes, "cold", "anything") == "other"
    assert found(volumes, "cold", "") == "other"
    assert found(volumes, "warm", "raw/a") is None
    assert found(placed(), "lake", "raw/a") is None


def test_a_folder_is_found_by_its_bare_name_too() -> None:
    """Clients that see folders ask for it so, and must be told more than that it has no owner."""
    assert found(placed(volume("raw")), "lake", "raw") == "raw"
    assert found(placed(volume("raw")), "lake", "ra") is None


def test_a_pattern_stands_for_the_buckets_that_begin_so() -> None:
    """Test suites and tools make buckets of their own, which no policy can list."""
    volumes = placed(volume("made", "tmp-*", ""), volume("part", "job-*", "out/"), volume("listed", "tmp", ""))
    assert found(volumes, "tmp-1", "k") == "made"
    assert found(volumes, "tmp", "k") == "listed"
    assert found(volumes, "tm", "k") is None
    assert found(volumes, "job-7", "out/k") == "part"
    assert found(volumes, "job-7", "in/k") is None
    # What stands for the star must not be able to change the path.
    assert found(volumes, "tmp-/../lake", "k") is None
    assert found(volumes, "tmp-%2f", "k") is None
    assert [each.id.name for each in volumes.in_bucket("tmp-1")] == ["made"]
    assert [each.id.name for each in volumes.in_bucket("tmp")] == ["listed"]
    assert list(volumes.in_bucket("nosuch")) == []


@pytest.mark.parametrize(
    ("bucket", "held"), (("lake", "lake"), ("lake", "la*"), ("other", "other"), ("other", "oth*"), ("cold", "lake"))
)
def test_volumes_are_looked_for_where_one_may_lie(bucket: str, held: str) -> None:
    """A key of a volume would be judged as one of no table, or of the table beside it."""
    world = World()
    world.catalog.volumes.add(volume(bucket=held, prefix="" if held.endswith("*") else "raw/"))
    lies_there = bucket == held or (held.endswith("*") and bucket.startswith(held[:-1]))
    reached = world.state.buckets.of(bucket)
    assert [place.volumes is not None for place in reached] == [lies_there] * len(reached)
    assert bool(reached) is (lies_there or bucket in AWS.buckets)


def test_volumes_are_known_by_name_and_shown_as_places() -> None:
    """Grants name them, and denials show where they lie."""
    volumes = placed(volume("raw"), volume("made", "tmp-*", ""))
    assert [str(each) for each in volumes] == ["s3://lake/raw", "s3://tmp-*"]
    assert volumes.named("raw") is not None
    assert volumes.named("nosuch") is None


# -- privileges --------------------------------------------------------------------------------------------------------

_READS = {
    Operation.GET_OBJECT: request(Operation.GET_OBJECT, "raw/a"),
    Operation.LIST_OBJECTS_V2: request(Operation.LIST_OBJECTS_V2, prefix="raw/"),
    Operation.OTHER_READ: request(Operation.OTHER_READ, "raw/a"),
}
_WRITES = {
    Operation.PUT_OBJECT: request(Operation.PUT_OBJECT, "raw/a"),
    Operation.DELETE_OBJECTS: request(Operation.DELETE_OBJECTS, delete_keys=("raw/a", "raw/b")),
    Operation.LIST_PARTS: request(Operation.LIST_PARTS, "raw/a"),
    Operation.OTHER_WRITE: request(Operation.OTHER_WRITE, "raw/a"),
}


@pytest.mark.parametrize("operation", (*_READS, *_WRITES))
@pytest.mark.parametrize(
    ("held", "reads", "writes"),
    (
        ((), False, False),
        ((READ, SIGN), False, False),
        ((VREAD,), True, False),
        ((VWRITE,), True, True),
        ((VMANAGE,), True, True),
        (("CATALOG_MANAGE_CONTENT",), True, True),
        (("CATALOG_MANAGE_METADATA",), False, False),
    ),
)
def test_reading_and_writing_need_their_privilege(
    operation: Operation, held: tuple[str, ...], reads: bool, writes: bool
) -> None:
    """A volume that its readers can write to is no volume of theirs any more."""
    asked = _READS.get(operation) or _WRITES[operation]
    expected = Reason.NO_WRITE_DATA if operation in _WRITES else Reason.NO_READ_DATA
    allowed = writes if operation in _WRITES else reads
    assert judged(volume(given=grants(*held)), asked) is (Reason.ALLOWED if allowed else expected)
    # Granted on the catalog it reaches every volume.
    world = World(on_catalog=grants(*held))
    assert judged(volume(given={}), asked, world=world) is (Reason.ALLOWED if allowed else expected)
    # A grant to another role gives this caller nothing.
    assert judged(volume(given=grants(*held, role=OTHER_ROLE)), asked) is expected


def test_what_changes_the_bucket_needs_to_manage_all_of_it() -> None:
    """A caller that may write objects below a prefix must not open the bucket to the world."""
    changes = request(Operation.OTHER_WRITE)
    asks = request(Operation.OTHER_READ)
    whole = volume(prefix="", given=grants(VWRITE), rules=ALL_OF_S3)
    assert judged(whole, changes) is Reason.NO_MANAGE
    assert judged(whole, asks) is Reason.ALLOWED
    managed = volume(prefix="", given=grants(VMANAGE), rules=ALL_OF_S3)
    assert judged(managed, changes) is Reason.ALLOWED
    part = volume(given=grants(VMANAGE), rules=ALL_OF_S3)
    assert judged(part, changes) is Reason.OUTSIDE_TABLE
    assert judged(part, asks) is Reason.OUTSIDE_TABLE


def test_a_principal_without_a_role_is_unknown() -> None:
    """A token of the right issuer alone opens nothing."""
    assert judged(volume(), _READS[Operation.GET_OBJECT], subject=Subject.of(BOB)) is Reason.PRINCIPAL_UNKNOWN


def test_a_clamped_caller_only_reads() -> None:
    """A view's reader must not write on its owner's rights."""
    for subject in (Subject(ALICE, ALICE, (), Ceiling.READ_ONLY), Subject(BOB, ALICE)):
        assert judged(volume(), _READS[Operation.GET_OBJECT], subject=subject) is Reason.ALLOWED
        assert judged(volume(), _WRITES[Operation.PUT_OBJECT], subject=subject) is Reason.CEILING


# -- location ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "inside"),
    (
        (request(Operation.GET_OBJECT, "raw/a"), True),
        (request(Operation.GET_OBJECT, "raw/"), False),
        (request(Operation.GET_OBJECT, "raw"), False),
        (request(Operation.GET_OBJECT, "raw-2/a"), False),
        (request(Operation.GET_OBJECT, "RAW/a"), False),
        (request(Operation.GET_OBJECT, "raw/a", bucket="cold"), False),
        (request(Operation.GET_OBJECT, "raw/a", store=BACKUP), False),
        (request(Operation.LIST_OBJECTS_V2, prefix="raw/"), True),
        (request(Operation.LIST_OBJECTS_V2, prefix="raw/a"), True),
        (request(Operation.LIST_OBJECTS_V2, prefix="raw"), False),
        (request(Operation.LIST_OBJECTS_V2, prefix=""), False),
        (request(Operation.LIST_MULTIPART_UPLOADS, prefix="raw/"), True),
        (request(Operation.DELETE_OBJECTS, delete_keys=("raw/a", "raw-2/a")), False),
        (request(Operation.DELETE_OBJECTS), False),
    ),
)
def test_only_what_lies_in_the_volume_is_inside(asked: S3Request, inside: bool) -> None:
    """Everything else in the bucket belongs to others."""
    assert judged(volume(), asked) is (Reason.ALLOWED if inside else Reason.OUTSIDE_TABLE)


def test_a_volume_without_prefix_covers_its_bucket() -> None:
    """A list of the whole bucket is what a file browser begins with."""
    whole = volume(prefix="")
    assert judged(whole, request(Operation.LIST_OBJECTS_V2, prefix="")) is Reason.ALLOWED
    assert judged(whole, request(Operation.GET_OBJECT, "a")) is Reason.ALLOWED
    assert judged(whole, request(Operation.GET_OBJECT, "")) is Reason.OUTSIDE_TABLE
    assert judged(volume(bucket="la*", prefix=""), request(Operation.GET_OBJECT, "a")) is Reason.ALLOWED


def test_folders_are_there_for_clients_that_see_some() -> None:
    """Hadoop asks for the folder's bare name, and writes a marker with its slash; no other owner may have it."""
    folders = volume(rules=Rules(OperationsAllowed.OBJECT, KeyRules.S3))
    assert judged(folders, request(Operation.PUT_OBJECT, "raw/")) is Reason.ALLOWED
    assert judged(folders, request(Operation.HEAD_OBJECT, "raw")) is Reason.ALLOWED
    assert judged(folders, request(Operation.PUT_OBJECT, "raw")) is Reason.OUTSIDE_TABLE
    assert judged(folders, request(Operation.DELETE_OBJECT, "raw")) is Reason.OUTSIDE_TABLE
    assert judged(folders, request(Operation.HEAD_OBJECT, "ra")) is Reason.OUTSIDE_TABLE
    whole = volume(prefix="", rules=ALL_OF_S3)
    assert judged(whole, request(Operation.HEAD_OBJECT, "")) is Reason.OUTSIDE_TABLE


# -- write-once --------------------------------------------------------------------------------------------------------


def test_what_is_written_once_is_guarded_or_refused() -> None:
    """An overwrite that the store would let pass is the loss of a file."""
    once = volume(overwrite=Overwrite.FORBID, rules=ALL_OF_S3, prefix="", given=grants(VMANAGE))
    world = World()

    def decided(operation: Operation, key: str = "raw/a", *, conditional: bool = False) -> bool | Reason:
        asked = request(operation, key, conditional=conditional)
        decision = decide_volume(world.state, world.catalog, Subject.of(ALICE), once, asked)
        return decision.reason if isinstance(decision, Deny) else decision.write_once

    assert decided(Operation.PUT_OBJECT) is True
    assert decided(Operation.COMPLETE_MULTIPART_UPLOAD) is True
    assert decided(Operation.UPLOAD_PART) is False
    assert decided(Operation.CREATE_MULTIPART_UPLOAD) is False
    assert decided(Operation.PUT_OBJECT, conditional=True) is Reason.WRITE_ONCE
    assert decided(Operation.COPY_OBJECT) is Reason.WRITE_ONCE
    # It is not known what S3's other operations overwrite.
    assert decided(Operation.OTHER_WRITE) is Reason.WRITE_ONCE
    assert decided(Operation.OTHER_WRITE, "") is False
    assert decided(Operation.GET_OBJECT) is False
    assert decided(Operation.DELETE_OBJECT) is False


# -- what stands behind it ---------------------------------------------------------------------------------------------


def test_the_deciding_grants_are_named() -> None:
    """The audit trail has nothing else to say why a request was served."""
    world = World(on_catalog=grants(VREAD))
    held = volume(given={ROLE: grants(VWRITE)[ROLE], OTHER_ROLE: grants(VMANAGE)[ROLE]})

    def rule(asked: S3Request) -> str:
        decision = decide_volume(world.state, world.catalog, Subject.of(ALICE), held, asked)
        assert isinstance(decision, Allow)
        assert (decision.table, decision.volume) == (None, held.id)
        return decision.authority.rule_id

    assert rule(_READS[Operation.GET_OBJECT]) == "analyst@catalog:lake"
    assert rule(_WRITES[Operation.PUT_OBJECT]) == "analyst@volume:lake/raw"


# -- buckets -----------------------------------------------------------------------------------------------------------


def known(world: World, bucket: str, subject: Subject | None = None) -> Reason:
    decision = decide_bucket(world.state, world.catalog, subject or Subject.of(ALICE), bucket)
    if isinstance(decision, Deny):
        return decision.reason
    assert decision.authority.rule_id == f"reader@bucket:lake/{bucket}"
    return Reason.ALLOWED


def test_a_bucket_is_known_to_callers_that_may_read_something_in_it() -> None:
    """Tools ask for the bucket first, and must not be told of buckets that are none of theirs."""
    world = World()
    world.table("orders", "wh/orders/", grants(SIGN, READ))
    world.table("half", "wh/half/", grants(SIGN))
    world.catalog.note_readers()
    assert known(world, "lake") is Reason.ALLOWED
    assert known(world, "cold") is Reason.NO_READ_DATA
    assert known(world, "lake", Subject.of(BOB)) is Reason.PRINCIPAL_UNKNOWN
    world.catalog.volumes.add(volume(bucket="cold", prefix="x/", given=grants(VREAD)))
    assert known(world, "cold") is Reason.ALLOWED
    # Where nothing lies, nothing can be read.
    everywhere = World(on_catalog=grants(SIGN, READ))
    everywhere.table(given={})
    everywhere.catalog.note_readers()
    assert known(everywhere, "lake") is Reason.ALLOWED
    assert known(everywhere, "cold") is Reason.NO_READ_DATA
    assert known(World(on_catalog=grants(VREAD)), "cold") is Reason.NO_READ_DATA


def test_a_bucket_is_known_by_further_locations_too() -> None:
    """A table's `write.data.path` may lie in another bucket than the table."""
    world = World()
    world.table("orders", "wh/orders/", grants(SIGN, READ), extra=(Place("aws", "cold", "data/"),))
    world.catalog.note_readers()
    assert known(world, "cold") is Reason.ALLOWED


def test_a_key_for_a_part_of_a_catalog_knows_the_buckets_of_that_part() -> None:
    """A key that is good for one table must not list the buckets of all."""
    world = World()
    inside = world.namespace("sales")
    world.table("orders", "wh/orders/", grants(SIGN, READ), namespace=inside)
    world.catalog.volumes.add(volume(bucket="cold", prefix="x/", given=grants(VREAD)))
    world.catalog.note_readers()
    world.catalog.below["sales"] = grants(SIGN, READ)

    def scoped(namespace: str = "", table: str = "", catalog: str = "lake") -> Subject:
        return Subject.of(msgspec.structs.replace(ALICE, key_scope=KeyScope(catalog, namespace, table)))

    assert known(world, "cold", scoped()) is Reason.ALLOWED
    assert known(world, "cold", scoped("sales", "orders")) is Reason.NO_READ_DATA
    assert known(world, "lake", scoped("sales", "orders")) is Reason.ALLOWED
    assert known(world, "lake", scoped("sales", "nosuch")) is Reason.NO_READ_DATA
    assert known(world, "lake", scoped("sales")) is Reason.ALLOWED
    assert known(world, "lake", scoped("hr")) is Reason.NO_READ_DATA
    assert known(world, "lake", scoped("sales", "orders", "other")) is Reason.NO_READ_DATA


def test_a_token_for_one_table_counts_like_a_key_for_it() -> None:
    """Two kinds of narrow callers, and one rule."""
    token = TableScope("lake", "sales", "orders", "u")
    both = msgspec.structs.replace(ALICE, scope=token, key_scope=KeyScope("lake"))
    assert both.scopes == (KeyScope("lake", "sales", "orders", "u"), KeyScope("lake"))
    assert ALICE.scopes == ()
