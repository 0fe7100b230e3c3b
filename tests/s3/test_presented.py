"""What a client's signature says is read as S3 reads it, or refused; nothing of it is believed or repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.presented import Presented, read_authorization, read_presigned

SIGNATURE = "a" * 64
CREDENTIAL = "AKID/20260101/us-east-1/s3/aws4_request"
AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature={SIGNATURE}"
HEADERS = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": "20260101T000000Z"}
PRESIGNED = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": CREDENTIAL.replace("/", "%2F"),
    "X-Amz-Date": "20260101T000000Z",
    "X-Amz-Expires": "3600",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": SIGNATURE,
}


def query(changes: Mapping[str, str | None] | None = None) -> str:
    """Return the query of a presigned URL with some parameters changed, or taken out."""
    merged = {**PRESIGNED, **(changes or {})}
    return "&".join(f"{name}={value}" for name, value in merged.items() if value is not None)


def refusal(value: str, headers: dict[str, str] | None = None) -> Refused:
    with pytest.raises(Refused) as refused:
        read_authorization(value, HEADERS if headers is None else headers)
    return refused.value


def refused_query(raw_query: str, headers: dict[str, str] | None = None) -> Reason:
    with pytest.raises(Refused) as refused:
        read_presigned(raw_query, headers or {})
    return refused.value.reason


@pytest.mark.parametrize("separator", (", ", ",", " , "))
def test_the_header_form_is_read_whole(separator: str) -> None:
    """SDKs differ in the white space between the three parts."""
    read = read_authorization(AUTHORIZATION.replace(", ", separator), {**HEADERS, "x-amz-security-token": "T"})
    assert read == Presented(
        access_key_id="AKID",
        date="20260101",
        region="us-east-1",
        amz_date="20260101T000000Z",
        signed_headers=("host", "x-amz-date"),
        signature=SIGNATURE,
        session_token="T",
        payload="UNSIGNED-PAYLOAD",
    )


@pytest.mark.parametrize(
    "value",
    (
        "",
        "AWS AKID:signature",
        "AWS4-ECDSA-P256-SHA256" + AUTHORIZATION.removeprefix("AWS4-HMAC-SHA256"),
        AUTHORIZATION.replace("20260101", "2026-01-01"),
        AUTHORIZATION.replace("aws4_request", "aws5_request"),
        AUTHORIZATION.replace("host;", "Host;"),
        AUTHORIZATION.replace("host;x-amz-date", ""),
        AUTHORIZATION.replace(SIGNATURE, SIGNATURE[1:]),
        AUTHORIZATION.replace(SIGNATURE, SIGNATURE.upper()),
        AUTHORIZATION + "\n",
        AUTHORIZATION.replace("AKID", "A" * 2049),
        AUTHORIZATION.replace("host;", "host;" * 128),
    ),
)
def test_anything_else_is_malformed(value: str) -> None:
    """A header that is read half is verified half; and what it holds may be a secret in the wrong place."""
    refused = refusal(value)
    assert refused.reason is Reason.AUTHORIZATION_MALFORMED
    assert "signature" not in refused.detail


def test_a_signature_for_another_service_is_no_signature_here() -> None:
    """A request that was signed for STS must not be usable as one for S3."""
    assert refusal(AUTHORIZATION.replace("/s3/", "/sts/")).reason is Reason.SCOPE_MISMATCH
    assert refused_query(query({"X-Amz-Credential": CREDENTIAL.replace("/s3/", "/sts/")})) is Reason.SCOPE_MISMATCH


def test_the_payload_must_be_said() -> None:
    """Without it the signature binds an unknown set of headers."""
    assert refusal(AUTHORIZATION, {"x-amz-date": "20260101T000000Z"}).reason is Reason.AUTHORIZATION_MALFORMED


def test_a_date_header_may_take_the_place_of_the_other_one() -> None:
    """Older clients sign Date; the specification allows it."""
    sent = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert read_authorization(AUTHORIZATION, sent).amz_date == "20260101T000000Z"


@pytest.mark.parametrize("month", range(1, 13))
def test_a_date_header_is_read_in_every_month(month: int) -> None:
    """Clients that sign Date would be refused for a month, or their window of time would lie in another one."""
    moment = datetime(2026, month, 15, 12, 30, 59, tzinfo=UTC)
    sent = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "date": format_datetime(moment, usegmt=True)}
    assert read_authorization(AUTHORIZATION, sent).amz_date == f"2026{month:02}15T123059Z"


@pytest.mark.parametrize(
    "date",
    (
        "",
        "yesterday",
        "Thu, 01 Jan 2026 00:00:00 +0100",
        "Thu, 99 Jan 2026 00:00:00 GMT",
        "Thu, 01 Jan 99999999999999999999 00:00:00 GMT",
    ),
)
def test_a_date_that_cannot_be_read_is_refused(date: str) -> None:
    """A date that is read wrongly opens the window of time."""
    sent = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "date": date}
    assert refusal(AUTHORIZATION, sent).reason is Reason.AUTHORIZATION_MALFORMED


def test_the_query_form_is_read_whole_and_taken_out() -> None:
    """What is left of the query is what the store is asked; a parameter of the signature would be refused there."""
    raw = "a=b%2Fc&" + query({"X-Amz-Security-Token": "T%2B1"}) + "&uploads&x=+"
    read = read_presigned(raw, {"x-amz-security-token": "other"})
    assert read is not None
    presented, rest = read
    assert rest == "a=b%2Fc&uploads&x=+"
    assert presented == Presented(
        access_key_id="AKID",
        date="20260101",
        region="us-east-1",
        amz_date="20260101T000000Z",
        signed_headers=("host",),
        signature=SIGNATURE,
        session_token="T+1",
        payload="UNSIGNED-PAYLOAD",
        expires=3600,
    )


def test_nothing_is_left_of_a_query_that_was_all_signature() -> None:
    """An empty query is another request than none to some stores."""
    read = read_presigned(query(), {"x-amz-security-token": "T"})
    assert read is not None
    assert (read[0].session_token, read[1]) == ("T", None)


def test_a_query_without_a_signature_is_not_presigned() -> None:
    """A plain list must not be taken for a broken signature."""
    assert read_presigned("list-type=2&prefix=a", {}) is None
    assert read_presigned("x-amz-acl=private", {}) is None


@pytest.mark.parametrize(
    ("sent", "headers", "payload"),
    (
        ({"X-Amz-Content-Sha256": "b" * 64}, {}, "b" * 64),
        ({"x-amz-content-sha256": "b" * 64}, {}, "b" * 64),
        ({}, {"x-amz-content-sha256": "c" * 64}, "c" * 64),
        ({}, {}, "UNSIGNED-PAYLOAD"),
    ),
)
def test_a_presigned_url_may_pin_its_payload(sent: dict[str, str], headers: dict[str, str], payload: str) -> None:
    """A pinned hash that is not looked at lets anything be uploaded under the URL."""
    read = read_presigned(query(sent), headers)
    assert read is not None
    assert (read[0].payload, read[0].hoisted) == (payload, ())


def test_headers_that_an_sdk_moved_into_the_query_are_taken_out_of_it() -> None:
    """JavaScript's SDK presigns checksums and metadata so; unseen in the query, every rule for headers is passed by."""
    read = read_presigned(query({"x-amz-checksum-crc32": "AAAAAA%3D%3D", "X-Amz-Meta-A": "1", "x-id": "PutObject"}), {})
    assert read is not None
    assert read[0].hoisted == (("x-amz-checksum-crc32", "AAAAAA=="), ("X-Amz-Meta-A", "1"))
    assert read[1] == "x-id=PutObject"


