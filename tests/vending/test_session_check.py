"""Keys reach what a signature would, and a policy that says more is found out before it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signproxy.errors import Refused
from signproxy.model import Allow, Principal
from signproxy.policy.table import MetadataLevel, Place, Table
from signproxy.s3.key import check_key
from signproxy.s3.operation import Operation
from signproxy.s3.storage import OptIns
from signproxy.vending import session_policy as writer
from signproxy.vending.policy_language import language_of
from signproxy.vending.scope import CatalogPlaces, VendCaller, scope_of
from signproxy.vending.session_check import excess
from signproxy.vending.session_policy import session_policy
from signproxy.vending.session_policy_match import allowed, read_policy
from signproxy.vending.vended import VendAccess, VendScope
from tests.policy.world import ALICE, FULL, READ, SIGN, WRITE, World, grants, request
from tests.vending.scopes import ALONE, AMAZON, AWS_LANGUAGE, COMPATIBLE, READ_WRITE, scope, storage_with

ARN = "arn:aws:s3:::"
OPERATIONS = {
    "s3:GetObject": Operation.GET_OBJECT,
    "s3:PutObject": Operation.PUT_OBJECT,
    "s3:DeleteObject": Operation.DELETE_OBJECT,
    "s3:AbortMultipartUpload": Operation.ABORT_MULTIPART_UPLOAD,
    "s3:ListMultipartUploadParts": Operation.LIST_PARTS,
}
NAMES = (
    "t1",
    "t10",
    "t",
    "t*",
    "t?",
    "*",
    "?",
    "$",
    "${*}",
    "${$}{*}",
    "${aws:username}",
    "tä",
    "t%2A",
    "日",
    "t1 b",
    "{t}",
)
NAME = st.sampled_from(NAMES) | st.text("t1*?${}", min_size=1, max_size=4)
SEGMENT = st.sampled_from(
    ["a", "data", "metadata", "v1.metadata.json", "x.gz.metadata.json", "v1.metadata.json;v=1", "version-hint.text"]
) | st.text("m1*?${};. ", min_size=1, max_size=3)
FOLDERS = st.lists(SEGMENT, max_size=3)
LEVELS = st.sampled_from(MetadataLevel)


def proved(asked: VendScope, text: str | None = None, keys: tuple[str, ...] = ()) -> str:
    policy = session_policy(asked, AMAZON, AWS_LANGUAGE) if text is None else text
    return excess(policy, asked, AWS_LANGUAGE, keys)


class Drawn(NamedTuple):
    """A table, and what is granted on it."""

    name: str
    level: MetadataLevel
    full: bool
    writes: bool
    metadata: str
    """Where `write.metadata.path` leads, from the table's location; nowhere of its own if it is empty."""


@given(
    drawn=st.builds(Drawn, NAME, LEVELS, st.booleans(), st.booleans(), st.sampled_from(["", "data", "m/x", "../meta"])),
    other=NAME,
    folders=FOLDERS,
    last=SEGMENT,
)
@example(
    drawn=Drawn("t1", MetadataLevel.PROTECTED, full=False, writes=True, metadata=""),
    other="t1",
    folders=[],
    last="metadata",
)
@settings(max_examples=400)
def test_keys_do_nothing_that_a_signature_would_not(drawn: Drawn, other: str, folders: list[str], last: str) -> None:
    """Whatever the table is called, whatever its level: what its keys open, the decision allows too."""
    name, level, full, writes, path = drawn
    world = World()
    metadata_place = Place("aws", "lake", "wh/meta/" if ".." in path else f"wh/{name}/{path}/") if path else None
    extra = () if metadata_place is None else (metadata_place,)
    given_here = grants(SIGN, WRITE if writes else READ, *([FULL] if full else []))
    table = world.table("t", f"wh/{name}/", given_here, metadata=level, extra=extra, metadata_place=metadata_place)
    access = VendAccess.READ_WRITE if writes else VendAccess.READ
    asked = scope_of(table, access, VendCaller(ALICE, 1, "x", full_metadata=full), ALONE)
    try:
        text = session_policy(asked, AMAZON, AWS_LANGUAGE)
    except Refused:
        return
    assert proved(asked, text) == ""
    policy = read_policy(text, escapes=True)
    for key in ("/".join(["wh", owner, *folders, last]) for owner in (name, other, "t1", "t10", "meta")):
        try:
            check_key(key)
        except Refused:
            continue
        for action, operation in OPERATIONS.items():
            if allowed(policy, action, f"{ARN}lake/{key}"):
                assert isinstance(world.decide(request(operation, key), table), Allow), (action, key)
        for prefix in (key, f"{key}/"):
            if allowed(policy, "s3:ListBucket", f"{ARN}lake", {"s3:prefix": prefix}):
                assert isinstance(world.decide(request(Operation.LIST_OBJECTS_V2, prefix=prefix), table), Allow), prefix


