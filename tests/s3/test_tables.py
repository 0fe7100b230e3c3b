"""The closed lists of the room, written down once more: what a table loses or gains by a slip is noticed here."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.classify import classify
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.header_rules import CREDENTIALS, SIGNED, UNSIGNED, Treatment
from signproxy.s3.headers import MAX_HEADER_BYTES, UNSIGNED_PAYLOAD
from signproxy.s3.operation import Access, Operation
from signproxy.s3.payload import PayloadMode
from signproxy.s3.query import parse_query
from signproxy.s3.request import ObjectRef
from signproxy.s3.rules import KeyRules, OperationsAllowed
from signproxy.s3.storage import OptIns, Stamp, Storage, StorageKind, Style
from signproxy.s3.unsigned_operations import name_of
from signproxy.s3.uri import MAX_URI, decode_once, is_canonical, split_uri
from tests.s3.operation_rows import ROWS, Row
from tests.s3.world import AWS_HOST, AWS_PATH, ENDPOINTS, KEY, accepted, outcome, wire

URI = f"{AWS_HOST}/{KEY}"


def test_these_headers_are_signed() -> None:
    """A header that binds and is not signed can be swapped; one that is unknown fails the client that sends it."""
    assert set(
        """
        content-encoding content-md5 content-type x-amz-checksum-algorithm x-amz-checksum-crc32 x-amz-checksum-crc32c
        x-amz-checksum-crc64nvme x-amz-checksum-md5 x-amz-checksum-mode x-amz-checksum-sha1 x-amz-checksum-sha256
        x-amz-checksum-sha512 x-amz-checksum-type x-amz-checksum-xxhash128 x-amz-checksum-xxhash3
        x-amz-checksum-xxhash64 x-amz-decoded-content-length x-amz-if-match-initiated-time
        x-amz-if-match-last-modified-time x-amz-if-match-size x-amz-mp-object-size x-amz-sdk-checksum-algorithm
        x-amz-trailer
        """.split()
    ) == set(SIGNED)


_VOLATILE = """
    accept accept-charset accept-encoding accept-language baggage cache-control connection content-disposition
    content-language content-length cookie date dnt expect expires from if-match if-modified-since if-none-match
    if-range if-unmodified-since keep-alive max-forwards origin pragma priority proxy-authenticate proxy-connection
    range referer te traceparent tracestate trailer transfer-encoding upgrade upgrade-insecure-requests user-agent via
    warning x-amzn-trace-id x-client-version x-request-id
""".split()


@pytest.mark.parametrize("name", _VOLATILE)
def test_what_proxies_and_sdks_change_is_accepted_unsigned(name: str) -> None:
    """Signed, the next retry of the same request fails; refused, a whole client does."""
    assert accepted(wire("GET", URI, {name: "*"})).headers == ()


def test_no_other_header_is_taken_for_volatile() -> None:
    """What is accepted unsigned can be changed by any host on the way."""
    assert set(UNSIGNED) == set(_VOLATILE)


def test_only_the_signer_sets_credentials() -> None:
    """Java lays the client's own value over the signer's."""
    assert set(CREDENTIALS) == {"authorization", "proxy-authorization", "x-amz-date", "x-amz-security-token"}


def test_host_and_payload_hash_are_the_signers_own() -> None:
    """Both are part of every signature already; signed twice, no store accepts it."""
    sent = {"Host": AWS_HOST.removeprefix("https://"), "x-amz-content-sha256": UNSIGNED_PAYLOAD, "x-amz-meta-a": "1"}
    assert accepted(wire("GET", URI, sent)).headers == (("x-amz-meta-a", "1"),)


_CONDITIONAL: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False),
    ({"If-None-Match": "*"}, False),
    # Spelled as nowhere else: what is made of a set of names is remembered.
    ({"IF-none-match": '"e"'}, True),
    ({"If-Match": '"e"'}, True),
    ({"If-Match": "*"}, True),
    ({"If-Match": '"e"', "If-None-Match": "*"}, True),
    ({"If-None-Match": '"e"', "If-Match": "*"}, True),
    ({"If-Modified-Since": "x"}, False),
)


@pytest.mark.parametrize(("sent", "conditional"), _CONDITIONAL)
def test_a_condition_of_the_client_is_seen(sent: dict[str, str], *, conditional: bool) -> None:
    """On a table that forbids overwriting, a condition of the client's would replace the guard."""
    assert accepted(wire("PUT", URI, sent)).conditional is conditional


