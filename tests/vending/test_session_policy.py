"""What a session policy says, what it refuses to say, and how long it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signproxy.errors import Reason, Refused
from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.s3.storage import OptIns, Storage, StorageKind
from signproxy.vending.policy_language import PolicyLanguage, language_of
from signproxy.vending.session_check import excess
from signproxy.vending.session_policy import MAX_CHARACTERS, session_policy
from signproxy.vending.vended import VendScope
from tests.vending.scopes import AMAZON, AWS_LANGUAGE, COMPATIBLE, PLAIN, READ_WRITE, at, scope, storage_with

KEY = "arn:aws:kms:eu-west-1:123456789012:key/6f1a3c5e-0000-4000-8000-000000000001"


def written(asked: VendScope, storage: Storage = AMAZON, language: PolicyLanguage = AWS_LANGUAGE) -> list[Any]:
    policy = json.loads(session_policy(asked, storage, language))
    assert policy["Version"] == "2012-10-17"
    statements: list[Any] = policy["Statement"]
    return statements


def refusal(asked: VendScope, storage: Storage = AMAZON, language: PolicyLanguage = AWS_LANGUAGE) -> Refused:
    with pytest.raises(Refused) as caught:
        session_policy(asked, storage, language)
    return caught.value


def test_a_reader_reads_and_lists_and_no_more() -> None:
    """Each action beyond these is one that a stolen key has and a signature does not."""
    objects, lists, further, closed = written(scope("lake/wh/t1"))
    assert objects == {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::lake/wh/t1/*"]}
    assert lists == {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": ["arn:aws:s3:::lake"],
        "Condition": {"StringLike": {"s3:prefix": ["wh/t1/*"]}},
    }
    assert further == {"Effect": "Deny", "Action": ["sts:*"], "Resource": ["*"]}
    assert closed == {
        "Effect": "Deny",
        "Action": ["s3:*"],
        "Resource": ["arn:aws:s3:::*/*.metadata.json*", "arn:aws:s3:::*/version-hint.text*"],
    }


def test_a_writer_ends_its_uploads_too() -> None:
    """Keys that cannot abort an upload leave its parts behind, and they are paid for."""
    objects, _, _, _, kept = written(scope(access=READ_WRITE))
    assert objects["Action"] == [
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    ]
    assert kept == {
        "Effect": "Deny",
        "Action": ["s3:DeleteObject", "s3:AbortMultipartUpload"],
        "Resource": ["arn:aws:s3:::*/", "arn:aws:s3:::*/metadata"],
    }


def test_what_a_storage_opens_besides_is_open_to_its_sessions() -> None:
    """Recovery of versions and tagging work with keys as they do with signatures."""
    objects, lists, *_ = written(scope(access=READ_WRITE), storage_with(OptIns(recover=True, tagging=True)))
    assert {"s3:GetObjectVersion", "s3:GetObjectTagging", "s3:PutObjectTagging"} <= set(objects["Action"])
    assert lists["Action"] == ["s3:ListBucket", "s3:ListBucketVersions"]


def test_open_metadata_closes_nothing() -> None:
    """Who maintains metadata needs keys that reach it."""
    assert len(written(scope(access=READ_WRITE, metadata=MetadataLevel.OPEN))) == 3


def test_sealed_metadata_is_neither_reached_nor_listed() -> None:
    """A list from the top of the table would show the names below the metadata path."""
    sealed = scope(
        "lake/wh/t1", "cold/wh/t1", metadata=MetadataLevel.SEALED, metadata_places=("lake/wh/t1/metadata", "cold/m/t1")
    )
    objects, _, closed = written(sealed)
    assert objects["Action"] == ["s3:GetObject"]
    assert closed["Resource"][2:] == ["arn:aws:s3:::lake/wh/t1/metadata*", "arn:aws:s3:::cold/m/t1*"]


def test_a_data_path_inside_the_table_stays_open_where_metadata_is_sealed() -> None:
    """Sealing that closed the data as well would leave keys for nothing."""
    _, closed = written(scope("lake/wh/t1", "lake/wh/t1/data", metadata=MetadataLevel.SEALED))[1:]
    assert closed["Resource"][2:] == ["arn:aws:s3:::lake/wh/t1/metadata*", "arn:aws:s3:::lake/wh/t1/data/metadata*"]


def test_two_buckets_never_share_a_list_of_prefixes() -> None:
    """Joined, each prefix would hold in the other bucket too, where it is another table's."""
    objects, lake, cold, *_ = written(scope("lake/wh/t1", "cold/data/t1", "lake/more/t1"))
    assert len(objects["Resource"]) == 3
    assert (lake["Resource"], lake["Condition"]["StringLike"]["s3:prefix"]) == (
        ["arn:aws:s3:::lake"],
        ["wh/t1/*", "more/t1/*"],
    )
    assert (cold["Resource"], cold["Condition"]["StringLike"]["s3:prefix"]) == (["arn:aws:s3:::cold"], ["data/t1/*"])


