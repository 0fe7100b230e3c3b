"""The gate of the S3 listener: every key by the volume or table that it lies in, and one refusal for all else."""

from __future__ import annotations

from time import gmtime, strftime
from typing import Any

import pytest

from signproxy.errors import Check, Reason, Refused
from signproxy.gate.explain import explain
from signproxy.gate.forwarded import BucketsShown, Passed, StoreBucket
from signproxy.gate.request import AskedFor
from signproxy.model import Ceiling, KeyScope, Subject, TableId, TableScope, VolumeId
from signproxy.s3.forward_wire import ForwardWire
from tests.gate.forward_cases import POLICY, Site, caller, delete, wire

T1 = "wh/t1/data/f.parquet"
LIST = "list-type=2&prefix="


def volume(name: str) -> VolumeId:
    return VolumeId("lake", name)


# -- what lies where ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "who", "place", "rule"),
    (
        (wire(key=T1), "reader", TableId("lake", "ns", "t1"), "reader@namespace:lake.ns"),
        (wire("PUT", key=T1), "writer", TableId("lake", "ns", "t1"), "writer@namespace:lake.ns"),
        (wire(query=f"{LIST}wh/t1/"), "reader", TableId("lake", "ns", "t1"), "reader@namespace:lake.ns"),
        (wire(query="prefix=wh/t1/"), "reader", TableId("lake", "ns", "t1"), "reader@namespace:lake.ns"),
        (wire(key="stage/a"), "reader", volume("stage"), "reader@volume:lake/stage"),
        (wire("PUT", key="stage/a"), "writer", volume("stage"), "writer@volume:lake/stage"),
        (wire(query=f"{LIST}stage/"), "reader", volume("stage"), "reader@volume:lake/stage"),
        (wire("PUT", key="folders/a//b/"), "writer", volume("folders"), "writer@volume:lake/folders"),
        (wire("HEAD", key="folders"), "writer", volume("folders"), "writer@volume:lake/folders"),
        (wire(bucket="raw", query="list-type=2"), "writer", volume("raw"), "writer@volume:lake/raw"),
        (wire(bucket="raw", query="versioning"), "writer", volume("raw"), "writer@volume:lake/raw"),
        (wire("PUT", "raw", "a", "acl"), "writer", volume("raw"), "writer@volume:lake/raw"),
        (wire("PUT", "raw", query="versioning"), "owner", volume("raw"), "owner@catalog:lake"),
        (wire("PUT", "tmp-7"), "owner", volume("made"), "owner@catalog:lake"),
        (wire(bucket="my-other", key="b/b1/f"), "reader", TableId("beside", "ns", "b1"), "reader@catalog:beside"),
    ),
)
async def test_what_is_allowed_says_for_what_and_by_which_rule(
    asked: ForwardWire, who: str, place: TableId | VolumeId, rule: str
) -> None:
    """The audit trail has nothing else to say why a request was served."""
    site = Site()
    passed = await site.passed(asked, who)
    allow = passed.allow
    assert (allow.table or allow.volume) == place
    assert (allow.table is None) is isinstance(place, VolumeId)
    assert allow.authority.rule_id == rule
    assert site.judgement.allow is allow
    assert (site.judgement.request, site.judgement.deny) == (passed.forwardable.request, None)
    assert site.judgement.catalog == place.catalog
    assert site.judgement.table_uuid == ("u1" if place == TableId("lake", "ns", "t1") else "")
    assert (passed.refused, passed.observed) == ((), None)


