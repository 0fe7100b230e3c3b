"""A forwarded request reaches the store as the client wrote it, and nothing is taken for another object than it is."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.s3.bulk_delete import read_bulk_delete
from signproxy.s3.codes import s3_answer
from signproxy.s3.forward_wire import decoded_key, is_bulk_delete, list_prefix, service_operation
from signproxy.s3.forwarded import FORWARDED, Forwardable, key_check, spellings
from signproxy.s3.operation import Operation
from signproxy.s3.payload import Carriage, PayloadMode
from signproxy.s3.request import ObjectRef
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.s3.storage import Storage
from tests.s3.forwarded_world import ALL, ALL_STRICT, LITERAL, OBJECT, TABLE, asked, outcome, passes
from tests.s3.world import AWS, KEY, MINIO
from tests.verifier import WireHttp, verify

NOW = 1_800_000_000
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
S3_KEYS = Rules(OperationsAllowed.TABLE, KeyRules.S3)


def signed_anew(passed: Forwardable) -> WireHttp:
    """Return what the store receives once the request is signed for it."""
    request = passed.request
    key = SigningKey("AKID", SECRET, request.storage.region)
    date = amz_date(NOW)
    authorization = key.authorization(
        request.method,
        request.host,
        request.canonical_path,
        request.canonical_query,
        request.headers,
        request.payload,
        date,
    )
    own = (
        ("Host", request.host),
        ("x-amz-date", date),
        ("x-amz-content-sha256", request.payload),
        ("Authorization", authorization),
    )
    return WireHttp(request.method, passed.target, (*own, *passed.headers))


def store_verifies(passed: Forwardable) -> None:
    """Fail unless a strict store accepts the request."""
    verify(signed_anew(passed), {"AKID": SECRET}, now=NOW, region=passed.request.storage.region)


def test_a_plain_read_is_passed_through() -> None:
    """This is nearly every request; every part of it is what the store will see."""
    passed = passes(asked(headers={"Range": "bytes=0-9"}, payload="UNSIGNED-PAYLOAD"))
    request = passed.request
    assert passed.target == request.canonical_path == f"/lake/{KEY}"
    assert request.uri == f"http://minio.local:9000/lake/{KEY}"
    assert (request.operation, request.key, request.bucket, request.host, request.canonical_query) == (
        Operation.GET_OBJECT,
        KEY,
        "lake",
        "minio.local:9000",
        "",
    )
    assert (passed.mode, passed.payload.carriage) == (PayloadMode.UNSIGNED, Carriage.AS_SENT)
    assert passed.outbound.scheme == "http"
    store_verifies(passed)


def test_the_bucket_goes_where_the_storage_wants_it() -> None:
    """AWS takes it in the host, where it is signed too."""
    passed = passes(asked(bucket="my-bucket"), storage=AWS)
    assert (passed.target, passed.request.host) == (f"/{KEY}", "my-bucket.s3.us-west-2.amazonaws.com")
    store_verifies(passed)
    of_bucket = passes(asked("HEAD", "", bucket="my-bucket"), storage=AWS)
    assert (of_bucket.target, of_bucket.request.canonical_path) == ("/", "/")
    store_verifies(of_bucket)
    assert passes(asked("HEAD", "")).target == "/lake"


_KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
_SPELLINGS = st.sampled_from(("/~", "/~!$&'()*,;=:@", "~", "/"))
_VALUES = st.text(st.characters(codec="utf-8"), max_size=12)


@settings(max_examples=300, deadline=None)
@given(key=_KEYS, safe=_SPELLINGS, lower=st.booleans(), literal=st.booleans())
@example(key="a/../b", safe="/~", lower=False, literal=False)
@example(key="a+b c/%2F", safe="/~", lower=True, literal=True)
def test_any_key_reaches_the_store_byte_for_byte(key: str, safe: str, lower: bool, literal: bool) -> None:
    """A key that is spelled anew on its way is another key to a store that is careless with escapes."""
    raw = quote(key, safe=safe)
    if lower:
        raw = re.sub("%..", lambda found: found[0].lower(), raw)
    found = outcome(asked("PUT", raw), ALL, LITERAL if literal else MINIO)
    if isinstance(found, Reason):
        refused = len(key.encode()) > 1024 or re.search(r"(^|[/\\])\s*\.{1,2}\s*($|[/\\;])|//|^/|(^|[/\\])\s*;", key)
        assert refused
        assert not literal
        return
    assert found.target == f"/lake/{raw}"
    assert found.request.key == key
    store_verifies(found)


@settings(max_examples=200, deadline=None)
@given(prefix=_VALUES, marker=_VALUES, plus=st.booleans())
def test_any_query_reaches_the_store_byte_for_byte(prefix: str, marker: str, plus: bool) -> None:
    """A continuation token that is spelled anew begins the list again."""
    raw = f"list-type=2&prefix={quote(prefix, safe='/~')}&start-after={quote(marker, safe='')}&delimiter=%2f"
    if plus:
        raw = raw.replace("%20", "+")
    passed = passes(asked("GET", "", raw), ALL, LITERAL)
    assert passed.target == f"/lake?{raw}"
    assert passed.request.prefix == prefix
    store_verifies(passed)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"(x-amz-meta-|X-Amz-Meta-|accept-|if-)[a-z]{1,5}", fullmatch=True).filter(
            lambda name: "snowball" not in name
        ),
        st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=10),
        max_size=5,
    )
)
def test_any_headers_reach_the_store_as_they_were(headers: dict[str, str]) -> None:
    """Whatever is sent and not signed could be added by any host on the way."""
    if len({name.lower() for name in headers}) < len(headers):
        return
    passed = passes(asked("PUT", headers=headers), ALL)
    assert passed.headers == tuple(headers.items())
    store_verifies(passed)


_STRANGE = (
    ("a/b/", None, None),
    (" ", None, None),
    ("a/ b", None, None),
    ("a/..b/c.", None, None),
    ("a\u2028b", None, None),
    ("a\tb", None, None),
    ("/a", Reason.KEY_EMPTY_SEGMENT, None),
    ("a//b", Reason.KEY_EMPTY_SEGMENT, None),
    ("/", Reason.KEY_EMPTY_SEGMENT, None),
    ("a/../b", Reason.KEY_DOT_SEGMENT, None),
    ("a/./b", Reason.KEY_DOT_SEGMENT, None),
    ("..", Reason.KEY_DOT_SEGMENT, None),
    ("a/.. /b", Reason.KEY_DOT_SEGMENT, None),
    ("a\\..\\b", Reason.KEY_DOT_SEGMENT, None),
    ("a/..;x/b", Reason.KEY_DOT_SEGMENT, None),
    ("a/;x/b", Reason.KEY_PATH_PARAMETER, None),
    ("a;x/b;", None, None),
    ("a\0b", Reason.KEY_CHARACTER, Reason.KEY_CHARACTER),
    ("k" * 1025, Reason.KEY_TOO_LONG, Reason.KEY_TOO_LONG),
    ("\u00e9" * 513, Reason.KEY_TOO_LONG, Reason.KEY_TOO_LONG),
    ("k" * 1024, None, None),
)


@pytest.mark.parametrize(("key", "folding", "literal"), _STRANGE)
def test_a_key_is_refused_where_the_store_may_read_another(
    key: str, folding: Reason | None, literal: Reason | None
) -> None:
    """Some stores resolve dots and fold slashes: what was judged in one place is written in another."""
    for storage, reason in ((MINIO, folding), (LITERAL, literal)):
        found = outcome(asked("GET", quote(key, safe="")), ALL, storage)
        assert (found if isinstance(found, Reason) else None) is reason


@pytest.mark.parametrize("key", ("a/b/", "a//b", "a/../b", "a\tb", "/a", "a\\b", "k" * 1025))
def test_in_a_table_only_plain_keys_are_addressed(key: str) -> None:
    """Both ways must refuse the same keys."""
    for rules in (TABLE, OBJECT, ALL_STRICT):
        assert isinstance(outcome(asked("GET", quote(key, safe="/")), rules, LITERAL), Reason)


@pytest.mark.parametrize(
    ("raw_key", "strict", "wide"),
    (
        ("a%zz", Reason.URI_MALFORMED, Reason.URI_MALFORMED),
        ("a%", Reason.URI_MALFORMED, Reason.URI_MALFORMED),
        ("a#b", Reason.URI_MALFORMED, Reason.URI_MALFORMED),
        ("a b", Reason.URI_MALFORMED, Reason.URI_MALFORMED),
        ("a\x7fb", Reason.URI_MALFORMED, Reason.URI_MALFORMED),
        ("%ff", Reason.KEY_ENCODING, Reason.KEY_ENCODING),
        ("%c0%af", Reason.KEY_ENCODING, Reason.KEY_ENCODING),
        ('a"b|c^d', Reason.URI_MALFORMED, None),
    ),
)
def test_what_is_no_path_is_refused(raw_key: str, strict: Reason, wide: Reason | None) -> None:
    """A lone percent sign is read in three ways by three servers."""
    for rules, reason in ((TABLE, strict), (ALL, wide)):
        found = outcome(asked("GET", raw_key), rules)
        assert (found if isinstance(found, Reason) else None) is reason


@pytest.mark.parametrize("bucket", ("a/b", "..", ".hidden", "a b", "a%2fb", "a@b", "a:1", "x" * 256, "\u00e9", "a\n"))
def test_a_bucket_s_name_changes_neither_path_nor_host(bucket: str) -> None:
    """A name with a slash addresses another bucket; one with an at sign another host."""
    assert outcome(asked("GET", bucket=bucket), ALL, LITERAL) is Reason.ENDPOINT_UNKNOWN
    assert outcome(asked("GET", bucket=bucket), ALL, AWS) is Reason.ENDPOINT_UNKNOWN


def test_a_volume_s_buckets_need_not_be_listed() -> None:
    """Where clients create buckets, the policy knows only how their names begin."""
    assert passes(asked("PUT", "", bucket="new-bucket_1"), ALL).target == "/new-bucket_1"


@pytest.mark.parametrize(
    ("query", "reason"),
    (
        ("", None),
        ("x-id=GetObject", None),
        ("a=%zz", Reason.QUERY_MALFORMED),
        ("a b", Reason.QUERY_MALFORMED),
        ("a#b", Reason.QUERY_MALFORMED),
        ("versionId=1;2", Reason.QUERY_MALFORMED),
        ("versionId=1&versionId=2", Reason.QUERY_REPEATED),
        ("x-amz-acl=public-read", Reason.QUERY_RESERVED),
        ("X-Amz-Signature=a", Reason.QUERY_RESERVED),
        ("x-minio-force-delete=true", Reason.QUERY_RESERVED),
    ),
)
def test_a_query_is_read_in_one_way_only(query: str, reason: Reason | None) -> None:
    """Which of two values counts differs between stores."""
    found = outcome(asked("GET", KEY, query), ALL)
    assert (found if isinstance(found, Reason) else None) is reason
    if isinstance(found, Forwardable):
        assert found.target == (f"/lake/{KEY}?{query}" if query else f"/lake/{KEY}")
        store_verifies(found)


@pytest.mark.parametrize(
    ("prefix", "rules", "storage", "reason"),
    (
        ("wh/t1/", TABLE, MINIO, None),
        ("", TABLE, MINIO, Reason.LIST_PREFIX),
        ("", S3_KEYS, MINIO, None),
        ("a/../b", TABLE, MINIO, Reason.LIST_PREFIX),
        ("", OBJECT, MINIO, None),
        ("a//", OBJECT, MINIO, Reason.LIST_PREFIX),
        ("a/../b", ALL, MINIO, Reason.LIST_PREFIX),
        ("/", ALL, MINIO, None),
        ("a/../b", ALL, LITERAL, None),
    ),
)
def test_a_prefix_is_held_to_the_keys_rules(prefix: str, rules: Rules, storage: Storage, reason: Reason | None) -> None:
    """A store that resolves dots lists the neighbour's keys."""
    found = outcome(asked("GET", "", f"list-type=2&prefix={quote(prefix)}"), rules, storage)
    assert (found if isinstance(found, Reason) else None) is reason


