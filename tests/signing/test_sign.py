"""The way `sign`: what is added to a request, what stays as it was, and how long the answer is good for."""

from __future__ import annotations

import calendar
import time
from typing import Any, NamedTuple

import msgspec
import pytest

from signproxy.audit.event import rfc3339
from signproxy.audit.ids import new_event_id
from signproxy.credentials.credentials import Credentials
from signproxy.model import Allow, TableId
from signproxy.s3.canonical import canonical_query
from signproxy.s3.headers import UNSIGNED_PAYLOAD
from signproxy.s3.operation import Operation
from signproxy.s3.operations import SHAPES
from signproxy.s3.request import S3Request
from signproxy.s3.storage import STAMP, Stamp, Storage, StorageKind, aws_endpoints
from signproxy.signing.sign import MIN_SIGNATURE_TTL, S3_WINDOW, RequestSigner, SignedRequest
from tests.verifier import VerificationError, as_java, as_pyiceberg, verify

NOW = 1_800_000_000
EVENT = "01KABCDEFGHJKMNPQRSTVWXYZ0"
HOST = "lake.s3.eu-west-1.amazonaws.com"
CREDENTIALS = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
SESSION = Credentials("ASIAIOSFODNN7EXAMPLE", "another+secret", "session/token==")


class _Rule(NamedTuple):
    rule_id: str = "reader@catalog:lake"


ALLOW = Allow(TableId("lake", "ns", "t1"), _Rule())
ONCE = Allow(TableId("lake", "ns", "t1"), _Rule(), write_once=True)


def store(name: str = "aws", *, stamp: Stamp = Stamp.QUERY, region: str = "eu-west-1") -> Storage:
    return Storage(name, StorageKind.AWS, region, ("lake", "cold"), aws_endpoints(region), stamp)


AWS = store()
PLAIN = store(stamp=Stamp.OFF)


def request(
    query: str = "",
    *,
    method: str = "GET",
    operation: Operation = Operation.GET_OBJECT,
    storage: Storage = AWS,
    bucket: str = "lake",
    canonical: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    payload: str = UNSIGNED_PAYLOAD,
) -> S3Request:
    return S3Request(
        operation=operation,
        method=method,
        uri=f"https://{HOST}/wh/t1/f" + (f"?{query}" if query else ""),
        storage=storage,
        bucket=bucket,
        key="wh/t1/f",
        host=HOST,
        canonical_path="/wh/t1/f",
        canonical_query=query if canonical is None else canonical,
        headers=headers,
        payload=payload,
    )


def sign(
    asked: S3Request,
    *,
    allow: Allow = ALLOW,
    credentials: Credentials = CREDENTIALS,
    signer: RequestSigner | None = None,
    event_id: str = EVENT,
) -> SignedRequest:
    return (signer or RequestSigner()).sign(allow, asked, credentials, event_id=event_id, now=NOW)


def check(asked: S3Request, signed: SignedRequest, *, credentials: Credentials = CREDENTIALS, now: float = NOW) -> None:
    """Verify as both clients would send it."""
    message = {
        "method": asked.method,
        "uri": asked.uri,
        "headers": {name: [value] for name, value in asked.headers},
    }
    answer: dict[str, Any] = msgspec.to_builtins(signed)
    tokens = {credentials.access_key_id: credentials.session_token} if credentials.session_token else None
    for merge in (as_java, as_pyiceberg):
        secrets = {credentials.access_key_id: credentials.secret_access_key}
        verify(merge(message, answer), secrets, now=now, tokens=tokens, region=asked.storage.region)


def signed_headers(signed: SignedRequest) -> list[str]:
    return signed.headers["Authorization"][0].split("SignedHeaders=")[1].split(",")[0].split(";")


_NAMES = sorted({name for shapes in SHAPES.values() for shape in shapes for name in shape.required | shape.optional})


def test_the_stamp_sorts_behind_every_query_name_that_is_signed() -> None:
    """The stamp is appended to a query that is canonical already: a name behind it would break every signature."""
    assert len(_NAMES) >= 20
    assert max([*_NAMES, "x-id"]) < STAMP


