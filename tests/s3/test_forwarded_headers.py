"""Headers go on exactly as they came, signed where they bind; what does not belong is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.s3 import forwarded, forwarded_headers
from signproxy.s3.codes import s3_answer
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.rules import OperationsAllowed, Rules
from signproxy.s3.storage import OptIns
from tests.s3.forwarded_world import ALL, OBJECT, TABLE, asked, outcome, passes
from tests.s3.world import MINIO

SOURCE = {"x-amz-copy-source": "/lake/wh/t1/a"}


def test_headers_go_on_as_they_were_spelled() -> None:
    """Some stores keep metadata as it was spelled, and a proxy that changes a value changes the object's."""
    sent = {
        "User-Agent": "x  y",
        "Range": "bytes=0-1",
        "X-Amz-Meta-Color": "a  b",
        "content-type": "text/plain; charset=utf-8",
        "If-None-Match": "*",
        "x-amz-checksum-crc32": "AAAAAA==",
        "x-amz-api-version": "2006-03-01",
        "x-amz-user-agent": "aws-sdk-js/3",
    }
    passed = passes(asked("PUT", headers=sent))
    assert passed.headers == tuple(sent.items())
    assert passed.request.headers == (
        ("content-type", "text/plain; charset=utf-8"),
        ("x-amz-api-version", "2006-03-01"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-meta-color", "a b"),
        ("x-amz-user-agent", "aws-sdk-js/3"),
    )


@pytest.mark.parametrize("headers", ({}, {"User-Agent": "x", "Range": "bytes=0-1", "If-None-Match": "*"}))
@pytest.mark.parametrize("method", ("GET", "PUT"))
def test_headers_that_are_only_handed_on_say_what_is_taken_for_granted(method: str, headers: dict[str, str]) -> None:
    """They are not read for what they say: a body or a signature would be another than the one of the headers."""
    wire = asked(method, headers=headers)
    read = forwarded_headers.read_forwarded(wire.headers, wire.names, OperationsAllowed.ALL)
    operation = passes(wire, ALL).request.operation
    assert not read.plan.signed
    assert not read.plan.places
    assert forwarded._said(read, wire, operation, MINIO) == (operation, forwarded._NOT_SAID)


_DROPPED = (
    "Authorization", "Connection", "Content-Length", "Date", "Expect", "Forwarded", "Host", "Keep-Alive",
    "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "x-amz-content-sha256", "X-Amz-Date",
    "X-Amz-Security-Token", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP",
)  # fmt: skip


@pytest.mark.parametrize("name", _DROPPED)
@pytest.mark.parametrize("rules", (TABLE, OBJECT, ALL))
def test_framing_authentication_and_tales_of_proxies_stay_here(name: str, rules: Rules) -> None:
    """A second length is a smuggled request; a foreign token is a foreign caller; some stores verify by the tale."""
    passed = passes(
        asked(
            "PUT", headers={"a-first": "1", name: "UNSIGNED-PAYLOAD"} if rules is ALL else {name: "UNSIGNED-PAYLOAD"}
        ),
        rules,
    )
    assert passed.headers == ((("a-first", "1"),) if rules is ALL else ())
    assert passed.request.headers == ()


_REFUSED_IN_TABLES = ("x-amz-acl", "x-amz-grant-read", "x-amz-website-redirect-location", "x-amz-object-lock-mode",
    "x-amz-server-side-encryption-customer-key", "x-amz-request-payer", "x-amz-unheard-of", "x-unheard-of",
    "x-amz-bypass-governance-retention")  # fmt: skip


@pytest.mark.parametrize("name", _REFUSED_IN_TABLES)
def test_what_changes_more_than_data_is_a_volume_of_everything_s(name: str) -> None:
    """An ACL on a table's file gives it to another party."""
    wire = asked("PUT", headers={name: "x"})
    assert outcome(wire, TABLE) in (Reason.HEADER_REFUSED, Reason.HEADER_VALUE)
    assert outcome(wire, OBJECT) in (Reason.HEADER_REFUSED, Reason.HEADER_VALUE)
    passed = passes(wire, ALL)
    assert passed.headers == ((name, "x"),)
    assert passed.request.headers == (((name, "x"),) if name.startswith("x-amz-") else ())


_OF_OBJECTS = ("x-amz-metadata-directive", "x-amz-tagging-directive", "x-amz-tagging", "x-amz-storage-class",
    "x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker")  # fmt: skip


@pytest.mark.parametrize("name", _OF_OBJECTS)
def test_what_belongs_to_an_object_is_a_volume_s(name: str) -> None:
    """Copies that keep their metadata, tags and classes are what rclone and S3A do all day."""
    wire = asked("PUT", headers={name: "x"})
    assert outcome(wire, TABLE) in (Reason.HEADER_REFUSED, Reason.HEADER_VALUE)
    for rules in (OBJECT, ALL):
        assert passes(wire, rules).request.headers == ((name, "x"),)


_NEVER = (
    "x-amz-account-id", "x-amz-fwd-status", "x-amz-rename-source", "x-amz-rename-source-if-match",
    "x-amz-request-route", "x-amz-meta-snowball-auto-extract", "X-Amz-Meta-Minio-Snowball-Prefix", "x-goog-copy-source",
    "x-minio-force-delete", "x-minio-extract", "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL",
    "x-signproxy-id",
)  # fmt: skip


@pytest.mark.parametrize("name", _NEVER)
@pytest.mark.parametrize("method", ("PUT", "DELETE"))
def test_what_addresses_something_else_is_never_sent(name: str, method: str) -> None:
    """One such header, and what was judged is not what is done: MinIO unpacks archives and deletes below a key."""
    for rules in (TABLE, OBJECT, ALL):
        assert outcome(asked(method, headers={name: "true"}), rules) in (Reason.HEADER_REFUSED, Reason.HEADER_VALUE)


def test_a_bucket_may_be_deleted_with_all_that_is_in_it_by_the_owner_of_it_all() -> None:
    """MinIO's client removes buckets so; on a key the same header takes along what was never judged."""
    wire = asked("DELETE", "", headers={"x-minio-force-delete": "true"})
    assert passes(wire, ALL).request.headers == (("x-minio-force-delete", "true"),)
    assert outcome(asked("HEAD", "", headers=dict(wire.headers)), OBJECT) is Reason.HEADER_REFUSED
    on_key = asked("DELETE", "a", "annotation&annotationName=b", {"X-Minio-Force-Delete": "true"})
    assert outcome(on_key, ALL) is Reason.HEADER_REFUSED


_PLAIN = {"User-Agent": "x", "x-amz-meta-a": "1", "Content-Type": "a/b"}
_NOT_ALLOWED = "The header {} is not allowed here"
_NOT_ALLOWED_VALUE = "The value of the header {} is not allowed here"


@pytest.mark.parametrize(
    ("wire", "rules", "name", "words"),
    (
        (asked("PUT", headers={"X-Amz-Grant-Read": "x"}), TABLE, "X-Amz-Grant-Read", _NOT_ALLOWED),
        (asked("PUT", headers={**_PLAIN, "X-Unheard-Of": "x"}), OBJECT, "X-Unheard-Of", _NOT_ALLOWED),
        (asked("PUT", headers={"x-goog-a": "x", "x-minio-b": "y", **_PLAIN}), ALL, "x-goog-a", _NOT_ALLOWED),
        (asked("PUT", headers={**_PLAIN, "x-amz-acl": "public-read"}), TABLE, "x-amz-acl", _NOT_ALLOWED_VALUE),
        (asked("PUT", headers={"X-Amz-Tagging": "a=b", **_PLAIN}), TABLE, "X-Amz-Tagging", _NOT_ALLOWED_VALUE),
        (asked("PUT", headers={**_PLAIN, "X-Amz-Meta-B": "\u00e9"}), TABLE, "X-Amz-Meta-B", _NOT_ALLOWED_VALUE),
        (
            asked("PUT", hoisted=(("x-id", "a"), ("X-Amz-Trailer", "x-amz-checksum-crc32"))),
            ALL,
            "X-Amz-Trailer",
            _NOT_ALLOWED,
        ),
        (asked("PUT", headers=_PLAIN, hoisted=(("X-Amz-Acl", "x"),)), TABLE, "X-Amz-Acl", _NOT_ALLOWED_VALUE),
        (
            asked("DELETE", "a", "annotation&annotationName=b", {**_PLAIN, "X-Minio-Force-Delete": "true"}),
            ALL,
            "x-minio-force-delete",
            _NOT_ALLOWED,
        ),
        (
            asked("PUT", headers={**_PLAIN, "x-amz-meta-a": "1", "X-Amz-Meta-A": "2"}),
            TABLE,
            "X-Amz-Meta-A",
            "The header {} is given more than once",
        ),
    ),
)
def test_the_answer_names_the_header_that_is_refused(wire: ForwardWire, rules: Rules, name: str, words: str) -> None:
    """A client sends a dozen headers by itself: which of them to switch off cannot be found out otherwise."""
    with pytest.raises(Refused) as refused:
        passes(wire, rules)
    told = s3_answer(refused.value)
    assert told.message == words.format(repr(name))
    assert refused.value.detail
    reason = refused.value.reason
    assert (told.status, told.code) == s3_answer(Refused(reason))[:2]


def test_the_name_of_a_refused_header_does_no_harm_in_the_answer() -> None:
    """In the query of a presigned URL a name is any text: it would clear a screen, or fill one."""
    name = "x-amz-\x1b[2J\u202e" + "a" * 5000
    with pytest.raises(Refused) as refused:
        passes(asked("PUT", hoisted=((name, "a"),)))
    told = s3_answer(refused.value).message
    assert told.startswith("The header 'x-amz-\\x1b[2J\\u202eaaa")
    assert told.isprintable()
    assert len(told) < 200


@pytest.mark.parametrize("rules", (TABLE, OBJECT, ALL))
@pytest.mark.parametrize("method", ("GET", "HEAD", "DELETE"))
def test_a_copy_source_belongs_to_a_copy(rules: Rules, method: str) -> None:
    """A source that is not judged and sent on is read."""
    assert outcome(asked(method, headers=SOURCE), rules) is Reason.HEADER_VALUE


def test_the_account_is_checked_wherever_it_is_named() -> None:
    """The guard against a bucket that now has another owner must not be switched off by a volume."""
    storage = replace(MINIO, bucket_owner="111122223333")
    for rules in (TABLE, OBJECT, ALL):
        wire = asked(headers={"x-amz-expected-bucket-owner": "444455556666"})
        assert outcome(wire, rules, storage) is Reason.HEADER_VALUE
        assert outcome(wire, rules) is not Reason.HEADER_VALUE


def test_in_a_table_the_storage_s_opt_ins_count() -> None:
    """Both ways must give the same answer to the same header."""
    wire = asked("PUT", headers={"x-amz-tagging": "a=b"})
    assert outcome(wire) is Reason.HEADER_VALUE
    assert passes(wire, TABLE, replace(MINIO, opt_ins=OptIns(tagging=True))).headers == (("x-amz-tagging", "a=b"),)


@pytest.mark.parametrize(
    ("headers", "reason"),
    (
        ({"content-type": "a", "Content-Type": "b"}, Reason.HEADER_REPEATED),
        ({"if-match": "a", "If-Match": "b"}, Reason.HEADER_REPEATED),
        ({"x-amz-content-sha256": "a", "X-Amz-Content-Sha256": "b"}, Reason.HEADER_REPEATED),
        ({"accept": "a", "Accept": "b"}, None),
    ),
)
def test_of_what_counts_there_is_one(headers: dict[str, str], reason: Reason | None) -> None:
    """Of two values one is signed or judged, and the store takes the other."""
    found = outcome(asked("PUT", headers=headers))
    assert (found if isinstance(found, Reason) else None) is reason


@pytest.mark.parametrize(
    ("value", "signed"),
    (
        ("plain", "plain"),
        ("a b", "a b"),
        ("a \t b", "a b"),
        ("voil\u00c3\u00a0", "voil\u00e0"),
    ),
)
def test_values_are_signed_as_the_store_reads_their_bytes(value: str, signed: str) -> None:
    """Metadata in UTF-8 is what users of the web upload."""
    passed = passes(asked("PUT", headers={"x-amz-meta-a": value}))
    assert passed.headers == (("x-amz-meta-a", value),)
    assert passed.request.headers == (("x-amz-meta-a", signed),)


def test_bytes_that_are_no_text_are_refused() -> None:
    """No two stores sign them alike."""
    assert outcome(asked("PUT", headers={"x-amz-meta-a": "\u00e9"})) is Reason.HEADER_VALUE


@pytest.mark.parametrize(
    ("headers", "conditional"),
    (({}, False), ({"If-None-Match": "*"}, False), ({"If-None-Match": '"e"'}, True), ({"If-Match": "*"}, True)),
)
def test_a_condition_of_the_client_is_seen(headers: dict[str, str], *, conditional: bool) -> None:
    """On a place that forbids overwriting, a condition of the client's would replace the guard."""
    assert passes(asked("PUT", headers=headers)).request.conditional is conditional


def test_what_is_remembered_of_header_sets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends another set each time must not fill the memory."""
    plans = forwarded_headers._plans[OperationsAllowed.ALL]
    plans.clear()
    monkeypatch.setattr(forwarded_headers, "_PLANS_KEPT", 3)
    for number in range(10):
        passes(asked(headers={f"x-a-{number}": "1"}), ALL)
        assert 1 <= len(plans) <= 3
    passes(asked(headers={"x-a-9": "1"}), ALL)
    count = len(plans)
    passes(asked(headers={f"x-{'a' * 1100}": "1"}), ALL)
    assert len(plans) == count
