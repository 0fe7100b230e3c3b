"""What a client's headers may say: signed, left alone, checked, or refused; never stripped."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3 import headers as module
from signproxy.s3.codes import s3_answer
from signproxy.s3.header_rules import CHECKS, CREDENTIALS, OWN, SIGNED, UNSIGNED, Treatment, check_name, treatment
from signproxy.s3.headers import MAX_HEADER_BYTES, MAX_HEADERS, plan_for
from signproxy.s3.request import S3Request, WireRequest
from signproxy.s3.storage import OptIns
from tests.s3.world import AWS_HOST, KEY, accepted, outcome, wire, with_opt_ins

URI = f"{AWS_HOST}/{KEY}"
PART = f"{URI}?partNumber=1&uploadId=u"
LIST = f"{AWS_HOST}?list-type=2&prefix=wh/t1/"
COPY = {"x-amz-copy-source": "/my-bucket/wh/t1/source"}
HEX = "a" * 64

_REFUSED_NAMES = """
x-amz-grant-full-control x-amz-grant-read x-amz-grant-read-acp x-amz-grant-write x-amz-grant-write-acp
x-amz-website-redirect-location x-amz-object-lock-mode x-amz-object-lock-retain-until-date
x-amz-object-lock-legal-hold x-amz-bypass-governance-retention x-amz-mfa
x-amz-server-side-encryption-customer-algorithm x-amz-server-side-encryption-customer-key
x-amz-server-side-encryption-customer-key-md5 x-amz-copy-source-server-side-encryption-customer-algorithm
x-amz-copy-source-server-side-encryption-customer-key x-amz-copy-source-server-side-encryption-customer-key-md5
x-amz-metadata-directive x-amz-tagging-directive x-amz-object-annotation-directive x-amz-request-payer
x-amz-rename-source x-amz-client-token x-amz-write-offset-bytes x-amz-create-session-mode
x-amz-object-attributes x-amz-max-parts x-amz-part-number-marker x-amz-bucket-object-lock-enabled
x-amz-object-ownership x-amz-confirm-remove-self-bucket-access x-amz-skip-destination-validation
x-amz-transition-default-minimum-object-size x-amz-request-route x-amz-request-token x-amz-fwd-status
x-amz-account-id x-amz-replication-status x-minio-force-delete x-minio-extract x-goog-copy-source
x-amz-meta-snowball-auto-extract x-amz-meta-minio-snowball-prefix x-amz-meta- x-amz-unheard-of
x-http-method-override x-http-method x-method-override x-original-url x-rewrite-url x-rgw-quota-max-size
x-swift-whatever some-new-header forwarded x-forwarded-host x-forwarded-prefix x-forwarded-for x-forwarded-proto
""".split()


@pytest.mark.parametrize("name", _REFUSED_NAMES)
@pytest.mark.parametrize("spell", (str.lower, str.title, str.upper))
def test_a_header_with_effects_is_refused_in_any_spelling(name: str, spell: object) -> None:
    """Java would put a stripped header back unsigned, so only a refusal keeps it off the wire."""
    spelled = spell(name) if callable(spell) else name
    assert outcome(wire("PUT", URI, {spelled: "1"})) is Reason.HEADER_REFUSED


@pytest.mark.parametrize("name", sorted(CREDENTIALS))
def test_credentials_of_the_client_are_refused(name: str) -> None:
    """Java lays the client's own value over the signer's, which breaks the signature or replaces it."""
    assert outcome(wire("GET", URI, {name.title(): "x"})) is Reason.HEADER_CREDENTIALS


@pytest.mark.parametrize("name", sorted(SIGNED - {"content-encoding"}))
def test_a_header_that_binds_is_signed(name: str) -> None:
    """Left unsigned, a store either refuses the request or lets the value be swapped."""
    assert accepted(wire("PUT", URI, {name.title(): "  a  b "})).headers == ((name, "a b"),)


@pytest.mark.parametrize(
    "name",
    (
        *sorted(UNSIGNED),
        "amz-sdk-request",
        "x-b3-traceid",
        "sec-fetch-mode",
        "sec-ch-ua",
        "x-datadog-trace-id",
        "uber-trace-id",
    ),
)
def test_a_volatile_header_is_accepted_and_not_signed(name: str) -> None:
    """A signed Range or User-Agent breaks the next request of the same signature, or every one."""
    request = accepted(wire("GET", URI, {name.title(): "x"}))
    assert request.headers == ()


def test_the_headers_are_sorted_by_their_lower_case_names() -> None:
    """A store sorts them so; any other order is another signature."""
    sent = {"X-Amz-Meta-B": "2", "content-type": "text/plain", "X-AMZ-META-A": "1", "Content-MD5": "x", "Range": "r"}
    assert accepted(wire("PUT", URI, sent)).headers == (
        ("content-md5", "x"),
        ("content-type", "text/plain"),
        ("x-amz-meta-a", "1"),
        ("x-amz-meta-b", "2"),
    )


_VALUES: list[tuple[str, str, dict[str, str], OptIns, bool]] = [
    # method, uri, headers, opt-ins, and whether it is allowed
    ("GET", URI, {"x-amz-te": "append-md5"}, OptIns(), True),
    ("HEAD", URI, {"x-amz-te": "append-md5"}, OptIns(), True),
    ("PUT", URI, {"x-amz-te": "append-md5"}, OptIns(), False),
    ("GET", URI, {"x-amz-te": "trailers"}, OptIns(), False),
    ("PUT", URI, {"x-amz-acl": "bucket-owner-full-control"}, OptIns(bucket_owner_full_control=True), True),
    ("PUT", URI, {"x-amz-acl": "bucket-owner-full-control"}, OptIns(), False),
    ("PUT", URI, {"x-amz-acl": "public-read"}, OptIns(bucket_owner_full_control=True), False),
    ("PUT", URI, {"x-amz-tagging": "a=b"}, OptIns(tagging=True), True),
    ("PUT", URI, {"x-amz-tagging": "a=b"}, OptIns(), False),
    ("PUT", URI, {"x-amz-storage-class": "STANDARD"}, OptIns(), True),
    ("PUT", URI, {"x-amz-storage-class": "GLACIER"}, OptIns(), False),
    ("PUT", URI, {"x-amz-storage-class": "GLACIER"}, OptIns(storage_classes=("STANDARD_IA",)), False),
    ("PUT", URI, {"x-amz-storage-class": "STANDARD_IA"}, OptIns(storage_classes=("STANDARD_IA",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption": "AES256"}, OptIns(), True),
    ("PUT", URI, {"x-amz-server-side-encryption": "aws:kms"}, OptIns(), False),
    ("PUT", URI, {"x-amz-server-side-encryption": "aws:kms"}, OptIns(kms_keys=("k1",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption": "aws:kms:dsse"}, OptIns(kms_keys=("k1",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption": "aws:fsx"}, OptIns(kms_keys=("k1",)), False),
    ("PUT", URI, {"x-amz-server-side-encryption-aws-kms-key-id": "k1"}, OptIns(kms_keys=("k1",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption-aws-kms-key-id": "k2"}, OptIns(kms_keys=("k1",)), False),
    ("PUT", URI, {"x-amz-server-side-encryption-context": "e30="}, OptIns(kms_keys=("k1",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption-context": "e30="}, OptIns(), False),
    ("PUT", URI, {"x-amz-server-side-encryption-bucket-key-enabled": "true"}, OptIns(kms_keys=("k1",)), True),
    ("PUT", URI, {"x-amz-server-side-encryption-bucket-key-enabled": "true"}, OptIns(), False),
    ("PUT", URI, {**COPY, "x-amz-copy-source-if-match": "e"}, OptIns(), True),
    ("PUT", URI, {"x-amz-copy-source-if-match": "e"}, OptIns(), False),
    ("PUT", URI, {**COPY, "x-amz-copy-source-if-none-match": "e"}, OptIns(), True),
    ("PUT", URI, {"x-amz-copy-source-if-none-match": "e"}, OptIns(), False),
    ("PUT", URI, {**COPY, "x-amz-copy-source-if-modified-since": "d"}, OptIns(), True),
    ("PUT", URI, {"x-amz-copy-source-if-modified-since": "d"}, OptIns(), False),
    ("PUT", URI, {**COPY, "x-amz-copy-source-if-unmodified-since": "d"}, OptIns(), True),
    ("PUT", URI, {"x-amz-copy-source-if-unmodified-since": "d"}, OptIns(), False),
    ("PUT", PART, {**COPY, "x-amz-copy-source-range": "bytes=0-9"}, OptIns(), True),
    ("PUT", PART, {"x-amz-copy-source-range": "bytes=0-9"}, OptIns(), False),
    ("GET", LIST, {"x-amz-optional-object-attributes": "RestoreStatus"}, OptIns(), True),
    ("GET", URI, {"x-amz-optional-object-attributes": "RestoreStatus"}, OptIns(), False),
    ("GET", URI, {"x-amz-expected-bucket-owner": "123456789012"}, OptIns(), True),
    # Text that clients encode differently has no signature that fits them all.
    ("PUT", URI, {"x-amz-meta-a": "caf\u00e9"}, OptIns(), False),
    ("PUT", URI, {"x-amz-meta-a": "a\tb"}, OptIns(), True),
]


@pytest.mark.parametrize(("method", "uri", "sent", "opt_ins", "allowed"), _VALUES, ids=str)
def test_a_known_header_has_allowed_values(
    method: str, uri: str, sent: dict[str, str], opt_ins: OptIns, allowed: bool
) -> None:
    """A value outside the list changes who may read the object, what it costs or whether it can be deleted."""
    got = outcome(wire(method, uri, sent), with_opt_ins(opt_ins))
    if allowed:
        assert isinstance(got, S3Request)
        assert {name for name, _ in got.headers} == set(sent)
    else:
        assert got is Reason.HEADER_VALUE


@pytest.mark.parametrize("name", ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"))
def test_the_expected_owner_is_the_configured_one(name: str) -> None:
    """A foreign owner account is a probe for whose bucket this is."""
    endpoints = with_opt_ins(OptIns(), bucket_owner="123456789012")
    assert isinstance(outcome(wire("GET", URI, {name: "123456789012"}), endpoints), S3Request)
    assert outcome(wire("GET", URI, {name: "999999999999"}), endpoints) is Reason.HEADER_VALUE


def test_a_foreign_host_header_is_refused() -> None:
    """Signing it gives a valid signature for the other host: the same bytes sign another bucket's object."""
    host = "my-bucket.s3.us-west-2.amazonaws.com"
    assert isinstance(outcome(wire("GET", URI, {"Host": host})), S3Request)
    for foreign in ("victim.s3.us-west-2.amazonaws.com", f"{host}:443", host.upper(), f"{host}.", ""):
        assert outcome(wire("GET", URI, {"hOsT": foreign})) is Reason.HEADER_HOST