def test_header_values_are_limited_together_and_exactly() -> None:
    """The limit bounds the work; whatever stands below it must pass."""
    half = "x" * (MAX_HEADER_BYTES // 2)
    assert outcome(wire("PUT", URI, {"x-amz-meta-a": half, "x-amz-meta-b": half})) is not Reason.HEADER_MALFORMED
    assert outcome(wire("PUT", URI, {"x-amz-meta-a": half, "x-amz-meta-b": f"{half}x"})) is Reason.HEADER_MALFORMED


def test_a_header_without_a_value_is_refused_among_others_too() -> None:
    """A client library writes it as an empty header, or not at all: two signatures."""
    asked = wire("PUT", URI, {"Range": "x"})
    asked.headers["x-amz-meta-a"] = []
    with pytest.raises(Refused) as refused:
        classify(ENDPOINTS, asked)
    assert (refused.value.reason, refused.value.detail) == (Reason.HEADER_MALFORMED, "'x-amz-meta-a' has no value")


def test_the_header_that_holds_the_control_character_is_named() -> None:
    """Of twenty headers the operator wants to know which."""
    asked = wire("PUT", URI, {"Range": "<", "x-amz-meta-a": "a\nb"})
    with pytest.raises(Refused) as refused:
        classify(ENDPOINTS, asked)
    assert refused.value.detail == "value of 'x-amz-meta-a' holds a control character"


@pytest.mark.parametrize(("value", "folded"), (("a\tb", "a b"), ("a \t b", "a b"), (" a", "a"), ("\ta", "a"), ("", "")))
def test_white_space_is_folded_as_stores_fold_it(value: str, folded: str) -> None:
    """A tab is white space without being a space."""
    assert accepted(wire("PUT", URI, {"x-amz-meta-a": value})).headers == (("x-amz-meta-a", folded),)


def test_a_trailer_without_chunks_is_no_framing() -> None:
    """The framing mode for a plain body makes the store read the content as chunk sizes."""
    sent = {"Content-Encoding": "gzip", "x-amz-trailer": "x-amz-checksum-crc32"}
    assert accepted(wire("PUT", URI, sent)).payload == UNSIGNED_PAYLOAD


@pytest.mark.parametrize("row", [row for row in ROWS if not row.signed], ids=lambda row: row.operation)
def test_a_refused_operation_is_called_by_exactly_its_name(row: Row) -> None:
    """The name is what the operator searches for in AWS' documentation."""
    names = {part.partition("=")[0] for part in row.query.split("&") if part}
    # Without the rest of their query these are no opt-in of ours.
    uri = {"service": "https://s3.us-west-2.amazonaws.com/", "bucket": AWS_PATH, "object": f"{AWS_PATH}/{KEY}"}
    query = f"?{row.query}&versionId=1" if row.query else ""
    with pytest.raises(Refused) as refused:
        classify(ENDPOINTS, wire(row.method, uri[row.level] + query, row.headers))
    assert refused.value.reason is Reason.OPERATION_REFUSED
    assert row.operation in refused.value.detail.partition(":")[0].split(" or ")
    assert row.operation in str(name_of(row.method, row.level, names)).split(" or ")


_HALVES: tuple[tuple[str, str, str, str | None], ...] = (
    # A part of what tells an operation from others is not enough.
    ("GET", "bucket", "id", "ListObjects"),
    ("PUT", "bucket", "id", "CreateBucket"),
    ("DELETE", "bucket", "id", "DeleteBucket"),
    ("GET", "bucket", "metrics", "ListBucketMetricsConfigurations"),
    ("PUT", "bucket", "metrics", "CreateBucket"),
    ("PUT", "bucket", "analytics", "CreateBucket"),
    ("PUT", "bucket", "inventory", "CreateBucket"),
    ("PUT", "bucket", "intelligent-tiering", "CreateBucket"),
    ("DELETE", "bucket", "metrics", "DeleteBucket"),
    ("DELETE", "bucket", "analytics", "DeleteBucket"),
    ("DELETE", "bucket", "inventory", "DeleteBucket"),
    ("DELETE", "bucket", "intelligent-tiering", "DeleteBucket"),
    ("GET", "bucket", "versions", "ListObjectVersions"),
    ("GET", "bucket", "uploads", "ListMultipartUploads"),
    ("GET", "object", "annotation", "ListObjectAnnotations"),
    ("GET", "object", "annotationName", None),
    ("PUT", "object", "annotation", None),
    ("PUT", "object", "annotationName", None),
    ("DELETE", "object", "annotation", None),
    ("DELETE", "object", "annotationName", None),
    ("POST", "object", "select", None),
    ("POST", "object", "select-type", None),
    ("GET", "object", "tagging", "GetObjectTagging"),
    ("PUT", "object", "tagging", "PutObjectTagging"),
    ("POST", "bucket", "", None),
    ("PATCH", "object", "", None),
)


@pytest.mark.parametrize(("method", "level", "query", "name"), _HALVES)
def test_half_of_an_operations_query_is_another_operation(
    method: str, level: str, query: str, name: str | None
) -> None:
    """A refusal under a wrong name sends the operator after a request that was never made."""
    assert name_of(method, level, {query} - {""}) == name


_MARKED: tuple[tuple[str, str, Operation], ...] = (
    ("GET", "x-id=GetObject", Operation.GET_OBJECT),
    ("HEAD", "x-id=HeadObject", Operation.HEAD_OBJECT),
    ("PUT", "x-id=PutObject", Operation.PUT_OBJECT),
    ("DELETE", "x-id=DeleteObject", Operation.DELETE_OBJECT),
    ("DELETE", "uploadId=u&x-id=AbortMultipartUpload", Operation.ABORT_MULTIPART_UPLOAD),
    ("PUT", "partNumber=1&uploadId=u&x-id=UploadPart", Operation.UPLOAD_PART),
)


@pytest.mark.parametrize(("method", "query", "operation"), _MARKED)
def test_the_sdks_own_marker_changes_nothing(method: str, query: str, operation: Operation) -> None:
    """The Go, JavaScript and Rust SDKs append it to every request."""
    assert accepted(wire(method, f"{URI}?{query}")).operation is operation


@pytest.mark.parametrize(
    ("method", "uri", "reason"),
    (
        ("GET", f"{AWS_PATH}?list-type=2", Reason.LIST_PREFIX),
        # Only where the store would list is a prefix what is missing.
        ("GET", f"{URI}?list-type=2", Reason.OPERATION_UNKNOWN),
        ("PUT", f"{AWS_PATH}?list-type=2", Reason.OPERATION_REFUSED),
        ("HEAD", f"{AWS_PATH}?list-type=2", Reason.OPERATION_REFUSED),
        ("GET", f"{AWS_PATH}?prefix=wh/t1/", Reason.OPERATION_REFUSED),
        ("GET", f"{AWS_PATH}?list-type=2&prefix=wh/t1/&acl", Reason.OPERATION_REFUSED),
    ),
)
def test_a_list_without_a_prefix_is_told_from_no_list(method: str, uri: str, reason: Reason) -> None:
    """The remedy of the one is a prefix, of the other another client."""
    assert outcome(wire(method, uri)) is reason


def test_the_refusal_says_that_there_was_no_query() -> None:
    """`query names:` with nothing behind it looks like a fault of ours."""
    with pytest.raises(Refused) as refused:
        classify(ENDPOINTS, wire("PUT", AWS_PATH))
    assert refused.value.detail == "CreateBucket: PUT on bucket level, query names: none"


def test_words_that_stand_in_policies_and_events_are_what_they_are() -> None:
    """A word that changes breaks the policies, dashboards and queries that hold it."""
    assert [access.value for access in Access] == ["read", "write", "delete", "list"]
    assert [kind.value for kind in StorageKind] == ["aws", "s3-compatible"]
    assert [style.value for style in Style] == ["path", "virtual-host"]
    assert [stamp.value for stamp in Stamp] == ["query", "off"]
    # These head the columns of the documentation's table.
    assert [each.value for each in Treatment] == [
        "accepted, not signed", "signed", "signed if its value is allowed", "refused",
    ]  # fmt: skip
    assert [operation.s3_name for operation in Operation] == [
        "GetObject", "HeadObject", "ListObjectsV2", "ListParts", "PutObject", "CopyObject", "CreateMultipartUpload",
        "UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload", "DeleteObject",
        "DeleteObjects", "GetObjectTagging", "PutObjectTagging", "ListObjectVersions", "ListMultipartUploads",
        "HeadBucket", "GetBucketLocation", "ListObjects", "ListBuckets", "GetObjectAttributes", "DeleteObjectTagging",
        "OtherRead", "OtherWrite",
    ]  # fmt: skip
    assert [each.value for each in OperationsAllowed] == ["table", "object", "all"]
    assert [each.value for each in KeyRules] == ["strict", "s3"]
    assert [each.value for each in PayloadMode] == [
        "unsigned", "hashed", "unsigned-trailer", "signed-chunks", "signed-chunks-trailer",
    ]  # fmt: skip


def test_everything_beyond_plain_objects_is_off_unless_switched_on() -> None:
    """An opt-in that is on by default is none."""
    assert OptIns() == OptIns(
        tagging=False,
        recover=False,
        multipart_cleanup=False,
        bucket_owner_full_control=False,
        kms_keys=(),
        storage_classes=(),
    )


def test_a_storage_is_trusted_with_nothing_that_was_not_said() -> None:
    """A store that is taken for a careful one by default lets a signed write be turned into a copy."""
    assert Storage("s", StorageKind.AWS, "r", ("b",), ()) == Storage(
        name="s",
        kind=StorageKind.AWS,
        region="r",
        buckets=("b",),
        endpoints=(),
        stamp=Stamp.QUERY,
        checks_unsigned_headers=False,
        checks_payload_hash=False,
        pins_forwarded_headers=False,
        opt_ins=OptIns(),
        bucket_owner="",
        literal_keys=False,
        checks_trailers=False,
        accepts_chunked_transfer=False,
    )


def test_a_virtual_host_addresses_its_own_bucket_alone() -> None:
    """A host that stood for every bucket would sign one bucket's path for another."""
    named = ENDPOINTS.find("https://bkt.s3.us-west-2.amazonaws.com")
    assert named is not None
    assert (named.bucket, set(named.storages)) == ("bkt", {"bkt"})
    any_bucket = ENDPOINTS.find("https://s3.us-west-2.amazonaws.com")
    assert any_bucket is not None
    assert (any_bucket.bucket, set(any_bucket.storages)) == (None, {"my-bucket", "my.app.bucket", "bkt"})


_CANONICAL: tuple[tuple[str, bool], ...] = (
    ("", True),
    ("/", True),
    ("/wh/t1/f-1_2.~a", True),
    ("/a%20b%25%2B%3D%3A", True),
    ("/%C3%A9%FF%80%0A", True),
    ("/%3C%3E%22%7F", True),
    ("/a%2fb", False),
    ("/a%2Fb", False),
    ("/%41", False),
    ("/%7E", False),
    ("/%2D", False),
    ("/%5F", False),
    ("/%c3%a9", False),
    ("/%C3%a9", False),
    ("/a=b", False),
    ("/a+b", False),
    ("/a%", False),
    ("/%3<", False),
    ("/%30", False),
    ("/%31", False),
    ("/a b", False),
    ("/\u00e9", False),
)


@pytest.mark.parametrize(("raw", "canonical"), _CANONICAL)
def test_a_path_is_known_as_canonical(raw: str, *, canonical: bool) -> None:
    """A path that is taken for canonical is signed as it stands."""
    assert is_canonical(raw) is canonical


@pytest.mark.parametrize("raw", ("%FF", "a%C3b", "%C0%AE", "%ED%A0%80", "%F4%90%80%80", "a%80"))
def test_a_key_that_is_no_text_is_refused_as_that(raw: str) -> None:
    """Stores that do not check keep the bytes, and the object can no longer be named."""
    assert outcome(wire("GET", f"{AWS_HOST}/wh/t1/{raw}")) is Reason.KEY_ENCODING
    with pytest.raises(Refused) as refused:
        decode_once(raw)
    assert refused.value.reason is Reason.KEY_ENCODING


_FAULTS: tuple[tuple[str, Reason, str], ...] = (
    ("https://My-Bucket.s3.amazonaws.com/k", Reason.URI_MALFORMED, "host in upper case: 'My-Bucket.s3.amazonaws.com'"),
    ("https://my-bucket.s3.amazonaws.com/a b", Reason.URI_MALFORMED, "uri 'https://my-bucket.s3.amazonaws.com/a b'"),
    ("1http://a@b/k", Reason.URI_MALFORMED, "uri '1http://a@b/k'"),
    ("http://a@b/k", Reason.URI_USERINFO, "uri 'http://a@b/k'"),
    ("http://a/b@c d", Reason.URI_MALFORMED, "uri 'http://a/b@c d'"),
    ("http://a/b#c", Reason.URI_FRAGMENT, "uri 'http://a/b#c'"),
    ("", Reason.URI_MALFORMED, "uri ''"),
    ("http://a/#" + "k" * MAX_URI, Reason.URI_MALFORMED, "8202 characters, at most 8192 are read"),
    ("http://a/ " + "k" * (MAX_URI - 10), Reason.URI_MALFORMED, "uri 'http://a/ kkk"),
)


@pytest.mark.parametrize(("uri", "reason", "detail"), _FAULTS)
def test_the_fault_of_a_uri_is_named(uri: str, reason: Reason, detail: str) -> None:
    """Of a thousand characters the operator wants to know which one."""
    with pytest.raises(Refused) as refused:
        split_uri(uri)
    assert refused.value.reason is reason
    assert refused.value.detail.startswith(detail)


def test_a_plus_in_a_parameters_name_is_a_space() -> None:
    """S3 decodes names like values."""
    assert parse_query("a+b=1") == {"a b": "1"}


@pytest.mark.parametrize(("raw", "detail"), (("a&&b", "part ''"), ("=v", "part '=v' has no name")))
def test_an_empty_part_is_told_from_an_empty_name(raw: str, detail: str) -> None:
    """One is a doubled ampersand, the other a lost name."""
    with pytest.raises(Refused) as refused:
        parse_query(raw)
    assert refused.value.detail == detail


@pytest.mark.parametrize("bucket", ("abc", "a" * 63))
def test_the_shortest_and_longest_buckets_may_be_copied_from(bucket: str) -> None:
    """Bucket names have 3 to 63 characters."""
    assert parse_copy_source(f"/{bucket}/k", versions=False) == ObjectRef(bucket, "k")


@pytest.mark.parametrize("bucket", ("ab", "a" * 64))
def test_no_bucket_is_shorter_or_longer(bucket: str) -> None:
    """What is no bucket may be something else to some store."""
    with pytest.raises(Refused) as refused:
        parse_copy_source(f"/{bucket}/k", versions=False)
    assert refused.value.reason is Reason.COPY_SOURCE


@pytest.mark.parametrize("version", ("1", "a" * 1024))
def test_a_version_of_any_length_that_stores_have_may_be_copied(version: str) -> None:
    """Version ids are opaque."""
    assert parse_copy_source(f"b-b/k?versionId={version}", versions=True) == ObjectRef("b-b", "k")


@pytest.mark.parametrize("rest", ("/", "/k?versionId=", f"/k?versionId={'a' * 1025}"))
def test_a_source_without_key_or_version_is_told_by_its_form(rest: str) -> None:
    """The form is what has to be repaired."""
    with pytest.raises(Refused, match="is not /bucket/key, encoded once"):
        parse_copy_source(f"b-b{rest}", versions=True)