def test_a_store_that_judges_another_prefix_than_it_lists_has_no_lists() -> None:
    """MinIO goes by a header or a second `prefix`, and lists the whole bucket."""
    assert "s3:ListBucket" not in str(written(scope(access=READ_WRITE), COMPATIBLE, PLAIN))


def test_a_location_inside_another_is_said_once() -> None:
    """Tables whose data and metadata paths lie in their location would not fit otherwise."""
    objects, *_ = written(scope("lake/wh/t1", "lake/wh/t1/data", "lake/wh/t1"))
    assert objects["Resource"] == ["arn:aws:s3:::lake/wh/t1/*"]


def test_a_kms_key_is_used_through_s3_alone() -> None:
    """A key that could be used by itself would open what other services keep with it."""
    storage = storage_with(OptIns(kms_keys=(KEY, "alias/lake", f"{KEY[:-1]}*")))
    _, _, keys, *_ = written(scope(), storage)
    assert keys == {
        "Effect": "Allow",
        "Action": ["kms:Decrypt"],
        "Resource": [KEY],
        "Condition": {"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}},
    }
    assert written(scope(access=READ_WRITE), storage)[2]["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]


def test_a_store_that_reads_keys_in_other_ways_is_told_so() -> None:
    """`t1/../t2/x` begins with `t1/`, and is a file of the neighbour's where a store resolves it."""
    closed = written(scope(), COMPATIBLE, PLAIN)[-1]
    assert closed["Resource"][2:] == [
        "arn:aws:s3:::*/..*",
        "arn:aws:s3:::*//*",
        "arn:aws:s3:::*/./*",
        "arn:aws:s3:::*/.",
    ]


def test_a_store_that_drops_the_end_of_a_name_keeps_the_folders_of_metadata() -> None:
    """`metadata;x` is `metadata` to some, and some delete a folder with all that lies in it."""
    asked = scope("lake/wh/t1", access=READ_WRITE, metadata_places=("lake/wh/t1/m/x",))
    kept = written(asked, COMPATIBLE, PLAIN)[-1]
    assert kept["Action"] == ["s3:DeleteObject", "s3:AbortMultipartUpload"]
    assert kept["Resource"][3:] == [
        f"arn:aws:s3:::lake/wh/t1/{folder}{end}*" for folder in ("m", "m/x") for end in (";", ".", " ")
    ]
    assert written(asked)[-1]["Resource"] == kept["Resource"][:3]
    # A policy without is found out.
    literal = session_policy(asked, AMAZON, PLAIN)
    assert "metadata below it" in excess(literal, asked, PLAIN, literal=False)
    assert excess(literal, asked, PLAIN) == ""
    assert excess(session_policy(asked, COMPATIBLE, PLAIN), asked, PLAIN, literal=False) == ""


def test_a_store_that_knows_no_sessions_in_policies_is_not_told_of_them() -> None:
    """MinIO refuses the whole policy for an action that it does not know."""
    language = PolicyLanguage(denies_sessions=False)
    statements = written(scope(), AMAZON, language)
    assert all("sts:*" not in statement["Action"] for statement in statements)
    policy = session_policy(scope(), AMAZON, language)
    assert excess(policy, scope(), language) == ""
    assert excess(policy, scope(), AWS_LANGUAGE) != ""


@pytest.mark.parametrize(
    ("name", "said"),
    (
        ("t*", "t${*}"),
        ("t?", "t${?}"),
        ("t$", "t${$}"),
        ("${aws:username}", "${$}{aws:username}"),
        ("${*}", "${$}{${*}}"),
        ("tä", "tä"),
        ('t"', 't"'),
    ),
)
def test_hostile_names_are_said_literally(name: str, said: str) -> None:
    """Unescaped, the name of a table would be a pattern for those of all others."""
    objects, lists, *_ = written(scope(f"lake/wh/{name}"))
    assert objects["Resource"] == [f"arn:aws:s3:::lake/wh/{said}/*"]
    assert lists["Condition"]["StringLike"]["s3:prefix"] == [f"wh/{said}/*"]


@pytest.mark.parametrize("name", ("t*", "t?", "t$", "${aws:username}"))
def test_a_store_without_escapes_gets_no_such_names(name: str) -> None:
    """SeaweedFS and MinIO take `t*` for a pattern, and `t${*}` for nothing at all."""
    found = refusal(scope(f"lake/wh/{name}"), COMPATIBLE, PLAIN)
    assert found.reason is Reason.SCOPE_NOT_VENDABLE
    assert name in found.detail
    assert written(scope(f"lake/wh/{name}"), COMPATIBLE, language_of(COMPATIBLE, escapes=True))


@pytest.mark.parametrize(
    "place",
    (
        "lake/",
        "lake/wh/../t2",
        "lake/wh//t1",
        "lake/wh/t1/",
        "lake//t1",
        "lake/wh/t\n1",
        "lake/wh/t\x001",
        "lake/wh/t\u202e1",
        "lake/wh/t%2a",
        "lake/wh/t%2F..%2Ft2",
        "lake/wh/t\ud800",
        "la*e/wh/t1",
        "l/wh/t1",
        "/wh/t1",
    ),
)
def test_what_cannot_be_said_is_refused(place: str) -> None:
    """Each of these is read in two ways by some part of some store; the root of a bucket is every table."""
    assert refusal(scope(place)).reason is Reason.SCOPE_NOT_VENDABLE
    assert refusal(scope("lake/wh/t1", place)).reason is Reason.SCOPE_NOT_VENDABLE
    assert refusal(scope(metadata_places=(place,))).reason is Reason.SCOPE_NOT_VENDABLE


def test_a_table_without_a_location_gets_nothing() -> None:
    """A policy without statements might be taken for no policy, and so for all that the role may do."""
    empty = VendScope(
        storage="lake",
        locations=(),
        access=READ_WRITE,
        metadata=MetadataLevel.OPEN,
        metadata_locations=(),
        others=scope().others,
        principal="corp/alice",
        policy_epoch=1,
        event_id="x",
    )
    assert refusal(empty).reason is Reason.SCOPE_NOT_VENDABLE


def test_write_once_cannot_be_said() -> None:
    """No session policy keeps a writer from replacing an object; a reader needs none."""
    assert refusal(scope(access=READ_WRITE, overwrite=Overwrite.FORBID)).reason is Reason.SCOPE_NOT_VENDABLE
    assert written(scope(overwrite=Overwrite.FORBID))


def test_what_does_not_fit_is_refused_with_its_size() -> None:
    """Cut off, or joined to what they have in common, locations would reach into the neighbours'."""
    uuid = "6f1a3c5e-0000-4000-8000-000000000001"
    one = scope(f"lake/{uuid}/{uuid}/{uuid}/{uuid}", access=READ_WRITE)
    assert len(session_policy(one, AMAZON, AWS_LANGUAGE)) < MAX_CHARACTERS // 2
    many = scope(*[f"lake/{uuid}/{number}/{uuid}" for number in range(12)])
    found = refusal(many)
    assert found.reason is Reason.SCOPE_TOO_LARGE
    assert "2048" in found.detail
    assert "12 locations" in found.detail


def test_the_size_is_that_of_the_text_that_is_sent() -> None:
    """Each letter beyond ASCII takes six characters: services take nothing above U+00FF in a policy."""
    text = session_policy(scope("lake/wh/日本"), AMAZON, AWS_LANGUAGE)
    assert text.isascii()
    assert "\\u65e5\\u672c" in text
    assert refusal(scope(f"lake/{'日' * 170}")).reason is Reason.SCOPE_TOO_LARGE


@pytest.mark.parametrize(
    ("region", "partition"), (("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eu-west-1", "aws"))
)
def test_the_partition_is_that_of_the_region(region: str, partition: str) -> None:
    """A policy about another partition's buckets allows nothing."""
    storage = Storage("lake", StorageKind.AWS, region, ("lake",), (), literal_keys=True)
    objects, *_ = written(scope(), storage, language_of(storage))
    assert objects["Resource"] == [f"arn:{partition}:s3:::lake/wh/t1/*"]


def test_locations_are_whole_folders() -> None:
    """Without the slash, `t1` would cover `t10`."""
    assert at("lake/wh/t1") == Location("lake", "wh/t1")
    for statement in written(scope(access=READ_WRITE))[:1]:
        assert all(each.endswith("/*") for each in statement["Resource"])