@pytest.mark.parametrize(
    ("asked", "who", "reason"),
    (
        (wire("PUT", key=T1), "reader", Reason.NO_WRITE_DATA),
        (wire("PUT", key="stage/a"), "reader", Reason.NO_WRITE_DATA),
        (wire(key="folders/a"), "reader", Reason.NO_READ_DATA),
        (wire("PUT", "raw", query="versioning"), "writer", Reason.NO_MANAGE),
        (wire("PUT", "raw"), "writer", Reason.NO_MANAGE),
        (wire(key="elsewhere/a"), "reader", Reason.LOCATION_UNOWNED),
        (wire(key="wh/hidden/a"), "reader", Reason.NO_REMOTE_SIGN),
        (wire(key="wh/t1/metadata/v1.metadata.json"), "reader", Reason.METADATA_PROTECTED),
        (wire(key="wh/sealed/metadata/m0.avro"), "reader", Reason.METADATA_SEALED),
        (wire("PUT", key="wh/once/f", if_match='"e"'), "writer", Reason.WRITE_ONCE),
        (wire("PUT", "vault", "f", if_match='"e"'), "writer", Reason.WRITE_ONCE),
        # A list shows what lies below its prefix, and nothing else.
        (wire(query=f"{LIST}wh/"), "reader", Reason.LOCATION_UNOWNED),
        (wire(query=f"{LIST}wh/t1"), "reader", Reason.LOCATION_UNOWNED),
        (wire(query=f"{LIST}stage"), "reader", Reason.OUTSIDE_TABLE),
        (wire(query="list-type=2"), "reader", Reason.LIST_PREFIX),
        # What is open in one place is closed in another.
        (wire(key="wh/t1/a", query="acl"), "reader", Reason.OPERATION_REFUSED),
        (wire(key="stage/a", query="nosuch"), "reader", Reason.OPERATION_UNKNOWN),
        (wire(query="versioning"), "owner", Reason.OPERATION_REFUSED),
        (wire("PUT", key="stage/a//b"), "writer", Reason.KEY_EMPTY_SEGMENT),
        (wire("PUT", key="wh/t1/../t2/f"), "writer", Reason.KEY_DOT_SEGMENT),
        (wire("PUT", "tmp-7", "a/../b"), "owner", Reason.KEY_DOT_SEGMENT),
        (wire(bucket="nosuch", key="a"), "reader", Reason.ENDPOINT_UNKNOWN),
        (wire(bucket="tmp-../", key="a"), "owner", Reason.ENDPOINT_UNKNOWN),
        (wire(key=T1), "stranger", Reason.PRINCIPAL_UNKNOWN),
        (wire(bucket="far", key="dark/a"), "far", Reason.REMOTE_SIGNING_OFF),
        (wire(bucket="far", key="foreign/a"), "foreign", Reason.CATALOG_FEDERATED),
    ),
)
async def test_what_is_refused_is_refused_for_its_own_fault(asked: ForwardWire, who: str, reason: Reason) -> None:
    """A wrong reason sends the operator to the wrong place."""
    site = Site()
    assert await site.reason(asked, who) is reason
    assert site.judgement.allow is None


async def test_what_is_written_once_is_guarded() -> None:
    """The guard is the way's to add; here it is asked for."""
    site = Site()
    assert (await site.passed(wire("PUT", key="wh/once/f"), "writer")).allow.write_once
    assert (await site.passed(wire("PUT", "vault", "f"), "writer")).allow.write_once
    assert not (await site.passed(wire("PUT", key=T1), "writer")).allow.write_once


async def test_the_policy_in_force_judges() -> None:
    """A revoke bites on the next request, whatever was remembered of the caller."""
    site = Site()
    assert await site.reason(wire(key=T1)) is Reason.ALLOWED
    site.state = Site(
        POLICY.replace("namespace: ns, privileges: [TABLE_REMOTE_SIGN, ", "namespace: ns, privileges: [")
    ).state
    assert await site.reason(wire(key=T1)) is Reason.NO_REMOTE_SIGN
    site.state = Site(POLICY.replace("remote_signing: true\ndefault", "remote_signing: false\ndefault")).state
    assert await site.reason(wire(key=T1)) is Reason.REMOTE_SIGNING_OFF
    assert await site.reason(wire(bucket="")) is Reason.REMOTE_SIGNING_OFF