@pytest.mark.parametrize("name", [name.lower() for name in (*PRESIGNED, "X-Amz-Security-Token")])
@pytest.mark.parametrize("respell", (str, str.upper))
def test_a_signature_has_one_spelling(name: str, respell: Callable[[str], str]) -> None:
    """What is left in the query would be a second signature to a store that does not look at the case of names."""
    assert refused_query(f"{query()}&{respell(name)}=1") is Reason.AUTHORIZATION_MALFORMED


@pytest.mark.parametrize("second", ("x-amz-meta-a", "X-AMZ-META-A"))
def test_a_moved_header_is_there_once(second: str) -> None:
    """Which of two counts differs between stores."""
    assert refused_query(f"{query()}&x-amz-meta-a=1&{second}=1") is Reason.AUTHORIZATION_MALFORMED


def test_a_moved_header_is_the_bytes_of_its_text() -> None:
    """Metadata in any language is UTF-8 on the wire; an error of ours would be a 500 for it."""
    read = read_presigned(query({"x-amz-meta-a": "%20voil%C3%A0%20"}), {})
    assert read is not None
    assert read[0].hoisted == (("x-amz-meta-a", "voil\u00c3\u00a0"),)


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("x-amz-meta-a", "1%0D%0Ax-amz-acl%3A%20public-read"),
        ("x-amz-meta-a", "1%0A"),
        ("x-amz-meta-a", "%00"),
        ("x-amz-meta-a%0D%0Ab", "1"),
        ("x-amz-meta-a%3A", "1"),
        ("x-amz-", "1"),
        ("x-amz-meta-%C3%A9", "1"),
        # The kelvin, whose lower case is the letter k: the name would be judged as another than the one that is sent.
        ("x-amz-chec%E2%84%AAsum-crc32", "AAAAAA%3D%3D"),
        ("X-Amz-Content-Sha256", "%E2%82%AC"),
    ),
)
def test_a_moved_header_cannot_begin_another_one(name: str, value: str) -> None:
    """What was decoded from a query goes into the head of the request to the store: a line end would split it."""
    assert refused_query(f"{query()}&{name}={value}") is Reason.AUTHORIZATION_MALFORMED