_SOURCES = (
    ("/lake/wh/t1/a", "wh/t1/a", None, None),
    ("lake/wh/t1/a%20b%2Fc", "wh/t1/a b/c", None, None),
    ("/lake/wh/t1/a?versionId=v1", "wh/t1/a", Reason.COPY_SOURCE, None),
    ("/lake/wh/t1/d/", "wh/t1/d/", Reason.COPY_SOURCE, None),
    ("/lake/a b", "a b", Reason.COPY_SOURCE, None),
    ("/lake/a%2F..%2Fb", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    # Some clients encode all of it; what can be split in two places is refused.
    ("%2Flake%2Fwh%2ft1%2Fa%20b", "wh/t1/a b", Reason.COPY_SOURCE, None),
    ("lake%2Fa", "a", Reason.COPY_SOURCE, None),
    ("lake%2Fa/b", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("lake%2Fother/../lake/a", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("lake%2F..%2Fother%2Fa", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("lake%252Fa", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("/lake/a+b", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("/lake/a?x=1", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("/lake/a%zz", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("arn:aws:s3:::lake/a", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("/lake/", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
    ("", "", Reason.COPY_SOURCE, Reason.COPY_SOURCE),
)


@pytest.mark.parametrize(("value", "key", "in_table", "in_volume"), _SOURCES)
def test_a_copy_source_is_decoded_once(value: str, key: str, in_table: Reason | None, in_volume: Reason | None) -> None:
    """A source that is read as another one than it is judged as is the oldest hole of such proxies."""
    wire = asked("PUT", headers={"x-amz-copy-source": value})
    for rules, reason in ((TABLE, in_table), (ALL, in_volume)):
        found = outcome(wire, rules)
        if reason is not None:
            assert found is reason
            continue
        assert isinstance(found, Forwardable)
        assert found.request.copy_source == ObjectRef("lake", key)
        assert found.request.operation is Operation.COPY_OBJECT
    part = asked("PUT", KEY, "partNumber=1&uploadId=u", {"x-amz-copy-source": "/lake/a"})
    assert passes(part).request.operation is Operation.UPLOAD_PART_COPY


def _delete(*objects: str) -> bytes:
    return ("<Delete>" + "".join(f"<Object>{each}</Object>" for each in objects) + "</Delete>").encode()


def test_a_bulk_delete_is_bound_by_its_hash() -> None:
    """Unsigned, the keys could be exchanged once they were judged."""
    body = _delete("<Key>wh/t1/a</Key>", "<Key>wh/t1/b</Key>")
    digest = hashlib.sha256(body).hexdigest()
    for payload in ("", "UNSIGNED-PAYLOAD", digest):
        passed = passes(asked("POST", "", "delete", body=body, payload=payload))
        assert passed.request.delete_keys == ("wh/t1/a", "wh/t1/b")
        assert passed.request.payload == digest
        store_verifies(passed)
    assert outcome(asked("POST", "", "delete", body=body, payload="0" * 64)) is Reason.PAYLOAD_HASH
    assert outcome(asked("POST", "", "delete")) is Reason.DELETE_WITHOUT_BODY
    assert outcome(asked("POST", "", "delete", body=b"x")) is Reason.DELETE_BODY
    assert outcome(asked("PUT", body=b"x")) is Reason.BODY_UNEXPECTED
    assert passes(asked("PUT", body=b"")).request.operation is Operation.PUT_OBJECT


_VERSION = "<Key>a</Key><VersionId>v</VersionId>"


@pytest.mark.parametrize(
    ("objects", "rules", "keys"),
    (
        ((_VERSION,), TABLE, None),
        ((_VERSION,), S3_KEYS, None),
        ((_VERSION, "<Key>a</Key><VersionId>w</VersionId>"), OBJECT, ("a",)),
        (("<Key>a</Key><ETag>e</ETag><Size>1</Size><LastModifiedTime>t</LastModifiedTime>",), ALL, ("a",)),
        (("<Key>a</Key><Other>e</Other>",), ALL, None),
        (("<Key>a</Key><VersionId><b/></VersionId>",), ALL, None),
        (("<Key>a</Key><Key>b</Key>",), ALL, None),
        (("<VersionId>v</VersionId>",), ALL, None),
        # S3 takes a repeated key.
        (("<Key>b</Key>", "<Key>a</Key>", "<Key>b</Key>"), TABLE, ("b", "a")),
        # Refused one by one, if at all: a whole clean-up fails for one odd name otherwise.
        (("<Key> a</Key>", "<Key>d/</Key>", "<Key>a/../b//c</Key>"), TABLE, (" a", "d/", "a/../b//c")),
        (("<Key> a</Key>", "<Key>d/</Key>", "<Key>a/../b//c</Key>"), ALL, (" a", "d/", "a/../b//c")),
        (("<Key/>",), TABLE, ("",)),
        ((f"<Key>{'a' * 1024}</Key>",), TABLE, ("a" * 1024,)),
        ((f"<Key>{'a' * 1025}</Key>", "<Key>b</Key>"), TABLE, ("a" * 1025, "b")),
        ((f"<Key>{'ä' * 513}</Key>", "<Key>b</Key>"), ALL, ("ä" * 513, "b")),
    ),
)
def test_the_objects_of_a_bulk_delete_follow_the_rules_of_their_place(
    objects: tuple[str, ...], rules: Rules, keys: tuple[str, ...] | None
) -> None:
    """A version that is deleted is gone; which keys may be addressed is asked of each of them."""
    for storage in (MINIO, LITERAL):
        found = outcome(asked("POST", "", "delete", body=_delete(*objects)), rules, storage)
        if keys is None:
            assert found is Reason.DELETE_BODY
            continue
        assert isinstance(found, Forwardable)
        assert found.request.delete_keys == keys
        assert found.deletes is not None
        assert len(found.deletes.objects) == len(objects)


def test_a_checksum_in_the_query_of_a_presigned_bulk_delete_is_one_of_its_headers() -> None:
    """It would be sent on as that of another body: in the query nothing compares or replaces it."""
    wire = replace(
        asked("POST", "", "delete", body=_delete("<Key>a</Key>")), hoisted=(("x-amz-checksum-crc32", "AA=="),)
    )
    passed = passes(wire)
    assert (passed.headers, passed.hoisted) == ((("x-amz-checksum-crc32", "AA=="),), "")
    assert passed.request.headers == (("x-amz-checksum-crc32", "AA=="),)


def test_a_forwarded_body_that_was_read_before_is_not_read_again() -> None:
    """A long body is read piece by piece, and its fault is told in its turn among the checks."""
    wire = asked("POST", "", "delete", body=_delete("<Key>a</Key>"))
    read = read_bulk_delete(_delete("<Key>b</Key><VersionId>v</VersionId>"), FORWARDED)
    passed = outcome(replace(wire, deletes=read), ALL)
    assert isinstance(passed, Forwardable)
    assert (passed.deletes, passed.request.delete_keys) == (read, ("b",))
    with pytest.raises(Refused, match="VersionId of key 'b'") as refused:
        passes(replace(wire, deletes=read))
    assert refused.value.reason is Reason.DELETE_BODY
    # It is a document that S3 knows, and what is refused is what it asks for.
    words = (
        "In a table a bulk delete names objects by their key alone: VersionId is not accepted; leave it out. "
        "Only volumes accept it"
    )
    assert s3_answer(refused.value) == (400, "InvalidArgument", words, ())
    fault = Refused(Reason.DELETE_BODY, "read before")
    with pytest.raises(Refused) as refused:
        passes(replace(wire, deletes=fault))
    assert (refused.value.reason, refused.value.detail) == (fault.reason, fault.detail)
    assert outcome(replace(wire, deletes=fault, payload="0" * 64)) is Reason.PAYLOAD_HASH


def test_a_request_that_is_no_bulk_delete_has_none() -> None:
    """Its body would be replaced by a document."""
    assert passes(asked("PUT", body=b"")).deletes is None


@pytest.mark.parametrize(
    ("keys", "storage", "refused"),
    (
        (KeyRules.STRICT, MINIO, ("a//b", "d/", "a\\b")),
        (KeyRules.STRICT, LITERAL, ("a//b", "d/", "a\\b")),
        (KeyRules.S3, MINIO, ("a//b", "a/../b")),
        (KeyRules.S3, LITERAL, ("a\0",)),
    ),
)
def test_which_keys_may_be_addressed_is_a_question_of_place_and_store(
    keys: KeyRules, storage: Storage, refused: tuple[str, ...]
) -> None:
    """A store that cleans a path up would delete another object."""
    check = key_check(storage, keys)
    check("a/b c")
    for key in refused:
        with pytest.raises(Refused):
            check(key)


@pytest.mark.parametrize(
    ("key", "read"),
    (
        ("a b", ("a b",)),
        (" a ", (" a ", "a", "a ", " a")),
        ("t/a.json\u3000", ("t/a.json\u3000", "t/a.json")),
    ),
)
def test_a_store_that_trims_is_reckoned_with(key: str, read: tuple[str, ...]) -> None:
    """A key that ends in a blank would be judged, and the metadata file deleted whose name it is without."""
    assert spellings(key, MINIO) == read
    # A store that keeps keys as they are needs no such care.
    assert spellings(key, LITERAL) == (key,)


_CHUNKED = {
    "Content-Encoding": "aws-chunked,gzip",
    "x-amz-decoded-content-length": "5",
    "X-Amz-Trailer": "x-amz-checksum-crc32",
    "x-amz-sdk-checksum-algorithm": "CRC32",
    "x-amz-meta-a": "1",
}


@pytest.mark.parametrize(
    "declared", ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER")
)
def test_the_headers_of_a_framed_body_fit_what_is_sent(declared: str) -> None:
    """A store that is told of a framing that is not there takes the content for chunks."""
    wire = asked("PUT", headers={**_CHUNKED, "x-amz-content-sha256": declared})
    plain = passes(wire)
    assert plain.headers == (("Content-Encoding", "gzip"), ("x-amz-meta-a", "1"))
    assert plain.request.headers == (("content-encoding", "gzip"), ("x-amz-meta-a", "1"))
    assert (plain.payload.carriage, plain.request.payload) == (Carriage.DECODED, "UNSIGNED-PAYLOAD")
    store_verifies(plain)
    framed = passes(wire, TABLE, LITERAL)
    assert framed.headers == tuple(_CHUNKED.items())
    assert framed.request.payload == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    store_verifies(framed)


def test_signed_chunks_leave_nothing_of_their_framing() -> None:
    """A checksum that stands in the headers stays; an empty content-encoding would be stored as one."""
    headers = {
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": "5",
        "x-amz-checksum-crc32": "AAAAAA==",
        "x-amz-sdk-checksum-algorithm": "CRC32",
    }
    passed = passes(asked("PUT", headers=headers, payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), TABLE, LITERAL)
    assert dict(passed.headers) == {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-sdk-checksum-algorithm": "CRC32"}
    assert passed.mode is PayloadMode.SIGNED_CHUNKS


@pytest.mark.parametrize(
    ("raw_key", "raw_query", "expected"),
    (
        ("", "delete", True),
        ("", "x-id=DeleteObjects&d%65lete=", True),
        ("k", "delete", False),
        ("", None, False),
        ("", "deleted&%ff=1", False),
    ),
)
def test_a_bulk_delete_is_known_before_its_body_is_read(raw_key: str, raw_query: str | None, *, expected: bool) -> None:
    """A body that is not read whole is not judged."""
    assert is_bulk_delete(raw_key, raw_query) is expected


def test_the_place_is_known_before_the_rules_are() -> None:
    """Which rules hold is a question of where the key lies."""
    wire = asked("GET", "a%2Fb+c")
    assert decoded_key(wire) == unquote("a%2Fb+c")
    assert list_prefix(wire) == ""
    assert decoded_key(asked("GET", "", None)) == list_prefix(asked("GET", "", None)) == ""
    assert list_prefix(asked("GET", "", "list-type=2&prefix=a%2Fb+c")) == "a/b c"
    assert list_prefix(asked("GET", "", "location")) == ""
    with pytest.raises(Refused):
        list_prefix(asked("GET", "", "prefix=%zz"))
    with pytest.raises(Refused):
        service_operation(replace(asked("GET", "", "a=%ff"), bucket=""))


_ANY = st.text(st.characters(max_codepoint=0x7E), max_size=12) | st.sampled_from(
    ("%", "%2e%2e", "..", "list-type=2", "prefix=", "delete", "uploadId=a", "x-amz-copy-source", "/lake/a", "\u00ff")
)


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE")) | _ANY,
    bucket=st.just("lake") | _ANY,
    raw_key=_ANY,
    raw_query=st.none() | st.lists(_ANY, max_size=4).map("&".join),
    headers=st.dictionaries(_ANY.map(str.lower), _ANY, max_size=3),
    body=st.none() | st.binary(max_size=20),
    payload=st.just("") | _ANY,
    rules=st.sampled_from((TABLE, OBJECT, ALL)),
    storage=st.sampled_from((MINIO, LITERAL, AWS)),
)
def test_whatever_is_sent_is_an_answer_and_what_passes_is_one_request(**parts: object) -> None:
    """An error of ours is a fault of the server; a line end in what goes on is a second request."""
    rules, storage = parts.pop("rules"), parts.pop("storage")
    found = outcome(asked(**parts), rules, storage)  # type: ignore[arg-type]
    if isinstance(found, Reason):
        assert 400 <= found.status < 502
    else:
        assert re.fullmatch(r"/[!-~]*", found.target)
        assert re.fullmatch(r"[!-~]+", found.request.host)