async def test_what_is_remembered_of_callers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets are a caller's to name: a caller who guesses must not fill the memory."""
    from signproxy.gate import attempt

    monkeypatch.setattr(attempt, "_KEPT", 2)
    site = Site()
    for _ in range(2):
        for bucket in ("tmp-1", "tmp-2", "tmp-3"):
            assert await site.reason(wire(bucket=bucket, key="a"), "owner") is Reason.ALLOWED


async def test_one_bucket_of_two_stores_is_of_neither() -> None:
    """Two catalogs may give one name to two buckets; guessing which is meant would be wrong half of the time."""
    two = POLICY.replace("beside: {storages: [main]", "beside: {storages: [other]").replace(
        "catalogs:\n",
        '  other: {kind: s3-compatible, region: us-east-1, buckets: [my-other], endpoints: [{url: "http://o.local"}]}\n'
        "catalogs:\n",
        1,
    )
    site = Site(two)
    with pytest.raises(Refused) as refused:
        await site.ask(wire(bucket="my-other", key="b/b1/f"))
    assert refused.value.reason is Reason.ENDPOINT_UNKNOWN
    assert "'main' of catalog 'lake', 'other' of catalog 'beside'" in refused.value.detail
    # A caller that may speak for one of the catalogs alone means its bucket.
    beside = Subject.of(caller("reader", catalogs=("beside",)))
    assert await site.reason(wire(bucket="my-other", key="b/b1/f"), beside) is Reason.ALLOWED


# -- buckets -----------------------------------------------------------------------------------------------------------


async def test_buckets_are_listed_to_their_readers() -> None:
    """The store's own list would show the buckets of all tenants."""
    site = Site()
    service = wire(bucket="")
    since = strftime("%Y-%m-%dT%H:%M:%S.000Z", gmtime(site.state.loaded_at))
    assert not since.startswith("1970")

    def listed(*names: str, **more: Any) -> BucketsShown:
        return BucketsShown(names, (since,) * len(names), **more)

    assert await site.ask(service, "reader") == listed("my-bucket", "my-other")
    assert await site.ask(service, "writer") == listed("my-bucket", "raw", "vault")
    first = await site.ask(wire(bucket="", query="max-buckets=1&prefix=my-"), "reader")
    assert first == listed("my-bucket", prefix="my-", next_token="my-bucket")
    rest = await site.ask(wire(bucket="", query="max-buckets=1&prefix=my-&continuation-token=my-bucket"), "reader")
    assert rest == listed("my-other", prefix="my-")
    assert await site.reason(service, "stranger") is Reason.PRINCIPAL_UNKNOWN
    owned = await site.ask(service, "owner")
    assert isinstance(owned, BucketsShown)
    # The names in `tmp-*` are the store's to tell, and only of the storage that the volume is in.
    backup, main = (site.state.catalogs["lake"].storages[name] for name in ("backup", "main"))
    assert owned.unlisted == (backup,)
    made, foreign = "2020-01-02T03:04:05.678Z", "1999-01-01T00:00:00Z"
    told = [
        StoreBucket("tmp-1", backup, made), StoreBucket("tmp-1", main, foreign), StoreBucket("tmp-2", main, made),
        StoreBucket("tmp-3", backup), StoreBucket("elsewhere", backup, made), StoreBucket("vault", backup, foreign),
        StoreBucket("raw", backup, "<never>"),
    ]  # fmt: skip
    shown = (await site.gate.forward.buckets(site.judgement, told)).passed
    assert isinstance(shown, BucketsShown)
    assert shown.names == tuple(sorted({*owned.names, "tmp-1", "tmp-3"}))
    # The store's own word, of the storage that the bucket is in; of what it does not say, the policy's load.
    dates = dict(zip(shown.names, shown.created, strict=True))
    assert dates == dict.fromkeys(shown.names, since) | {"tmp-1": made, "vault": foreign}
    kept = await site.gate.forward.buckets(await site.judge(service, "reader"), told)
    assert kept.passed == listed("my-bucket", "my-other")
    assert await site.ask(service, "reader") is not None
    assert site.judgement.operation == "ListBuckets"
    assert await site.reason(wire("PUT", bucket=""), "reader") is not Reason.ALLOWED


