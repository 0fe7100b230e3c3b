"""From a sign request to the request that S3 sees; vectors L and D of other signers among them."""

from __future__ import annotations

import hashlib

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.bulk_delete import read_bulk_delete
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.operation import Operation
from signproxy.s3.request import BulkRequest, ObjectRef, S3Request
from signproxy.s3.storage import EndpointClash, EndpointIndex, OptIns, S3Endpoint, Storage, StorageKind, Style
from tests.s3.world import AWS, AWS_HOST, AWS_PATH, KEY, MINIO, accepted, outcome, wire, with_opt_ins


def _bulk(*keys: str) -> str:
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'


def test_everything_of_a_plain_read_is_in_its_place() -> None:
    """The decision and the signature read these fields and nothing else."""
    request = accepted(
        wire("GET", f"{AWS_PATH}/wh/t1/day%3D1/a=b+c~.parquet", {"Range": "bytes=0-3", "x-amz-te": "append-md5"})
    )
    assert request == S3Request(
        operation=Operation.GET_OBJECT,
        method="GET",
        uri=f"{AWS_PATH}/wh/t1/day%3D1/a=b+c~.parquet",
        storage=AWS,
        bucket="my-bucket",
        key="wh/t1/day=1/a=b+c~.parquet",
        host="s3.us-west-2.amazonaws.com",
        canonical_path="/my-bucket/wh/t1/day%3D1/a%3Db%2Bc~.parquet",
        canonical_query="",
        headers=(("x-amz-te", "append-md5"),),
        payload="UNSIGNED-PAYLOAD",
    )


def test_a_plain_key_is_as_long_as_a_key_may_be() -> None:
    """What is read at one look would else be signed however long it is, and cut or refused by the store."""
    assert accepted(wire("GET", f"{AWS_HOST}/{'a' * 1024}")).key == "a" * 1024
    assert outcome(wire("GET", f"{AWS_HOST}/{'a' * 1025}")) is Reason.KEY_TOO_LONG


_CANONICAL = [
    # (uri, key, canonical path, canonical query)
    (f"{AWS_HOST}/a/b", "a/b", "/a/b", ""),
    (f"{AWS_HOST}/a%2Fb", "a/b", "/a/b", ""),  # one key, two spellings: judged as one
    (f"{AWS_HOST}/q%252Fv", "q%2Fv", "/q%252Fv", ""),
    (f"{AWS_HOST}/%c3%a9", "\u00e9", "/%C3%A9", ""),
    (f"{AWS_HOST}/%7Ea", "~a", "/~a", ""),
    (f"{AWS_HOST}/x+y", "x+y", "/x%2By", ""),
    (f"{AWS_HOST}/a:b", "a:b", "/a%3Ab", ""),
    (f"{AWS_HOST}/d=a%2Bb%253D1/f", "d=a+b%3D1/f", "/d%3Da%2Bb%253D1/f", ""),
    (f"{AWS_HOST}/a?x-id=GetObject", "a", "/a", "x-id=GetObject"),
    (f"{AWS_HOST}/a?uploadId=u%2Fv&max-parts=2", "a", "/a", "max-parts=2&uploadId=u%2Fv"),
    (f"{AWS_PATH}/a%20b", "a b", "/my-bucket/a%20b", ""),
]


def test_a_query_of_nothing_is_no_query() -> None:
    """The stamp would be appended behind a second mark, and be a parameter of another name to the store."""
    request = accepted(wire("GET", f"{AWS_HOST}/a?"))
    assert (request.uri, request.canonical_path, request.canonical_query) == (f"{AWS_HOST}/a", "/a", "")


@pytest.mark.parametrize(("uri", "key", "path", "query"), _CANONICAL)
def test_the_path_is_decoded_once_and_encoded_anew(uri: str, key: str, path: str, query: str) -> None:
    """S3 signs its own spelling of the path, not the client's."""
    request = accepted(wire("GET", uri))
    assert (request.key, request.canonical_path, request.canonical_query) == (key, path, query)
    assert request.uri == uri


_BUCKET_LEVEL = [
    (AWS_HOST, "/"),
    (f"{AWS_HOST}/", "/"),
    (AWS_PATH, "/my-bucket"),
    (f"{AWS_PATH}/", "/my-bucket/"),
]