_PAYLOADS: list[tuple[str, str, dict[str, str], str | Reason]] = [
    ("PUT", URI, {}, "UNSIGNED-PAYLOAD"),
    ("PUT", URI, {"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}, "UNSIGNED-PAYLOAD"),
    ("PUT", URI, {"X-Amz-Content-SHA256": HEX}, HEX),
    ("GET", URI, {"x-amz-content-sha256": HEX}, HEX),
    ("PUT", URI, {"x-amz-content-sha256": HEX.upper()}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": HEX + "a"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": HEX[1:]}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": ""}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": "required"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ("PUT", PART, {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ("GET", URI, {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, Reason.PAYLOAD_MODE),
    ("POST", f"{URI}?uploads", {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}, Reason.PAYLOAD_MODE),
    # The framing without the header: some versions of s3fs.
    (
        "PUT",
        URI,
        {"Content-Encoding": "aws-chunked", "X-Amz-Trailer": "x-amz-checksum-crc32"},
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ),
    (
        "PUT",
        URI,
        {"Content-Encoding": "gzip,aws-chunked", "X-Amz-Trailer": "x-amz-checksum-crc32"},
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ),
    ("PUT", URI, {"Content-Encoding": "gzip"}, "UNSIGNED-PAYLOAD"),
    ("PUT", URI, {"X-Amz-Trailer": "x-amz-checksum-crc32"}, "UNSIGNED-PAYLOAD"),
    # UNSIGNED-PAYLOAD over aws-chunked framing stores the framing as the object.
    ("PUT", URI, {"Content-Encoding": "aws-chunked"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"Content-Encoding": "aws-chunked", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, Reason.PAYLOAD_MODE),
    ("PUT", URI, {"Content-Encoding": "aws-chunked", "x-amz-content-sha256": HEX}, Reason.PAYLOAD_MODE),
    (
        "GET",
        URI,
        {"Content-Encoding": "aws-chunked", "X-Amz-Trailer": "x-amz-checksum-crc32"},
        Reason.PAYLOAD_MODE,
    ),
]


@pytest.mark.parametrize(("method", "uri", "sent", "expected"), _PAYLOADS, ids=str)
def test_the_payload_mode_is_the_clients_or_none(
    method: str, uri: str, sent: dict[str, str], expected: str | Reason
) -> None:
    """Any other value corrupts chunked uploads silently: the framing becomes the object."""
    got = outcome(wire(method, uri, sent))
    assert (got.payload if isinstance(got, S3Request) else got) == expected


_CONDITIONS = [
    ({}, False),
    ({"If-None-Match": "*"}, False),
    ({"If-None-Match": '"e"'}, True),
    ({"If-Match": '"e"'}, True),
    ({"if-match": "*"}, True),
    ({"If-Modified-Since": "d"}, False),
]


@pytest.mark.parametrize(("sent", "conditional"), _CONDITIONS, ids=str)
def test_a_condition_of_the_client_is_seen(sent: dict[str, str], conditional: bool) -> None:
    """On a write-once table the client's condition would fight the guard's."""
    assert accepted(wire("PUT", URI, sent)).conditional is conditional


def _many(names: dict[str, list[str]]) -> WireRequest:
    return WireRequest(method="PUT", uri=URI, headers=names, region="us-west-2")


_MALFORMED: list[tuple[dict[str, list[str]], Reason]] = [
    ({"": ["x"]}, Reason.HEADER_MALFORMED),
    ({"a b": ["x"]}, Reason.HEADER_MALFORMED),
    ({"a:b": ["x"]}, Reason.HEADER_MALFORMED),
    ({"x-amz-meta-a\n": ["x"]}, Reason.HEADER_MALFORMED),
    ({"x-amz-meta-\u00e9": ["x"]}, Reason.HEADER_MALFORMED),
    ({"Range": []}, Reason.HEADER_MALFORMED),
    ({"Range": ["a\r\nb"]}, Reason.HEADER_MALFORMED),
    ({"Range": ["ok", "a\nb"]}, Reason.HEADER_MALFORMED),
    ({"x-amz-meta-a": ["a\x00b"]}, Reason.HEADER_MALFORMED),
    ({"x-amz-meta-a": ["a\x7fb"]}, Reason.HEADER_VALUE),
    ({"x-amz-meta-a": ["a\x1bb"]}, Reason.HEADER_VALUE),
    ({"Range": ["a\rb"]}, Reason.HEADER_MALFORMED),
    ({"Range": ["a\x00b"]}, Reason.HEADER_MALFORMED),
    ({"x-amz-meta-a": ["1", "2"]}, Reason.HEADER_REPEATED),
    ({"Host": ["a", "b"]}, Reason.HEADER_REPEATED),
    ({"x-amz-content-sha256": ["UNSIGNED-PAYLOAD", HEX]}, Reason.HEADER_REPEATED),
    ({"x-amz-copy-source": ["/my-bucket/a", "/my-bucket/b"]}, Reason.HEADER_REPEATED),
    ({"Content-Encoding": ["aws-chunked", "gzip"]}, Reason.HEADER_REPEATED),
    ({"X-Amz-Meta-A": ["1"], "x-amz-meta-a": ["2"]}, Reason.HEADER_REPEATED),
    ({"Range": ["1"], "range": ["2"]}, Reason.HEADER_REPEATED),
]


@pytest.mark.parametrize(("names", "reason"), _MALFORMED, ids=str)
def test_a_header_has_one_name_one_value_and_one_line(names: dict[str, list[str]], reason: Reason) -> None:
    """Two values are two readings; a line break is a second header."""
    assert outcome(_many(names)) is reason


def test_unsigned_headers_may_have_several_values() -> None:
    """Accept headers come as lists, and nothing reads them here."""
    assert isinstance(outcome(_many({"Accept": ["a", "b"], "User-Agent": ["caf\u00e9\tx"]})), S3Request)


def test_the_limits_of_size_and_number_are_met_exactly() -> None:
    """A sign request of megabytes of headers must end before it costs anything."""
    names = {f"x-amz-meta-{i}": ["x"] for i in range(MAX_HEADERS)}
    assert isinstance(outcome(_many(names)), S3Request)
    assert outcome(_many({**names, "range": ["x"]})) is Reason.HEADER_MALFORMED
    assert isinstance(outcome(_many({"Range": ["x" * MAX_HEADER_BYTES]})), S3Request)
    assert outcome(_many({"Range": ["x" * (MAX_HEADER_BYTES + 1)]})) is Reason.HEADER_MALFORMED
    assert (MAX_HEADERS, MAX_HEADER_BYTES) == (64, 16384)


def test_plans_are_kept_by_the_names_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that invents header names must not fill the memory."""
    monkeypatch.setattr(module, "_plans", {})
    monkeypatch.setattr(module, "_PLANS_KEPT", 3)
    first = plan_for({"Range": ["a"]})
    assert plan_for({"Range": ["b"]}) is first
    assert plan_for({"range": ["b"]}) is not first
    plan_for({"Accept": ["a"]})
    assert len(module._plans) == 3
    plan_for({"Via": ["a"]})
    assert len(module._plans) == 1
    for length, kept in ((1024, True), (1025, False)):
        name = "x-amz-meta-" + "a" * (length - len("x-amz-meta-"))
        assert plan_for({name: ["a"]}).signed[0][0] == name
        assert ((name,) in module._plans) is kept


def test_a_refused_name_is_never_planned() -> None:
    """A plan that is kept would let the second request with the same header pass."""
    for _ in range(2):
        with pytest.raises(Refused, match="header 'x-amz-mfa'"):
            plan_for({"x-amz-mfa": ["1"]})


def test_every_known_name_has_exactly_one_treatment() -> None:
    """A name in two lists would depend on the order of the checks."""
    lists = [set(CHECKS), set(SIGNED), set(UNSIGNED), set(CREDENTIALS), set(OWN)]
    names = [name for group in lists for name in group]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


_TREATMENTS = [
    ("x-amz-acl", Treatment.CHECKED),
    ("content-md5", Treatment.SIGNED),
    ("x-amz-meta-a", Treatment.SIGNED),
    ("x-amz-meta-", Treatment.REFUSED),
    ("x-amz-meta-a-snowball-b", Treatment.REFUSED),
    ("range", Treatment.UNSIGNED),
    ("amz-sdk-retry", Treatment.UNSIGNED),
    ("x-unknown", Treatment.REFUSED),
]


@pytest.mark.parametrize(("name", "expected"), _TREATMENTS)
def test_the_treatment_of_a_name(name: str, expected: Treatment) -> None:
    """The documentation's table is made from this answer."""
    assert treatment(name) is expected


def test_the_details_name_header_and_value() -> None:
    """An operator must see which of twenty headers it was."""
    for sent, shown in (
        ({"X-Amz-Acl": "public-read"}, "x-amz-acl: 'public-read' with PutObject"),
        ({"X-Amz-Meta-A": "caf\u00e9"}, "x-amz-meta-a: 'caf\u00e9' is not ASCII"),
        ({"Host": "evil"}, "Host 'evil', uri addresses 'my-bucket.s3.us-west-2.amazonaws.com'"),
        ({"x-amz-content-sha256": "required"}, "x-amz-content-sha256 'required' with PutObject$"),
        (
            {"x-amz-content-sha256": HEX, "Content-Encoding": "aws-chunked"},
            "with PutObject and aws-chunked",
        ),
        ({"a b": "c"}, "name 'a b'"),
        ({"Range": "\n"}, "value of 'Range' holds a control character"),
        ({"authorization": "x"}, "header 'authorization'"),
    ):
        with pytest.raises(Refused, match=shown):
            accepted(wire("PUT", URI, sent))
    with pytest.raises(Refused, match="'Host' has 2 values"):
        accepted(_many({"Host": ["a", "b"]}))
    with pytest.raises(Refused, match="'Range' has no value"):
        accepted(_many({"Range": []}))
    with pytest.raises(Refused, match="'Range' and 'RANGE'"):
        accepted(_many({"Range": ["a"], "RANGE": ["b"]}))
    with pytest.raises(Refused, match="65 headers, at most 64 are read"):
        accepted(_many({f"x-amz-meta-{i}": ["x"] for i in range(65)}))
    with pytest.raises(Refused, match="16385 characters of header values, at most 16384"):
        accepted(_many({"Range": ["x" * 16385]}))


def test_a_name_comes_back_in_lower_case() -> None:
    """Everything after it compares lower-case names."""
    assert check_name("X-Amz-Meta-A") == "x-amz-meta-a"
    assert check_name("Host") == "host"


_NAMED: list[tuple[dict[str, list[str]], Reason, str]] = [
    ({"Accept": ["a"], "X-Amz-Mfa": ["s3cret"]}, Reason.HEADER_REFUSED, "The header 'X-Amz-Mfa' is not allowed here"),
    (
        {"X-Amz-Security-Token": ["s3cret"]},
        Reason.HEADER_CREDENTIALS,
        "The request already carries credentials or a date, in the header 'X-Amz-Security-Token'",
    ),
    (
        {"X-Amz-Acl": ["s3cret"]},
        Reason.HEADER_VALUE,
        "The value of the header 'X-Amz-Acl' is not allowed here",
    ),
    (
        {"X-Amz-Meta-A": ["s3cret\u00e9"]},
        Reason.HEADER_VALUE,
        "The value of the header 'X-Amz-Meta-A' is not allowed here",
    ),
    (
        {"x-amz-meta-a": ["s3cret"], "X-Amz-Meta-A": ["s3cret"]},
        Reason.HEADER_REPEATED,
        "The header 'X-Amz-Meta-A' is given more than once",
    ),
    (
        {"Content-MD5": ["s3cret", "s3cret"]},
        Reason.HEADER_REPEATED,
        "The header 'Content-MD5' is given more than once",
    ),
    ({"a b": ["s3cret"]}, Reason.HEADER_MALFORMED, "The header 'a b' is not well-formed"),
    ({"": ["s3cret"]}, Reason.HEADER_MALFORMED, "The header '' is not well-formed"),
    ({"Range": []}, Reason.HEADER_MALFORMED, "The header 'Range' is not well-formed"),
    ({"Range": ["s3cret\n"]}, Reason.HEADER_MALFORMED, "The header 'Range' is not well-formed"),
]


@pytest.mark.parametrize(("names", "reason", "words"), _NAMED, ids=str)
def test_the_answer_names_the_header_and_never_its_value(
    names: dict[str, list[str]], reason: Reason, words: str
) -> None:
    """An engine sends a dozen headers by itself: which of them to switch off cannot be found out otherwise."""
    with pytest.raises(Refused) as refused:
        accepted(_many(names))
    assert refused.value.reason is reason
    assert refused.value.detail
    assert s3_answer(refused.value).message == words


def test_the_answer_names_no_header_where_all_of_them_are_too_many() -> None:
    """One of the sixty-five would be looked for, and nothing be wrong with it."""
    for names in (
        {f"x-amz-meta-{i}": ["x"] for i in range(MAX_HEADERS + 1)},
        {"Range": ["x" * (MAX_HEADER_BYTES + 1)]},
    ):
        with pytest.raises(Refused) as refused:
            accepted(_many(names))
        assert s3_answer(refused.value).message == Reason.HEADER_MALFORMED.value.message


@pytest.mark.parametrize("begin", ("x-amz-a", "x-amz-\x1b[2J\u202e"))
def test_the_name_of_a_refused_header_does_no_harm_in_the_answer(begin: str) -> None:
    """A name is any text of the message: it would clear a screen, or fill one."""
    with pytest.raises(Refused) as refused:
        accepted(_many({begin + "a" * 5000: ["1"]}))
    told = s3_answer(refused.value).message
    assert told.startswith(f"The header {begin!r}"[:-1] + "aaa")
    assert told.isprintable()
    assert len(told) < 200