async def test_a_bucket_is_shown_to_its_readers() -> None:
    """Tools ask for the bucket before they ask for a key."""
    site = Site()
    for asked in (wire("HEAD"), wire(query="location")):
        passed = await site.passed(asked, "reader")
        assert passed.allow.authority.rule_id == "reader@bucket:lake/my-bucket"
        assert (passed.allow.table, passed.allow.volume) == (None, None)
    assert await site.reason(wire("HEAD", "raw"), "reader") is Reason.NO_READ_DATA
    assert await site.reason(wire("HEAD", "my-other"), "reader") is Reason.ALLOWED
    assert site.judgement.catalog == "beside"


# -- scopes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "open_to"),
    (
        (KeyScope("lake"), {"t1", "deep", "stage"}),
        (KeyScope("lake", "ns"), {"t1", "deep"}),
        (KeyScope("lake", "ns", "t1"), {"t1"}),
        (KeyScope("lake", "ns", "t1", "u1"), {"t1"}),
        (KeyScope("lake", "ns", "t1", "another"), set()),
        (KeyScope("lake", "n"), set()),
        (KeyScope("nosuch"), set()),
    ),
)
async def test_a_key_is_good_for_its_scope_and_nothing_else(scope: KeyScope, open_to: set[str]) -> None:
    """A finder of a key in a job's environment gets what the job needs, not what its owner may."""
    site = Site()
    subject = Subject.of(caller("writer", key=scope))
    asked = {"t1": wire(key=T1), "deep": wire(key="wh/deep/f"), "stage": wire(key="stage/f")}
    for name, one in asked.items():
        assert await site.reason(one, subject) is (Reason.ALLOWED if name in open_to else Reason.NOT_IN_SCOPE)


async def test_a_scope_holds_for_the_source_of_a_copy_and_for_each_deleted_key() -> None:
    """A key for one table would else read any other, by copying it."""
    site = Site()
    for scoped in (
        caller("writer", key=KeyScope("lake", "ns", "t1")),
        caller("writer", token=TableScope("lake", "ns", "t1")),
    ):
        subject = Subject.of(scoped)
        copy = wire("PUT", key=T1, x_amz_copy_source="/my-bucket/wh/t2/f")
        assert await site.reason(copy, subject) is Reason.NOT_IN_SCOPE
        passed = await site.passed(delete("wh/t1/a", "wh/t2/a"), subject)
        assert [refused.reason for refused in passed.refused] == [Reason.NOT_IN_SCOPE]


async def test_a_clamped_caller_only_reads() -> None:
    """A view's reader must not write on its owner's rights."""
    site = Site()
    subject = Subject(caller("writer"), caller("writer"), (), Ceiling.READ_ONLY)
    assert await site.reason(wire(key=T1), subject) is Reason.ALLOWED
    assert await site.reason(wire("PUT", key=T1), subject) is Reason.CEILING


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "source", "who", "reason"),
    (
        (T1, "my-bucket/wh/t2/f", "writer", Reason.ALLOWED),
        (T1, "my-bucket/stage/f", "writer", Reason.ALLOWED),
        ("stage/f", "my-bucket/wh/t1/f", "writer", Reason.ALLOWED),
        ("stage/f", "raw/f", "writer", Reason.ALLOWED),
        ("stage/f", "my-bucket/secret/f", "writer", Reason.COPY_SOURCE_OUTSIDE),
        ("stage/f", "my-bucket/wh/hidden/f", "writer", Reason.COPY_SOURCE_OUTSIDE),
        ("stage/f", "my-bucket/elsewhere/f", "writer", Reason.COPY_SOURCE_OUTSIDE),
        ("stage/f", "nosuch/f", "writer", Reason.COPY_SOURCE_OUTSIDE),
        # Another store cannot read it, and one of the same name is another bucket there.
        ("stage/f", "vault/f", "writer", Reason.COPY_SOURCE_OUTSIDE),
        ("stage/f", "my-bucket/wh/t1/metadata/v1.metadata.json", "writer", Reason.METADATA_PROTECTED),
        ("stage/f", "my-bucket/wh/sealed/metadata/m0.avro", "writer", Reason.METADATA_SEALED),
        # The rules of the target are not those of the source.
        ("folders/f", "my-bucket/wh/t1/a//b", "writer", Reason.COPY_SOURCE_OUTSIDE),
        ("folders/f", "my-bucket/folders/a/", "writer", Reason.ALLOWED),
        # Writing alone is not enough, and neither is reading.
        (T1, "my-bucket/stage/f", "copier", Reason.COPY_SOURCE_OUTSIDE),
        (T1, "my-bucket/secret/f", "copier", Reason.ALLOWED),
        ("secret/f", "my-bucket/wh/t1/f", "copier", Reason.NO_WRITE_DATA),
    ),
)
async def test_a_copy_reads_its_source(target: str, source: str, who: str, reason: Reason) -> None:
    """The store copies with the server's own key, which may read everything."""
    site = Site()
    assert await site.reason(wire("PUT", key=target, x_amz_copy_source=f"/{source}"), who) is reason