@pytest.mark.parametrize(("base", "path"), _BUCKET_LEVEL)
def test_an_empty_path_is_signed_as_a_slash(base: str, path: str) -> None:
    """Java sends `https://bucket.host?delete` without a slash; the store sees one."""
    request = accepted(wire("POST", f"{base}?delete", body=_bulk("wh/t1/a")))
    assert (request.canonical_path, request.canonical_query, request.key) == (path, "delete=", "")
    listed = accepted(wire("GET", f"{base}?list-type=2&prefix=wh%2Ft1/"))
    assert (listed.canonical_path, listed.prefix) == (path, "wh/t1/")
    assert listed.canonical_query == "list-type=2&prefix=wh%2Ft1%2F"


_L: list[tuple[str, str, str | Reason]] = [
    ("L1", "http://minio.local:9000/lake?list-type=2&prefix=ns/tbl/", "ns/tbl/"),
    ("L1 slash", "http://minio.local:9000/lake/?list-type=2&prefix=ns/tbl/", "ns/tbl/"),
    ("L2", "https://lake.s3.minio.corp/?list-type=2&prefix=ns/tbl/", "ns/tbl/"),
    ("L2 no slash", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl/", "ns/tbl/"),
    ("L3", "https://lake.s3.minio.corp?list-type=2&prefix=ns%2Ftbl%2F", "ns/tbl/"),
    # Others accept it, because the result only shrinks; an empty segment is an empty segment.
    ("L4", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl//", Reason.LIST_PREFIX),
    (
        "L5",
        "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl/&continuation-token=a&max-keys=9&encoding-type=url",
        "ns/tbl/",
    ),
    ("L6 none", "https://lake.s3.minio.corp?list-type=2", Reason.LIST_PREFIX),
    ("L6 none, path", "http://minio.local:9000/lake?list-type=2", Reason.LIST_PREFIX),
    ("L6 empty", "https://lake.s3.minio.corp?list-type=2&prefix=", Reason.LIST_PREFIX),
    ("L8 backslash", "https://lake.s3.minio.corp?list-type=2&prefix=ns%5Ctbl", Reason.LIST_PREFIX),
    ("L8 backslash key", "https://lake.s3.minio.corp/ns%5Ctbl", Reason.KEY_CHARACTER),
    ("L9 FFFE", "https://lake.s3.minio.corp?list-type=2&prefix=%FF%FE", Reason.QUERY_MALFORMED),
    ("L9 C328", "https://lake.s3.minio.corp?list-type=2&prefix=%C3%28", Reason.QUERY_MALFORMED),
    ("L9 80", "https://lake.s3.minio.corp?list-type=2&prefix=%80", Reason.QUERY_MALFORMED),
    ("L10 empty segment", "https://lake.s3.minio.corp?list-type=2&prefix=ns//tbl/", Reason.LIST_PREFIX),
    ("L10 leading", "https://lake.s3.minio.corp?list-type=2&prefix=/ns/tbl/", Reason.LIST_PREFIX),
    ("L10 dots", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl/../other/", Reason.LIST_PREFIX),
    ("L10 NUL", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl/%00", Reason.LIST_PREFIX),
    ("L11 prefix", "https://lake.s3.minio.corp?list-type=2&prefix=a/&prefix=b/", Reason.QUERY_REPEATED),
    ("L11 type", "https://lake.s3.minio.corp?list-type=2&list-type=2&prefix=a/", Reason.QUERY_REPEATED),
    ("L11 types", "https://lake.s3.minio.corp?list-type=1&list-type=2&prefix=a/", Reason.QUERY_REPEATED),
    ("L12 bare", "http://minio.local:9000/lake", Reason.OPERATION_REFUSED),
    ("L12 versions", "http://minio.local:9000/lake?versions&prefix=a/", Reason.OPERATION_REFUSED),
    ("L12 uploads", "http://minio.local:9000/lake?uploads&prefix=a/", Reason.OPERATION_REFUSED),
    ("L12 location", "http://minio.local:9000/lake?location", Reason.OPERATION_REFUSED),
    ("L12 V1", "http://minio.local:9000/lake?prefix=a/", Reason.OPERATION_REFUSED),
    ("L13 path", "http://minio.local:9000/lake/other?list-type=2&prefix=a/", Reason.OPERATION_UNKNOWN),
    ("L13 host", "https://lake.s3.minio.corp/other?list-type=2&prefix=a/", Reason.OPERATION_UNKNOWN),
    ("L13 key is bucket", "https://lake.s3.minio.corp/lake?list-type=2&prefix=a/", Reason.OPERATION_UNKNOWN),
    (
        "L14",
        "http://minio.local:9000/lake%2Fns%2Ftbl%2F%2E%2E%2F%2E%2E?list-type=2&prefix=ns/tbl/",
        Reason.ENDPOINT_UNKNOWN,
    ),
    ("L15 plus", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl+dir/", "ns/tbl dir/"),
    ("L15 escaped plus", "https://lake.s3.minio.corp?list-type=2&prefix=ns/tbl%2Bdir/", "ns/tbl+dir/"),
    ("L16 policy", "https://lake.s3.minio.corp?list-type=2&prefix=a/&policy", Reason.OPERATION_REFUSED),
    ("L16 acl", "https://lake.s3.minio.corp?list-type=2&prefix=a/&acl", Reason.OPERATION_REFUSED),
    ("L16 versions", "https://lake.s3.minio.corp?list-type=2&prefix=a/&versions", Reason.OPERATION_REFUSED),
    ("L16 uploads", "https://lake.s3.minio.corp?list-type=2&prefix=a/&uploads", Reason.OPERATION_REFUSED),
    ("L16 location", "https://lake.s3.minio.corp?list-type=2&prefix=a/&location", Reason.OPERATION_REFUSED),
]


@pytest.mark.parametrize(("_name", "uri", "expected"), _L, ids=[row[0] for row in _L])
def test_a_list_names_one_prefix_of_the_bucket(_name: str, uri: str, expected: str | Reason) -> None:
    """`remove_orphan_files` needs lists; a list without bounds shows every table."""
    got = outcome(wire("GET", uri, region="us-east-1"))
    assert (got.prefix if isinstance(got, S3Request) else got) == expected


def test_l7_a_path_and_a_prefix_decode_alike() -> None:
    """If they differed, a list could name what a read of the same text cannot."""
    compared = 0
    for escape in [f"%{byte:02X}" for byte in range(256)] + ["%C3%A9", "%2525", "%2f"]:
        got = outcome(wire("GET", f"{AWS_HOST}/wh/t1/a{escape}b"))
        listed = outcome(wire("GET", f"{AWS_HOST}?list-type=2&prefix=wh/t1/a{escape}b"))
        if isinstance(got, S3Request):
            assert isinstance(listed, S3Request)
            assert listed.prefix == got.key
            compared += 1
        else:
            assert not isinstance(listed, S3Request), escape
    # 95 printable ASCII characters without the backslash, and the three longer escapes.
    assert compared == 94 + 3


_D: list[tuple[str, str, str | None, tuple[str, ...] | Reason]] = [
    (
        "D1",
        "http://minio.local:9000/lake?delete",
        _bulk(*(f"ns/tbl/{i}" for i in range(5))),
        tuple(f"ns/tbl/{i}" for i in range(5)),
    ),
    ("D2", "https://lake.s3.minio.corp/?delete", _bulk("a"), ("a",)),
    ("D2 no slash", "https://lake.s3.minio.corp?delete", _bulk("a"), ("a",)),
    ("D2 empty value", "https://lake.s3.minio.corp?delete=", _bulk("a"), ("a",)),
    # A version is deleted for good: it is refused, not ignored.
    (
        "D3",
        "https://lake.s3.minio.corp?delete",
        "<Delete><Object><Key>a</Key><VersionId>1</VersionId></Object></Delete>",
        Reason.DELETE_BODY,
    ),
    ("D4", "https://lake.s3.minio.corp?delete", "<Delete/>", Reason.DELETE_SIZE),
    ("D5", "https://lake.s3.minio.corp?delete", "<Delete><Object><Key>a</Object></Delete>", Reason.DELETE_BODY),
    ("D7", "http://minio.local:9000/lake/other/x.json?delete", _bulk("a"), Reason.OPERATION_UNKNOWN),
    ("no body", "https://lake.s3.minio.corp?delete", None, Reason.DELETE_WITHOUT_BODY),
    ("empty body", "https://lake.s3.minio.corp?delete", "", Reason.DELETE_WITHOUT_BODY),
    ("no text", "https://lake.s3.minio.corp?delete", "\ud800", Reason.DELETE_BODY),
]


@pytest.mark.parametrize(("_name", "uri", "body", "expected"), _D, ids=[row[0] for row in _D])
def test_a_bulk_delete_is_its_body(_name: str, uri: str, body: str | None, expected: tuple[str, ...] | Reason) -> None:
    """A delete whose keys were not read could empty the bucket."""
    got = outcome(wire("POST", uri, region="us-east-1", body=body))
    assert (got.delete_keys if isinstance(got, S3Request) else got) == expected


def test_the_checked_body_is_the_signed_one() -> None:
    """Unsigned, the client could swap the list of keys after it was checked."""
    body = _bulk("wh/t1/\U0001f9ca")
    digest = hashlib.sha256(body.encode()).hexdigest()
    uri = f"{AWS_HOST}?delete"
    assert accepted(wire("POST", uri, body=body)).payload == digest
    assert accepted(wire("POST", uri, {"x-amz-content-sha256": digest}, body=body)).payload == digest
    for other, reason in (("UNSIGNED-PAYLOAD", Reason.DELETE_UNBOUND), ("0" * 64, Reason.PAYLOAD_HASH)):
        with pytest.raises(Refused, match=f"x-amz-content-sha256 '{other}' is not the hash of the body") as refused:
            accepted(wire("POST", uri, {"x-amz-content-sha256": other}, body=body))
        # Told as what it is: the body itself is in order.
        assert refused.value.reason is reason


def test_a_body_that_was_read_before_is_not_read_again() -> None:
    """What was found in it holds for the body that is signed, its refusal too, and in its turn among the checks."""
    body = _bulk("wh/t1/a")
    plain = wire("POST", f"{AWS_HOST}?delete", body=body)
    fields = {name: getattr(plain, name) for name in plain.__struct_fields__}
    read = read_bulk_delete(_bulk("wh/t1/b").encode())
    classified = accepted(BulkRequest(**fields, deletes=read))
    assert classified.delete_keys == ("wh/t1/b",)
    assert classified.payload == hashlib.sha256(body.encode()).hexdigest()
    fault = Refused(Reason.DELETE_REPEATED, "read before")
    with pytest.raises(Refused) as refused:
        accepted(BulkRequest(**fields, deletes=fault))
    assert (refused.value.reason, refused.value.detail) == (fault.reason, fault.detail)
    assert outcome(BulkRequest(**{**fields, "uri": f"{AWS_HOST}?acl"}, deletes=fault)) is Reason.OPERATION_UNKNOWN
    assert outcome(BulkRequest(**{**fields, "body": None}, deletes=read)) is Reason.DELETE_WITHOUT_BODY


def test_a_body_without_a_bulk_delete_is_refused() -> None:
    """It is bound by nothing, so its sender expects more than it gets."""
    with pytest.raises(Refused, match="3 characters with PutObject") as refused:
        accepted(wire("PUT", f"{AWS_HOST}/{KEY}", body="abc"))
    assert refused.value.reason is Reason.BODY_UNEXPECTED
    assert isinstance(outcome(wire("PUT", f"{AWS_HOST}/{KEY}", body="")), S3Request)


_REFUSED = [
    # (what breaks the rule, reason); each request is wrong in later checks too, so the order shows
    (wire("PATCH", "https://evil/x//y?a=1&a=2", {"x-amz-mfa": "1"}, region="x"), Reason.ENDPOINT_UNKNOWN),
    (wire("PATCH", f"{AWS_HOST}/x//y?a=1&a=2", {"x-amz-mfa": "1"}, region="x"), Reason.REGION_MISMATCH),
    (wire("PATCH", f"{AWS_HOST}/x//y?a=1&a=2", {"x-amz-mfa": "1"}), Reason.QUERY_REPEATED),
    (wire("PATCH", f"{AWS_HOST}/x//y?a=1", {"x-amz-mfa": "1"}), Reason.KEY_EMPTY_SEGMENT),
    (wire("PATCH", f"{AWS_HOST}/x/y?a=1", {"x-amz-mfa": "1"}), Reason.METHOD_UNKNOWN),
    (wire("PUT", f"{AWS_HOST}/x/y", {"x-amz-mfa": "1"}, body="b"), Reason.HEADER_REFUSED),
    (wire("PUT", f"{AWS_HOST}/x/y", {"x-amz-copy-source": "arn:x"}, body="b"), Reason.COPY_SOURCE),
    (wire("PUT", f"{AWS_HOST}/x/y", body="b"), Reason.BODY_UNEXPECTED),
]


@pytest.mark.parametrize(("request_", "reason"), _REFUSED, ids=[reason.code for _, reason in _REFUSED])
def test_the_checks_run_in_their_order(request_: object, reason: Reason) -> None:
    """`explain` says that all checks before the failed one passed; so they must have run."""
    assert outcome(request_) is reason  # type: ignore[arg-type]  # a WireRequest of the table above


def test_the_checks_of_the_table_above_stand_in_order() -> None:
    """A row that is out of order would prove nothing."""
    checks = [reason.check for _, reason in _REFUSED]
    assert checks == sorted(checks)


def test_the_region_is_the_storages() -> None:
    """Another scope makes a signature that the store calls malformed."""
    with pytest.raises(Refused, match="region 'eu-west-1', storage 'aws' is 'us-west-2'"):
        accepted(wire("GET", f"{AWS_HOST}/{KEY}", region="eu-west-1"))


def test_the_refusal_of_an_address_shows_it() -> None:
    """The operator compares it with the endpoints of the policy."""
    with pytest.raises(Refused, match=r"origin 'https://nowhere.example'"):
        accepted(wire("GET", "https://nowhere.example/a"))
    with pytest.raises(Refused, match=r"bucket 'other' is none of the storage's at host 's3.us-west-2.amazonaws.com'"):
        accepted(wire("GET", "https://s3.us-west-2.amazonaws.com/other/a"))


_SOURCES: list[tuple[str, ObjectRef | None]] = [
    ("/my-bucket/wh/t1/a", ObjectRef("my-bucket", "wh/t1/a")),
    ("my-bucket/wh/t1/a", ObjectRef("my-bucket", "wh/t1/a")),
    ("/my-bucket/wh/t1/a%20b%2Bc", ObjectRef("my-bucket", "wh/t1/a b+c")),
    ("/my-bucket/a%252Fb", ObjectRef("my-bucket", "a%2Fb")),
    ("/my-bucket/caf%C3%A9", ObjectRef("my-bucket", "caf\u00e9")),
    # Any bucket is read here; whether it may be a source is the decision's question.
    ("/other-bucket/a", ObjectRef("other-bucket", "a")),
    ("/my-bucket/a+b", None),  # a space to some stores, a plus to others
    ("/my-bucket/a b", None),
    ("/my-bucket/", None),
    ("/my-bucket", None),
    ("//my-bucket/a", None),
    ("/my-bucket//a", None),
    ("/my-bucket/a//b", None),
    ("/my-bucket/../other/a", None),
    ("/my-bucket/%2e%2e/other/a", None),
    ("/my-bucket/a%00", None),
    ("/my-bucket/%FF", None),
    ("/my-bucket/a?versionId=v1", None),
    ("/my-bucket/a#f", None),
    ("/my%2dbucket/a", None),
    ("/MY-BUCKET/a", None),
    ("/ab/a", None),
    ("arn:aws:s3:us-west-2:123456789012:accesspoint/ap/object/a", None),
    ("/arn:aws:s3:::my-bucket/a", None),
    ("http://my-bucket/a", None),
    ("", None),
    ("/my-bucket/a\n", None),
    ("/my-bucket/caf\u00e9", None),
]


@pytest.mark.parametrize(("value", "expected"), _SOURCES, ids=[ascii(value) for value, _ in _SOURCES])
def test_a_copy_source_is_a_bucket_and_a_key(value: str, expected: ObjectRef | None) -> None:
    """A source that is misread is a read of another table."""
    if expected is not None:
        assert parse_copy_source(value, versions=False) == expected
        return
    with pytest.raises(Refused) as refused:
        parse_copy_source(value, versions=False)
    assert refused.value.reason is Reason.COPY_SOURCE


def test_a_version_of_the_source_is_an_opt_in() -> None:
    """`S3FileIO.recoverFile` copies an old version over the object; nothing else needs it."""
    value = "/my-bucket/wh/t1/a?versionId=3sL4kqtJlcpXroDTDmJ-rmSpXd3dIbrHY.MTRCxf3vjVBH40Nr8X8gdRQBpUMLUo"
    assert parse_copy_source(value, versions=True) == ObjectRef("my-bucket", "wh/t1/a")
    with pytest.raises(Refused, match="a version of the source needs the storage's opt-in 'recover'"):
        parse_copy_source(value, versions=False)
    request = wire("PUT", f"{AWS_HOST}/{KEY}", {"x-amz-copy-source": value})
    assert accepted(request, with_opt_ins(OptIns(recover=True))).operation is Operation.COPY_OBJECT
    assert outcome(request) is Reason.COPY_SOURCE
    with pytest.raises(Refused, match=r"key_dot_segment: key '../a'"):
        parse_copy_source("/my-bucket/../a", versions=True)
    with pytest.raises(Refused, match="copy source 'x' is not /bucket/key, encoded once"):
        parse_copy_source("x", versions=True)


def test_copies_carry_their_source() -> None:
    """Without it the decision would judge a plain write."""
    for uri, operation in (
        (f"{AWS_HOST}/{KEY}", Operation.COPY_OBJECT),
        (f"{AWS_HOST}/{KEY}?partNumber=1&uploadId=u", Operation.UPLOAD_PART_COPY),
    ):
        request = accepted(wire("PUT", uri, {"X-Amz-Copy-Source": "/my-bucket/wh/t1/a%20b"}))
        assert (request.operation, request.copy_source) == (operation, ObjectRef("my-bucket", "wh/t1/a b"))
        assert request.headers == (("x-amz-copy-source", "/my-bucket/wh/t1/a%20b"),)


def _storage(name: str, authority: str, styles: tuple[Style, ...], *buckets: str) -> Storage:
    return Storage(name, StorageKind.S3_COMPATIBLE, "r", buckets, (S3Endpoint("http", authority, styles),))


def test_two_storages_may_share_a_host_but_not_a_bucket() -> None:
    """Two regions of AWS share the global host; with a shared bucket the keys of either would sign."""
    both = (Style.PATH, Style.VIRTUAL_HOST)
    index = EndpointIndex([_storage("a", "h", both, "one"), _storage("b", "h", both, "two")])
    origin = index.find("http://h")
    assert origin is not None
    assert {bucket: storage.name for bucket, storage in origin.storages.items()} == {"one": "a", "two": "b"}
    with pytest.raises(EndpointClash, match="http://h with bucket 'one' is claimed by storage 'a' and by 'b'"):
        EndpointIndex([_storage("a", "h", both, "one"), _storage("b", "h", both, "one")])


def test_one_origin_is_not_read_in_two_styles() -> None:
    """`http://one.h/two/k` would be key `two/k` of `one`, or key `k` of `two`."""
    virtual = _storage("a", "h", (Style.VIRTUAL_HOST,), "one")
    path = _storage("b", "one.h", (Style.PATH,), "two")
    for order in ([virtual, path], [path, virtual]):
        with pytest.raises(EndpointClash):
            EndpointIndex(order)


def test_the_default_port_may_be_spelled_out_and_no_other() -> None:
    """The Host that a client sends leaves the default port out, and so does the signature."""
    index = EndpointIndex([_storage("a", "h:80", (Style.PATH,), "one"), _storage("b", "h:8080", (Style.PATH,), "two")])
    assert set(index) == {"http://h", "http://h:80", "http://h:8080"}
    for origin, host in (("http://h", "h"), ("http://h:80", "h"), ("http://h:8080", "h:8080")):
        found = index.find(origin)
        assert found is not None
        assert found.host == host
    assert index.find("https://h") is None
    assert set(EndpointIndex([MINIO])) == {
        "http://minio.local:9000",
        "https://s3.minio.corp",
        "https://s3.minio.corp:443",
        "https://lake.s3.minio.corp",
        "https://lake.s3.minio.corp:443",
        "https://b.with.dot.s3.minio.corp",
        "https://b.with.dot.s3.minio.corp:443",
        "http://127.0.0.1:9000",
    }


def test_the_hosts_of_a_region() -> None:
    """A host too few locks clients out; one too many signs for another region."""
    from signproxy.s3.storage import aws_endpoints

    def hosts(region: str) -> set[str]:
        assert {endpoint.scheme for endpoint in aws_endpoints(region)} == {"https"}
        return {endpoint.authority for endpoint in aws_endpoints(region)}

    common = {"s3.{0}", "s3-{0}", "s3.dualstack.{0}", "s3-fips.{0}", "s3-fips.dualstack.{0}"}
    accelerated = {"s3-accelerate", "s3-accelerate.dualstack"}
    for region, suffix, global_host in (
        ("eu-west-1", "amazonaws.com", True),
        ("us-east-1", "amazonaws.com", True),
        ("us-gov-west-1", "amazonaws.com", False),
        ("us-iso-east-1", "amazonaws.com", False),
        ("cn-north-1", "amazonaws.com.cn", False),
    ):
        expected = {f"{host.format(region)}.{suffix}" for host in common | accelerated}
        assert hosts(region) == expected | ({f"s3.{suffix}"} if global_host else set())