@pytest.mark.parametrize("name", (*_NAMES, "x-id", ""))
@pytest.mark.parametrize("value", ("", "a", "a/b=+ \u00e9"))
def test_a_stamped_request_verifies_with_every_query_name(name: str, value: str) -> None:
    """A store canonicalises the whole query, stamp included."""
    pairs = [(name, value)] if name else []
    wanted = canonical_query(pairs)
    asked = request(wanted)
    signed = sign(asked)
    joint = "&" if pairs else "?"
    assert signed.uri == f"{asked.uri}{joint}{STAMP}={EVENT}"
    check(asked, signed)


def test_a_stamped_request_verifies_with_a_query_in_another_order_than_signed() -> None:
    """Clients order their query as they like; what is signed is sorted, what is answered is theirs."""
    raw = "prefix=wh%2Ft1/&x-id=ListObjectsV2&list-type=2&delimiter=/"
    canonical = "delimiter=%2F&list-type=2&prefix=wh%2Ft1%2F&x-id=ListObjectsV2"
    asked = request(raw, canonical=canonical)
    signed = sign(asked)
    assert signed.uri == f"{asked.uri}&{STAMP}={EVENT}"
    check(asked, signed)


@pytest.mark.parametrize("raw", ("acl=", "acl"))
def test_without_a_stamp_the_uri_is_the_clients_own(raw: str) -> None:
    """`stamp: off` is for stores that refuse query names that they do not know."""
    asked = request(raw, canonical="acl=", storage=PLAIN)
    signed = sign(asked)
    assert signed.uri == asked.uri
    check(asked, signed)


def test_the_stamp_is_part_of_what_is_signed() -> None:
    """A client that could take it off would break the only link from the store's log to the audit trail."""
    asked = request()
    signed = sign(asked)
    without = SignedRequest(asked.uri, signed.headers)
    with pytest.raises(VerificationError, match="SignatureDoesNotMatch"):
        check(asked, without)


def test_event_ids_need_no_escapes() -> None:
    """The id goes into the signed query as it is."""
    for _ in range(100):
        assert new_event_id().isalnum()


@pytest.mark.parametrize("credentials", (CREDENTIALS, SESSION))
def test_the_answer_holds_only_what_the_signer_adds(credentials: Credentials) -> None:
    """Java lays its own headers over the answer's: a changed copy of one of them would be lost, or doubled."""
    asked = request(headers=(("content-type", "a/b"), ("x-amz-meta-a", "1")))
    signed = sign(asked, credentials=credentials)
    expected = {"Authorization", "X-Amz-Date", "x-amz-content-sha256"}
    if credentials is SESSION:
        expected |= {"X-Amz-Security-Token"}
        assert signed.headers["X-Amz-Security-Token"] == [SESSION.session_token]
    assert set(signed.headers) == expected
    assert all(len(values) == 1 for values in signed.headers.values())
    assert signed.headers["x-amz-content-sha256"] == [UNSIGNED_PAYLOAD]
    check(asked, signed, credentials=credentials)


@pytest.mark.parametrize("payload", (UNSIGNED_PAYLOAD, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "0" * 64))
def test_the_payload_mode_is_answered_as_it_was_judged(payload: str) -> None:
    """Another mode than the signed one stores the framing as content, or fails at the store."""
    asked = request(method="PUT", operation=Operation.PUT_OBJECT, payload=payload)
    signed = sign(asked)
    assert signed.headers["x-amz-content-sha256"] == [payload]
    check(asked, signed)


_GUARD_BETWEEN = (
    (),
    (("content-type", "a/b"),),
    # On both sides of `host` and of `if-none-match`.
    (("content-md5", "x=="), ("content-type", "a/b"), ("x-amz-meta-a", "1"), ("x-amz-te", "append-md5")),
)