async def test_both_sides_of_a_copy_are_behind_it() -> None:
    """The audit trail must say who let the source be read."""
    copy = wire("PUT", key="stage/f", x_amz_copy_source="/my-bucket/wh/t1/f")
    passed = await Site().passed(copy, "writer")
    assert passed.allow.authority.rule_id == "writer@volume:lake/stage+writer@namespace:lake.ns"
    assert passed.forwardable.request.copy_source is not None


# -- bulk deletes ------------------------------------------------------------------------------------------------------


async def test_keys_of_one_place_are_deleted_together() -> None:
    """What every engine sends."""
    site = Site()
    for keys in (("wh/t1/a", "wh/t1/b"), ("stage/a", "stage/b"), ("folders/a/", "folders//b")):
        passed = await site.passed(delete(*keys), "writer")
        assert (passed.forwardable.request.delete_keys, passed.refused) == (keys, ())
        assert "+" not in passed.allow.authority.rule_id


async def test_keys_of_several_places_are_judged_one_by_one() -> None:
    """Tools delete what they listed, whatever it lies in."""
    passed = await Site().passed(delete("wh/t1/a", "stage/a", "wh/t2/b", "folders/x"), "writer")
    assert passed.refused == ()
    assert passed.forwardable.request.delete_keys == ("wh/t1/a", "stage/a", "wh/t2/b", "folders/x")
    assert passed.allow.table == TableId("lake", "ns", "t1")
    rules = "writer@namespace:lake.ns+writer@volume:lake/stage+writer@volume:lake/folders"
    assert passed.allow.authority.rule_id == rules


async def test_refused_keys_do_not_keep_the_others_back() -> None:
    """S3 answers key by key, and clients go on with what was deleted."""
    site = Site()
    keys = ("wh/t1/a", "wh/hidden/a", "elsewhere/a", "wh/t1/metadata/v1.metadata.json", "stage//a", "folders//a")
    passed = await site.passed(delete(*keys), "writer")
    assert passed.forwardable.request.delete_keys == ("wh/t1/a", "folders//a")
    assert site.judgement.request is passed.forwardable.request
    assert {refused.key: refused.reason for refused in passed.refused} == {
        "wh/hidden/a": Reason.NO_REMOTE_SIGN,
        "elsewhere/a": Reason.LOCATION_UNOWNED,
        "wh/t1/metadata/v1.metadata.json": Reason.METADATA_PROTECTED,
        "stage//a": Reason.KEY_EMPTY_SEGMENT,
    }
    assert site.judgement.deny is None


async def test_a_bulk_delete_of_nothing_allowed_is_refused() -> None:
    """A list of refusals under a 200 would be an allowed request to the audit trail."""
    site = Site()
    assert await site.reason(delete("wh/t1/a", "wh/hidden/b"), "reader") is Reason.NO_WRITE_DATA
    assert site.judgement.deny is not None
    assert site.judgement.deny.table == TableId("lake", "ns", "t1")
    assert await site.reason(wire("POST", query="delete"), "writer") is Reason.DELETE_WITHOUT_BODY