LENIENT = language_of(COMPATIBLE, escapes=True, judges_prefix=True)
ENDS = st.sampled_from(["", "", ".", ";", ";x", " ", ". ;x"])


@given(
    level=LEVELS,
    metadata=st.sampled_from(["wh/t1/", "wh/t1/meta/x/", "wh/t1/data/metadata/", "other/m/"]),
    base=st.sampled_from(["wh/t1", "other/m"]),
    folders=st.lists(st.tuples(st.sampled_from(["meta", "x", "data", "metadata"]), ENDS), max_size=3),
    last=st.tuples(SEGMENT | st.sampled_from(["metadata", "meta", "x"]), ENDS),
)
@settings(max_examples=400)
def test_keys_for_a_store_that_drops_ends_of_names_do_no_more_either(
    level: MetadataLevel, metadata: str, base: str, folders: list[tuple[str, str]], last: tuple[str, str]
) -> None:
    """What a signature refuses because of how such a store would read a key, its own keys are kept from as well."""
    world, place = World(), Place("aws", "lake", metadata)
    table = world.table("t", "wh/t1/", grants(SIGN, WRITE), metadata=level, extra=(place,), metadata_place=place)
    asked = scope_of(table, READ_WRITE, VendCaller(ALICE, 1, "x"), ALONE)
    text = session_policy(asked, COMPATIBLE, LENIENT)
    assert excess(text, asked, LENIENT, literal=False) == ""
    policy = read_policy(text, escapes=True)
    key = "/".join([base, *("".join(each) for each in (*folders, last))])
    try:
        check_key(key)
    except Refused:
        return
    for action, operation in OPERATIONS.items():
        if allowed(policy, action, f"{ARN}lake/{key}"):
            assert isinstance(world.decide(request(operation, key), table), Allow), (action, key)


@given(name=NAME, writes=st.booleans())
def test_keys_open_the_table_itself(name: str, writes: bool) -> None:
    """A policy that allows nothing would pass every other test."""
    asked = scope(f"lake/wh/{name}", access=READ_WRITE if writes else VendAccess.READ)
    try:
        policy = read_policy(session_policy(asked, AMAZON, AWS_LANGUAGE), escapes=True)
    except Refused:
        assert "%2A" in name
        return
    key = f"{ARN}lake/wh/{name}/data/00000-a.parquet"
    assert allowed(policy, "s3:GetObject", key)
    assert allowed(policy, "s3:PutObject", key) is writes
    assert allowed(policy, "s3:DeleteObject", f"{ARN}lake/wh/{name}/metadata/snap-1.avro") is writes
    assert allowed(policy, "s3:ListBucket", f"{ARN}lake", {"s3:prefix": f"wh/{name}/"})
    assert not allowed(policy, "s3:ListBucket", f"{ARN}lake", {"s3:prefix": f"wh/{name}"})
    assert not allowed(policy, "s3:ListBucket", f"{ARN}lake")


# -- what a writer of policies may get wrong ---------------------------------------------------------------------------


def unescaped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_escaped", lambda text: text)