@pytest.mark.parametrize("headers", _GUARD_BETWEEN)
@pytest.mark.parametrize("credentials", (CREDENTIALS, SESSION))
def test_the_write_once_guard_is_signed_in_its_place(
    headers: tuple[tuple[str, str], ...], credentials: Credentials
) -> None:
    """An unsigned guard is one that the client may leave out; one in the wrong place fails every write."""
    asked = request(method="PUT", operation=Operation.PUT_OBJECT, headers=headers)
    signed = sign(asked, allow=ONCE, credentials=credentials)
    assert signed.headers["If-None-Match"] == ["*"]
    names = signed_headers(signed)
    assert "if-none-match" in names
    assert names == sorted(names)
    assert {name for name, _ in headers} < set(names)
    check(asked, signed, credentials=credentials)
    # A client that drops the guard has no signature.
    dropped = {name: values for name, values in signed.headers.items() if name != "If-None-Match"}
    with pytest.raises(VerificationError, match="signed but not received"):
        check(asked, SignedRequest(signed.uri, dropped), credentials=credentials)


def test_without_the_guard_nothing_of_it_is_answered() -> None:
    """A condition that was not asked for would refuse the second write of an ordinary table."""
    signed = sign(request(method="PUT", operation=Operation.PUT_OBJECT))
    assert "If-None-Match" not in signed.headers
    assert "if-none-match" not in signed_headers(signed)


@pytest.mark.parametrize("ttl", (MIN_SIGNATURE_TTL, MIN_SIGNATURE_TTL + 1, 300, S3_WINDOW - 1, S3_WINDOW))
def test_a_signature_ends_with_its_ttl(ttl: int) -> None:
    """A revoked caller keeps its signatures exactly so long."""
    asked = request()
    signed = sign(asked, signer=RequestSigner(ttl))
    dated = calendar.timegm(time.strptime(signed.headers["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ"))
    assert dated == NOW - (S3_WINDOW - ttl)
    check(asked, signed, now=NOW + ttl)
    with pytest.raises(VerificationError, match="RequestTimeTooSkewed"):
        check(asked, signed, now=NOW + ttl + 1)


@pytest.mark.parametrize("ttl", (MIN_SIGNATURE_TTL - 1, 0, -1, S3_WINDOW + 1))
def test_a_ttl_that_no_store_or_client_can_keep_is_refused(ttl: int) -> None:
    """Beyond S3's window the date would lie in the future; below the floor honest clients fail."""
    with pytest.raises(ValueError, match="signature_ttl"):
        RequestSigner(ttl)


def test_the_default_is_the_stores_own_window() -> None:
    """An operator who sets nothing gets S3's fifteen minutes, dated now."""
    signed = sign(request())
    assert signed.headers["X-Amz-Date"] == [time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(NOW))]


def test_fractions_of_a_second_are_dropped() -> None:
    """A date has whole seconds."""
    signed = RequestSigner().sign(ALLOW, request(), CREDENTIALS, event_id=EVENT, now=NOW + 0.9)
    assert signed.headers["X-Amz-Date"] == sign(request()).headers["X-Amz-Date"]


def test_a_signing_key_is_derived_once_for_the_same_credentials() -> None:
    """Deriving takes longer than signing; a key per request would double the cost of each."""
    signer = RequestSigner()
    sign(request(), signer=signer)
    first = signer._slots["aws", "lake"].key
    sign(request("x-id=GetObject"), signer=signer)
    assert signer._slots["aws", "lake"].key is first
    assert len(signer._slots) == 1


def test_renewed_credentials_replace_the_key() -> None:
    """A signature of credentials that were rotated away is refused by the store."""
    signer = RequestSigner()
    asked = request()
    sign(asked, signer=signer)
    signed = sign(asked, credentials=SESSION, signer=signer)
    assert "ASIAIOSFODNN7EXAMPLE" in signed.headers["Authorization"][0]
    check(asked, signed, credentials=SESSION)
    assert len(signer._slots) == 1
    # Equal text is no proof that nothing changed; the object is.
    again = Credentials(SESSION.access_key_id, SESSION.secret_access_key, SESSION.session_token)
    held = signer._slots["aws", "lake"].key
    sign(asked, credentials=again, signer=signer)
    assert signer._slots["aws", "lake"].key is not held