# -- observed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "reason"),
    (
        (wire("PUT", key=T1), Reason.NO_WRITE_DATA),
        (wire(key="elsewhere/a"), Reason.LOCATION_UNOWNED),
        (wire(query="list-type=2"), Reason.LIST_PREFIX),
        (wire(query="versioning"), Reason.OPERATION_REFUSED),
        (wire("PUT", key="stage/a//b"), Reason.KEY_EMPTY_SEGMENT),
        (wire("HEAD", "raw"), Reason.NO_READ_DATA),
        (delete("stage/a", "wh/t1/b"), Reason.NO_WRITE_DATA),
        (wire("PUT", key="wh/t1/a", x_amz_copy_source="/my-bucket/elsewhere/a"), Reason.NO_WRITE_DATA),
    ),
)
async def test_an_observed_caller_is_served_and_recorded(asked: ForwardWire, reason: Reason) -> None:
    """So an engine that still holds keys can be moved without an outage, and the day of `enforce` is known."""
    site = Site()
    passed = await site.passed(asked, "watched")
    assert passed.observed is not None
    assert passed.observed.reason is reason
    assert passed.allow.authority.rule_id == "observe@principal:idp/watched"
    assert (passed.allow.table, passed.allow.volume) == (passed.observed.table, passed.observed.volume)
    assert site.judgement.request is passed.forwardable.request
    assert passed.refused == ()
    # The same caller, enforced.
    assert await site.reason(asked, "reader") is reason


@pytest.mark.parametrize(
    "asked",
    (
        wire(key="elsewhere/a"),
        wire(key="wh/t2/data/x"),
        wire("PUT", key="stage/a"),
        wire(query="list-type=2"),
        wire(query="versioning"),
        wire("PUT", key="stage/a//b"),
        wire("PUT", key=f"{T1}/../x"),
        wire("HEAD", "raw"),
        wire("PUT", key=T1, x_amz_copy_source="/my-bucket/wh/hidden/a"),
        delete("elsewhere/a"),
        delete("wh/t1/data/a", "elsewhere/a"),
    ),
)
async def test_a_scope_holds_for_an_observed_caller(asked: ForwardWire) -> None:
    """A key for one table would open every other one, and what belongs to none, to a caller that is only watched."""
    site = Site()
    limited = Subject.of(caller("watched", key=KeyScope("lake", "ns", "t1")))
    assert (await site.judge(asked, limited)).refused is not None


async def test_within_its_scope_a_caller_is_observed() -> None:
    """A job that was given a key for its table would fail on the day that it is only to be watched."""
    site = Site()
    limited = Subject.of(caller("watched", key=KeyScope("lake", "ns", "t1")))
    judged = await site.judge(wire("PUT", key=T1), limited)
    assert isinstance(judged.passed, Passed)
    assert judged.passed.observed is not None
    assert judged.passed.observed.reason is Reason.NO_WRITE_DATA


async def test_what_the_policy_allows_is_not_observed() -> None:
    """Only what would have changed is worth an operator's time."""
    passed = await Site().passed(wire(key=T1), "watched")
    assert passed.observed is None
    assert passed.allow.authority.rule_id == "reader@namespace:lake.ns"


@pytest.mark.parametrize(
    ("asked", "reason"),
    (
        (wire(bucket="nosuch", key="a"), Reason.ENDPOINT_UNKNOWN),
        (wire("PUT", key="a/%zz"), Reason.KEY_ENCODING),
        (wire(key=T1, query="a=1&a=2"), Reason.QUERY_REPEATED),
        (wire("POST", query="delete", body=b"<Delete>"), Reason.DELETE_BODY),
        (wire("POST", query="delete", body=b"<Delete/>"), Reason.DELETE_SIZE),
    ),
)
async def test_an_observed_caller_still_sends_what_is_well_formed_and_configured(
    asked: ForwardWire, reason: Reason
) -> None:
    """The server's keys may reach more buckets than the policy names."""
    assert await Site().reason(asked, "watched") in (reason, Reason.URI_MALFORMED)