def without_slash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_pattern", lambda location: f"{location.bucket}/{location.path}")


def for_all_buckets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_pattern", lambda location: f"*/{location.prefix}")


def with_metadata_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_denials", lambda *_: iter(({"Effect": "Deny", "Action": ["sts:*"], "Resource": ["*"]},)))


def with_folders_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "_folders", lambda *_: [])


def writing_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "READ_ACTIONS", (*writer.READ_ACTIONS, "s3:PutObject"))


def with_all_actions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "READ_ACTIONS", ("s3:Get*",))


def listing_buckets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "LIST_ACTIONS", ("s3:ListBucket", "s3:ListAllMyBuckets"))


@pytest.mark.parametrize(
    ("slip", "name", "access"),
    (
        (unescaped, "t*", VendAccess.READ),
        (unescaped, "t?", VendAccess.READ),
        (unescaped, "${aws:username}", VendAccess.READ),
        (unescaped, "${*}", VendAccess.READ),
        (without_slash, "t1", VendAccess.READ),
        (for_all_buckets, "t1", VendAccess.READ),
        (with_metadata_open, "t1", VendAccess.READ),
        (with_folders_open, "t1", READ_WRITE),
        (writing_too, "t1", VendAccess.READ),
        (with_all_actions, "t1", VendAccess.READ),
        (listing_buckets, "t1", VendAccess.READ),
    ),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_slip_of_the_writer_is_found(
    slip: Callable[[pytest.MonkeyPatch], None], name: str, access: VendAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these was shipped by some catalog, and read the neighbours' tables."""
    asked = scope(f"lake/wh/{name}", access=access)
    assert proved(asked) == ""
    slip(monkeypatch)
    assert proved(asked) != ""


def changed(asked: VendScope, change: Callable[[list[Any]], object]) -> str:
    policy = json.loads(session_policy(asked, AMAZON, AWS_LANGUAGE))
    change(policy["Statement"])
    return json.dumps(policy)


@pytest.mark.parametrize(
    "change",
    (
        lambda each: each[0].update(Resource=["*"]),
        lambda each: each[0]["Resource"].append("arn:aws:s3:::lake/wh/t2/*"),
        lambda each: each[0]["Resource"].append("arn:aws:s3:::cold/wh/t1/*"),
        lambda each: each[0]["Resource"].append("arn:aws-cn:s3:::lake/wh/t1/*"),
        lambda each: each[0]["Action"].append("s3:PutObjectAcl"),
        lambda each: each[0]["Action"].append("s3:ListBucket"),
        lambda each: each[1].pop("Condition"),
        lambda each: each[1]["Condition"]["StringLike"]["s3:prefix"].append("*"),
        lambda each: each[1]["Condition"]["StringLike"]["s3:prefix"].append("wh/t1"),
        lambda each: each[1]["Resource"].append("arn:aws:s3:::cold"),
        lambda each: each[1].update(Resource=["arn:aws:s3:::lak*"]),
        lambda each: each.pop(2),
        lambda each: each[2].update(Resource=["arn:aws:iam::123456789012:role/lake"]),
        lambda each: each[2].update(Action=["sts:AssumeRole"]),
        lambda each: each[2].update(Condition={"StringLike": {"s3:prefix": "*"}}),
        lambda each: each[3]["Resource"].pop(),
        lambda each: each[4]["Resource"].pop(),
        lambda each: each.append({"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*"}),
        lambda each: each.append({"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}),
        lambda each: each.append({"Effect": "Allow", "NotAction": "s3:GetObject", "Resource": "*"}),
    ),
)
def test_a_policy_that_says_more_is_not_used(change: Callable[[list[Any]], object]) -> None:
    """The check looks at every statement that allows, whatever wrote it."""
    asked = scope(access=READ_WRITE)
    assert proved(asked, changed(asked, lambda _: None)) == ""
    assert proved(asked, changed(asked, change)) != ""


def test_prefixes_of_one_bucket_do_not_hold_in_another() -> None:
    """Two lists in one statement would show, in each bucket, what lies where the table has its place in the other."""
    asked = scope("lake/wh/t1", "cold/data/t1")

    def join(statements: list[Any]) -> None:
        statements[1]["Resource"].append("arn:aws:s3:::cold")
        statements[1]["Condition"]["StringLike"]["s3:prefix"].append("data/t1/*")

    assert proved(asked, changed(asked, join)) != ""


def test_lists_of_a_store_that_judges_another_prefix_are_found() -> None:
    """Their condition keeps nothing out there."""
    asked = scope("lake/wh/t1")
    text = session_policy(asked, AMAZON, AWS_LANGUAGE)
    misled = replace(AWS_LANGUAGE, judges_prefix=False)
    assert excess(text, asked, misled) == "lists, for which this store judges another prefix than it lists"


def test_sealed_metadata_is_not_listed() -> None:
    """What the writer leaves out, the check misses if it is there."""
    asked = scope(metadata=MetadataLevel.SEALED)
    assert proved(asked) == ""
    listed = json.loads(session_policy(scope(), AMAZON, AWS_LANGUAGE))["Statement"][1]
    assert proved(asked, changed(asked, lambda each: each.append(listed))) != ""
    assert proved(asked, changed(asked, lambda each: each[-1]["Resource"].pop())) != ""


def test_only_the_keys_of_the_storage_are_used() -> None:
    """A key of another service opens what that one keeps."""
    key = "arn:aws:kms:eu-west-1:123456789012:key/6f1a3c5e-0000-4000-8000-000000000001"
    text = session_policy(scope(), storage_with(OptIns(kms_keys=(key,))), AWS_LANGUAGE)
    assert proved(scope(), text, keys=(key,)) == ""
    assert proved(scope(), text) != ""
    for service in ("", "s3.eu-west-1.amazonaws.com", "sqs.eu-west-1.amazonaws.com", "s3.*"):
        policy = json.loads(text)
        # The operator's key for data, asked directly, opens whatever else is encrypted with it.
        uses = next(each for each in policy["Statement"] if each["Action"] == ["kms:Decrypt"])
        uses["Condition"] = {"StringLike": {"kms:ViaService": service}} if service else {}
        assert (proved(scope(), json.dumps(policy), keys=(key,)) == "") is service.startswith("s3.eu")


# -- the inventory -----------------------------------------------------------------------------------------------------


def table_named(world: World, name: str) -> Table:
    return world.table(name.replace("/", "_"), f"wh/{name}/", grants(SIGN, READ))


def test_ten_thousand_neighbours_stay_closed() -> None:
    """Each of them is tried once; what a mint costs does not grow with them."""
    world = World()
    tables = [table_named(world, f"t{number}") for number in range(10_000)]
    hostile = [table_named(world, name) for name in ("t*", "t?", "${*}", "*")]
    for table in (tables[1], *hostile):
        asked = scope_of(table, VendAccess.READ, VendCaller(ALICE, 1, "x"), CatalogPlaces(world.catalog, table))
        started = process_time()
        text = session_policy(asked, AMAZON, AWS_LANGUAGE)
        assert proved(asked, text) == ""
        assert [asked.others.meets(location) for location in asked.locations] == [""]
        assert process_time() - started < 0.1
        policy = read_policy(text, escapes=True)
        reached = [each for each in tables + hostile if allowed(policy, "s3:GetObject", f"{ARN}lake/{each.location}a")]
        assert reached == [table]


def test_a_caller_is_bound_to_the_end_of_its_token() -> None:
    """Where the operator says so, and always where the token itself is limited."""
    caller = Principal("corp/alice", "corp", "alice", 1000.0)
    assert VendCaller(caller, 1, "x").latest is None
    assert VendCaller(caller, 1, "x", never_beyond_token=True).latest == 1000.0
    endless = Principal("corp/alice", "corp", "alice", float("inf"))
    assert VendCaller(endless, 1, "x", never_beyond_token=True).latest is None