def test_a_secret_that_changes_under_the_same_id_takes_effect() -> None:
    """Stores let an operator reset the secret of a key id."""
    signer = RequestSigner()
    asked = request()
    sign(asked, signer=signer)
    renewed = Credentials(CREDENTIALS.access_key_id, "a-new-secret")
    check(asked, sign(asked, credentials=renewed, signer=signer), credentials=renewed)


def test_each_bucket_and_storage_has_a_key_of_its_own() -> None:
    """One bucket's credentials must never sign for another bucket."""
    signer = RequestSigner()
    for storage, bucket, credentials in (
        (AWS, "lake", CREDENTIALS),
        (AWS, "cold", SESSION),
        (store("other"), "lake", SESSION),
    ):
        for _ in range(2):
            signed = sign(request(storage=storage, bucket=bucket), credentials=credentials, signer=signer)
            assert f"Credential={credentials.access_key_id}/" in signed.headers["Authorization"][0]
    assert len(signer._slots) == 3


def test_a_storage_that_moved_to_another_region_is_signed_for_that_one() -> None:
    """A reload may change a storage's region while its credentials stay."""
    signer = RequestSigner()
    sign(request(), signer=signer)
    moved = request(storage=store(region="eu-central-1"))
    signed = sign(moved, signer=signer)
    assert "/eu-central-1/s3/aws4_request" in signed.headers["Authorization"][0]
    check(moved, signed)


def test_no_secret_is_shown() -> None:
    """What is answered, printed or logged holds no secret."""
    signer = RequestSigner()
    signed = sign(request(), signer=signer, credentials=SESSION)
    shown = f"{signed!r}{signer._slots!r}"
    assert SESSION.secret_access_key not in shown
    assert CREDENTIALS.secret_access_key not in shown


PINNED = msgspec.structs.replace(AWS, pins_forwarded_headers=True)


@pytest.mark.parametrize("allow", (ALLOW, ONCE))
@pytest.mark.parametrize("headers", ((), (("content-type", "a/b"), ("x-amz-meta-a", "1"))))
@pytest.mark.parametrize("credentials", (CREDENTIALS, SESSION))
def test_forwarding_headers_are_signed_as_empty_where_the_store_believes_them(
    allow: Allow, headers: tuple[tuple[str, str], ...], credentials: Credentials
) -> None:
    """Such a store verifies the path that they claim and serves the real one: a signature would open every object."""
    asked = request(method="PUT", operation=Operation.PUT_OBJECT, storage=PINNED, headers=headers)
    signed = sign(asked, allow=allow, credentials=credentials)
    assert (signed.headers["X-Forwarded-Host"], signed.headers["X-Forwarded-Prefix"]) == ([""], [""])
    names = signed_headers(signed)
    assert {"x-forwarded-host", "x-forwarded-prefix"} < set(names)
    assert names == sorted(names)
    check(asked, signed, credentials=credentials)
    # What is claimed, or left out, has no signature.
    for name in ("X-Forwarded-Host", "X-Forwarded-Prefix"):
        claimed = msgspec.structs.replace(signed, headers={**signed.headers, name: ["/lake/wh/t2"]})
        with pytest.raises(VerificationError, match="SignatureDoesNotMatch"):
            check(asked, claimed, credentials=credentials)
        kept = {each: values for each, values in signed.headers.items() if each != name}
        with pytest.raises(VerificationError, match="signed but not received"):
            check(asked, msgspec.structs.replace(signed, headers=kept), credentials=credentials)


def test_other_stores_are_not_sent_forwarding_headers() -> None:
    """A proxy in between may have to set them."""
    assert not {"X-Forwarded-Host", "X-Forwarded-Prefix"} & sign(request()).headers.keys()


@pytest.mark.parametrize("ttl", (MIN_SIGNATURE_TTL, S3_WINDOW))
def test_the_end_of_a_signature_is_told_to_the_second(ttl: int) -> None:
    """The audit event says until when a revoked caller could still use what it was given."""
    signer = RequestSigner(ttl)
    for now in (NOW, NOW + 0.9, NOW + 1, NOW):
        end = calendar.timegm(time.strptime(rfc3339(int(now) + signer.ttl), "%Y-%m-%dT%H:%M:%SZ"))
        assert end == int(now) + ttl