async def test_observing_lifts_no_scope_and_no_ceiling() -> None:
    """A key for one table stays one, and no caller gets another's rights."""
    site = Site()
    scoped = Subject.of(caller("watched", key=KeyScope("lake", "ns", "t1")))
    assert await site.reason(wire(key="stage/a"), scoped) is Reason.NOT_IN_SCOPE
    clamped = Subject(caller("watched"), caller("watched"), (), Ceiling.READ_ONLY)
    policy = POLICY.replace("roles: [readers], mode: observe", "roles: [writers], mode: observe")
    assert await Site(policy).reason(wire("PUT", key="wh/t1/a"), clamped) is Reason.CEILING
    delegated = Subject(caller("watched"), caller("reader"))
    assert await site.reason(wire("PUT", key="wh/t1/a"), delegated) is Reason.NO_WRITE_DATA


async def test_what_is_observed_is_neither_cut_nor_guarded() -> None:
    """A key that is kept back, or a write that the store refuses for our guard, would be enforcement."""
    policy = POLICY.replace("roles: [readers], mode: observe", "roles: [readers, writers], mode: observe")
    site = Site(policy)
    passed = await site.passed(delete("wh/t1/a", "wh/hidden/a"), "watched")
    assert passed.forwardable.request.delete_keys == ("wh/t1/a", "wh/hidden/a")
    assert (passed.refused, passed.observed is not None) == ((), True)
    once = await site.passed(wire("PUT", key="wh/once/f"), "watched")
    assert (once.allow.write_once, once.observed) == (False, None)


# -- explained ---------------------------------------------------------------------------------------------------------


async def _explained(asked: ForwardWire, who: str) -> dict[str, object]:
    site = Site()
    explained = await explain(site.gate, Subject.of(caller(who)), AskedFor(forward=asked))
    facts = {check: fact for check, outcome, fact in explained.checks if outcome != "skipped"}
    return {**explained._asdict(), "facts": facts}


async def test_a_forwarded_request_is_explained() -> None:
    """Operators ask why, whichever way a request takes."""
    allowed = await _explained(wire(key="stage/a"), "reader")
    assert (allowed["decision"], allowed["rule_id"]) == ("allow", "reader@volume:lake/stage")
    facts = allowed["facts"]
    assert isinstance(facts, dict)
    assert facts[Check.TABLE] == "volume lake/stage"
    assert facts[Check.URI] == "key 'stage/a'"
    refused = await _explained(wire("PUT", key="stage/a"), "reader")
    assert (refused["decision"], refused["reason"]) == ("deny", Reason.NO_WRITE_DATA)
    assert refused["fix"] == (
        'grant VOLUME_WRITE_DATA: grants: [{role: "reader", catalog: "lake", volume: "stage", '
        "privileges: [VOLUME_WRITE_DATA]}]"
    )
    outside = await _explained(wire(query=f"{LIST}stage"), "reader")
    assert outside["fix"] == Reason.OUTSIDE_TABLE.value.remedy


async def test_what_is_only_partly_allowed_is_explained() -> None:
    """`allow` alone would hide what was kept back, or what will be."""
    part = await _explained(delete("stage/a", "elsewhere/a"), "writer")
    assert part["detail"] == "1 keys are refused, the first 'elsewhere/a': location_unowned"
    observed = await _explained(wire("PUT", key=T1), "watched")
    assert str(observed["detail"]).startswith("only observed; would be refused: no_write_data: ")
    shown = await _explained(wire(bucket=""), "reader")
    assert shown["detail"] == "shown: my-bucket, my-other"
    bucket = await _explained(wire("HEAD"), "reader")
    facts = bucket["facts"]
    assert isinstance(facts, dict)
    assert facts[Check.TABLE] == "none; it is about the bucket"
