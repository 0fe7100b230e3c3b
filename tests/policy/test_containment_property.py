"""Prove for drawn policies and requests: what is allowed touches only what every rule lets the caller touch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from signproxy.model import Allow
from signproxy.policy.catalog import TableBinding
from signproxy.policy.containment import addressed
from signproxy.policy.privileges import mask_of
from signproxy.policy.table import MetadataLevel, Overwrite, Place, Table
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from tests.policy.world import ALICE, AWS, BACKUP, FULL, READ, ROLE, SIGN, WRITE, World, request

SEGMENT = st.sampled_from(["a", "b", "ab", "metadata", "v1.metadata.json", "version-hint.text", "a.avro", "A", ""])
KEY = st.lists(SEGMENT, min_size=1, max_size=5).map("/".join)
BUCKETS = {"lake": AWS, "cold": AWS, "vault": BACKUP}
PLACE = st.builds(
    lambda bucket, path: Place(BUCKETS[bucket].name, bucket, f"{path}/"),
    st.sampled_from(sorted(BUCKETS)),
    st.lists(st.sampled_from(["a", "b", "ab", "metadata"]), min_size=1, max_size=3).map("/".join),
)
PRIVILEGES = st.lists(st.sampled_from([SIGN, READ, WRITE, FULL]), max_size=4, unique=True)
REQUEST = st.builds(
    request,
    st.sampled_from(Operation),
    KEY,
    bucket=st.sampled_from(sorted(BUCKETS)),
    store=st.sampled_from([AWS, BACKUP]),
    prefix=KEY,
    delete_keys=st.lists(KEY, max_size=3).map(tuple),
    source=st.none() | KEY,
    source_bucket=st.sampled_from(sorted(BUCKETS)),
    conditional=st.booleans(),
)


def _below(table: Table, asked: S3Request, bucket: str, key: str, *, whole: bool) -> bool:
    """Say the rule once more, as slowly and plainly as it can be said."""
    for place in table.places:
        wanted, given_segments = place.prefix.split("/")[:-1], key.split("/")
        rest = given_segments[len(wanted) :]
        inside = given_segments[: len(wanted)] == wanted and bool(rest) and (not whole or rest != [""])
        if inside and place.bucket == bucket and place.storage == asked.storage.name:
            return True
    return False


@given(
    binding=st.sampled_from(TableBinding),
    level=st.sampled_from(MetadataLevel),
    overwrite=st.sampled_from(Overwrite),
    privileges=PRIVILEGES,
    places=st.lists(PLACE, max_size=2),
    asked=REQUEST,
)
def test_no_allowed_request_leaves_the_table(
    binding: TableBinding,
    level: MetadataLevel,
    overwrite: Overwrite,
    privileges: list[str],
    places: list[Place],
    asked: S3Request,
) -> None:
    """This is the promise of the product; everything else is detail."""
    world = World(binding=binding)
    table = world.table(
        location="a/b/", given={ROLE: mask_of(privileges)}, metadata=level, overwrite=overwrite, extra=tuple(places)
    )
    world.table("other", "ab/", {})
    decision = world.decide(asked, table, principal=ALICE)
    if not isinstance(decision, Allow):
        return
    operation = asked.operation
    assert SIGN in privileges
    assert WRITE in privileges or (READ in privileges and not operation.needs_write)
    keys = addressed(asked)
    assert keys
    for key in keys:
        assert _below(table, asked, asked.bucket, key, whole=not operation.by_prefix)
    if asked.copy_source is not None:
        assert _below(table, asked, asked.copy_source.bucket, asked.copy_source.key, whole=True)
        keys = (*keys, asked.copy_source.key)
    if not operation.by_prefix:
        for key in keys:
            name = key.rpartition("/")[2]
            guarded = name.endswith((".metadata.json", ".metadata.json.gz")) or name == "version-hint.text"
            assert not guarded or level is MetadataLevel.OPEN or FULL in privileges
    if operation.access.value == "write" and overwrite is Overwrite.FORBID:
        assert not asked.conditional
        assert operation is not Operation.COPY_OBJECT