@pytest.mark.parametrize(
    "raw_query",
    (
        *(query({name: None}) for name in PRESIGNED),
        query({"X-Amz-Algorithm": "AWS4-ECDSA-P256-SHA256"}),
        query({"X-Amz-Credential": "AKID"}),
        query({"X-Amz-SignedHeaders": "Host"}),
        query({"X-Amz-Signature": "z" * 64}),
        query({"X-Amz-Date": "2026-01-01"}),
        query({"X-Amz-Expires": "0x10"}),
        query({"X-Amz-Expires": "604801"}),
        query({"X-Amz-Expires": "9999999"}),
        query({"X-Amz-Expires": "-1"}),
        query() + "&X-Amz-Date=20270101T000000Z",
        query() + "&x-amz-acl=a&X-AMZ-ACL=b",
    ),
)
def test_a_presigned_url_that_is_not_whole_is_refused(raw_query: str) -> None:
    """A week is S3's own limit; of two values it is not known which one was verified."""
    assert refused_query(raw_query) is Reason.AUTHORIZATION_MALFORMED


def test_only_one_signature_may_be_presented() -> None:
    """With two, one part of the server could verify the one and another believe the other."""
    assert refused_query(query(), {"authorization": "Bearer x"}) is Reason.AUTHORIZATION_MALFORMED
    assert refused_query(query({"x-amz-acl": "a"}), {"x-amz-acl": "b"}) is Reason.AUTHORIZATION_MALFORMED


def test_a_query_that_does_not_decode_is_refused() -> None:
    """Bytes that are no UTF-8 are read differently by each reader."""
    assert refused_query("a=%ff&" + query()) is Reason.QUERY_MALFORMED


def test_a_presented_signature_does_not_show_itself() -> None:
    """Signatures and session tokens must not reach a log through a repr."""
    shown = repr(read_authorization(AUTHORIZATION, {**HEADERS, "x-amz-security-token": "TOKEN"}))
    assert SIGNATURE not in shown
    assert "TOKEN" not in shown


_PIECES = st.sampled_from(
    (*PRESIGNED, *PRESIGNED.values(), "=", "&", "%", "%ff", "%0d", "x-amz-a", ";", ",", "Credential=", "AKID", "+", " ")
)


@given(st.lists(_PIECES | st.text(max_size=5), max_size=30).map("".join), st.text(max_size=40))
def test_whatever_a_stranger_sends_is_an_answer_and_no_error(text: str, date: str) -> None:
    """A caller that is not known yet must not be able to fill the log with traces."""
    for value in (text, f"{query()}&{text}"):
        with suppress(Refused):
            read_presigned(value, {})
    for value in (text, AUTHORIZATION, f"{AUTHORIZATION}{text}"):
        with suppress(Refused):
            read_authorization(value, {"x-amz-content-sha256": text, "date": date})
