"""The tests' own verifier is as strict as S3, or what it accepts proves nothing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials

from tests.verifier import MAX_SKEW_SECONDS, VerificationError, WireHttp, as_java, as_pyiceberg, verify

ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRETS = {ACCESS_KEY_ID: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
BODY = b"<Delete/>"


def now_of(wire: WireHttp) -> float:
    date = next(value for name, value in wire.headers if name.lower() == "x-amz-date")
    return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def wire_of(request: Any, body: bytes | None) -> WireHttp:
    """Take a request of botocore apart as a server gets it."""
    scheme_and_host, _, target = request.url.partition("://")[2].partition("/")
    headers = [(name, value if isinstance(value, str) else value.decode()) for name, value in request.headers.items()]
    return WireHttp(request.method, f"/{target}", (("Host", scheme_and_host), *headers), body)


def signed(
    method: str = "PUT", target: str = "/lake/t/a", body: bytes = BODY, token: str | None = None, **headers: str
) -> WireHttp:
    request = AWSRequest(
        method=method,
        url=f"https://s3.eu-west-1.amazonaws.com{target}",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        data=body,
    )
    S3SigV4Auth(Credentials(ACCESS_KEY_ID, SECRETS[ACCESS_KEY_ID], token), "s3", "eu-west-1").add_auth(request)
    return wire_of(request, body)


def with_header(wire: WireHttp, name: str, value: str | None) -> WireHttp:
    """Replace a header, add it, or take it away."""
    kept = tuple((other, text) for other, text in wire.headers if other.lower() != name.lower())
    return replace(wire, headers=kept if value is None else (*kept, (name, value)))


def header(wire: WireHttp, name: str) -> str:
    return next(value for other, value in wire.headers if other.lower() == name.lower())


def code_of(wire: WireHttp, *, now: float | None = None, **arguments: Any) -> str:
    with pytest.raises(VerificationError) as caught:
        verify(wire, SECRETS, now=now_of(wire) if now is None else now, **arguments)
    return caught.value.code


@pytest.mark.parametrize(
    "wire",
    (
        signed(),
        signed("GET", "/"),
        signed("GET", "/lake?acl"),
        signed("GET", "/lake?list-type=2&prefix=t%2F%C3%A9%20&a-b=&a=1"),
        signed("PUT", "/lake/t/d%3D1/%2Bb//c"),
        signed(Content_MD5="1B2M2Y8AsgTpgAmY7PhCfg==", x_amz_meta_a="  a   b  "),
        signed(body=b""),
    ),
)
def test_what_the_aws_sdk_signed_is_accepted(wire: WireHttp) -> None:
    """A verifier that is wrong about a canonical form would fail signatures that stores accept."""
    verify(wire, SECRETS, now=now_of(wire), region="eu-west-1")


def test_a_session_is_accepted_with_its_token_alone() -> None:
    """A token that is not looked at would hide a signer that leaves it out."""
    wire = signed(token="session")
    verify(wire, SECRETS, now=now_of(wire), tokens={ACCESS_KEY_ID: "session"})
    assert code_of(wire) == "InvalidToken"
    assert code_of(wire, tokens={ACCESS_KEY_ID: "another"}) == "InvalidToken"
    assert code_of(signed(), tokens={ACCESS_KEY_ID: "session"}) == "InvalidToken"


@pytest.mark.parametrize(
    ("wire", "sent_as"),
    (
        # Other spellings of the same decoded request
        (signed("PUT", "/lake/t/d%3D1%2B2"), {"target": "/lake/t/d=1+2"}),
        (signed("PUT", "/lake/t/%C3%A9~"), {"target": "/lake/t/%c3%a9%7E"}),
        (signed("PUT", "/lake/q/v"), {"target": "/lake/q%2Fv"}),
        (signed("GET", "/lake?a=&prefix=t%2Fa%20b"), {"target": "/lake?prefix=t/a+b&a"}),
        (signed("GET", "/lake"), {"target": "/lake?"}),
    ),
)
def test_a_target_is_decoded_once_and_encoded_anew(wire: WireHttp, sent_as: dict[str, Any]) -> None:
    """Stores compare decoded requests; a verifier of raw ones would accept what they refuse."""
    verify(replace(wire, **sent_as), SECRETS, now=now_of(wire))


@pytest.mark.parametrize(
    ("changed", "code"),
    (
        ({"method": "GET"}, "SignatureDoesNotMatch"),
        ({"target": "/lake/t/b"}, "SignatureDoesNotMatch"),
        ({"target": "/lake/t/../t/a"}, "SignatureDoesNotMatch"),
        ({"target": "/lake//t/a"}, "SignatureDoesNotMatch"),
        ({"target": "/lake/t/a?acl"}, "SignatureDoesNotMatch"),
        ({"target": "/lake/t/%2561"}, "SignatureDoesNotMatch"),
        ({"target": "/lake/t/%zz"}, "InvalidURI"),
        ({"target": "/lake/t/a?b=%"}, "InvalidURI"),
        ({"target": "lake/t/a"}, "InvalidURI"),
        ({"body": b"<Delete />"}, "XAmzContentSHA256Mismatch"),
    ),
)
def test_a_changed_part_is_refused(changed: dict[str, Any], code: str) -> None:
    """Each part that is not looked at is one that a signer may get wrong unnoticed."""
    assert code_of(replace(signed(), **changed)) == code


OTHER_SHA256 = hashlib.sha256(b"other").hexdigest()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    (
        ("Host", "other", "SignatureDoesNotMatch"),
        ("Host", None, "SignatureDoesNotMatch"),
        ("x-amz-te", "other", "SignatureDoesNotMatch"),
        ("x-amz-te", None, "SignatureDoesNotMatch"),
        ("Content-MD5", "other", "SignatureDoesNotMatch"),
        # Added after the request was signed
        ("x-amz-copy-source", "/lake/other/a", "AccessDenied"),
        ("X-Amz-Acl", "public-read", "AccessDenied"),
        ("x-amz-meta-a", "b", "AccessDenied"),
        ("x-amz-security-token", "token", "AccessDenied"),
        ("x-amz-content-sha256", OTHER_SHA256, "XAmzContentSHA256Mismatch"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", "SignatureDoesNotMatch"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "InvalidArgument"),
        ("x-amz-content-sha256", None, "SignatureDoesNotMatch"),
        ("X-Amz-Date", "20200101T000000Z", "AuthorizationHeaderMalformed"),
        ("Authorization", None, "AccessDenied"),
        ("Authorization", "Bearer token", "AuthorizationHeaderMalformed"),
    ),
)
def test_a_changed_header_is_refused(name: str, value: str | None, code: str) -> None:
    """Laundering begins with a header that a store does not check."""
    wire = signed(x_amz_te="append-md5", Content_MD5="1B2M2Y8AsgTpgAmY7PhCfg==")
    with pytest.raises(VerificationError) as caught:
        verify(with_header(wire, name, value), SECRETS, now=now_of(wire))
    assert caught.value.code == code


@pytest.mark.parametrize("name", ("Host", "Authorization", "X-Amz-Date", "x-amz-content-sha256", "x-amz-te"))
def test_a_repeated_header_is_refused(name: str) -> None:
    """Which of two values a store takes is chance."""
    wire = signed(x_amz_te="append-md5")
    doubled = replace(wire, headers=(*wire.headers, (name.upper(), header(wire, name))))
    assert code_of(doubled) in {"InvalidRequest", "AccessDenied", "SignatureDoesNotMatch"}


@pytest.mark.parametrize(
    ("pattern", "replacement", "code"),
    (
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1", "AuthorizationHeaderMalformed"),
        (ACCESS_KEY_ID, "AKIAOTHER", "InvalidAccessKeyId"),
        ("/eu-west-1/", "/us-east-1/", "SignatureDoesNotMatch"),
        ("/s3/", "/sts/", "AuthorizationHeaderMalformed"),
        ("/aws4_request", "/aws5_request", "AuthorizationHeaderMalformed"),
        ("=host;", "=Host;", "AuthorizationHeaderMalformed"),
        (
            "host;x-amz-content-sha256;x-amz-date",
            "x-amz-content-sha256;host;x-amz-date",
            "AuthorizationHeaderMalformed",
        ),
        ("=host;", "=host;host;", "AuthorizationHeaderMalformed"),
        ("=host;", "=", "AccessDenied"),
        (";x-amz-date", "", "AccessDenied"),
        (";x-amz-content-sha256", "", "AccessDenied"),
        (";x-amz-date", ";x-amz-date;x-amz-te", "SignatureDoesNotMatch"),
        ("Signature=", "Signature=0", "AuthorizationHeaderMalformed"),
    ),
)
def test_a_changed_authorization_is_refused(pattern: str, replacement: str, code: str) -> None:
    """The header is what the signer writes; each of its words counts."""
    wire = signed()
    authorization = header(wire, "Authorization")
    assert pattern in authorization
    changed = with_header(wire, "Authorization", authorization.replace(pattern, replacement))
    assert code_of(changed) == code


def test_another_signature_is_refused() -> None:
    """All else being right, the signature still decides."""
    wire = signed()
    authorization = header(wire, "Authorization")
    last = "0" if authorization[-1] != "0" else "1"
    assert code_of(with_header(wire, "Authorization", authorization[:-1] + last)) == "SignatureDoesNotMatch"
    with pytest.raises(VerificationError, match="SignatureDoesNotMatch"):
        verify(wire, {ACCESS_KEY_ID: "other"}, now=now_of(wire))


def test_another_region_is_refused() -> None:
    """AWS names the right region and refuses the scope of another."""
    assert code_of(signed(), region="us-east-1") == "AuthorizationHeaderMalformed"


@pytest.mark.parametrize("skew", (MAX_SKEW_SECONDS, -MAX_SKEW_SECONDS))
def test_a_signature_lives_for_fifteen_minutes(skew: int) -> None:
    """Signatures dated back use this window up to its end."""
    wire = signed()
    verify(wire, SECRETS, now=now_of(wire) + skew)
    assert code_of(wire, now=now_of(wire) + skew + (1 if skew > 0 else -1)) == "RequestTimeTooSkewed"


def test_a_date_that_is_none_is_refused() -> None:
    """A month of 13 is no moment, and no reason to fall over either."""
    wire = signed()
    date = header(wire, "X-Amz-Date")[:8]
    changed = with_header(wire, "X-Amz-Date", f"{date}T250000Z")
    assert code_of(changed, now=now_of(wire)) == "AuthorizationHeaderMalformed"


def test_what_a_whole_client_sends_is_accepted() -> None:
    """Not the signer alone: botocore's client with its own headers, checksums and serializer."""
    sent: list[WireHttp] = []

    def capture(request: Any, **_: Any) -> AWSResponse:
        body = request.body if isinstance(request.body, bytes | None) else request.body.read()
        sent.append(wire_of(request, body or b""))
        return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda: iter(())))

    client = botocore.session.Session().create_client(
        "s3",
        region_name="eu-west-1",
        endpoint_url="http://127.0.0.1:9000",
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRETS[ACCESS_KEY_ID],
        config=Config(s3={"addressing_style": "path"}),
    )
    client.meta.events.register("before-send.s3", capture)
    client.put_object(Bucket="lake", Key="t/d=a+b %é/1.parquet", Body=b"data", Metadata={"a": "b  c"})
    client.head_object(Bucket="lake", Key="t/d=a+b %é/1.parquet")
    client.delete_object(Bucket="lake", Key="t//./a")
    assert len(sent) == 3
    for wire in sent:
        assert ("Host", "127.0.0.1:9000") in wire.headers
        verify(wire, SECRETS, now=now_of(wire), region="eu-west-1")


SIGN_REQUEST: dict[str, Any] = {
    "region": "eu-west-1",
    "method": "PUT",
    "uri": "https://lake.s3.eu-west-1.amazonaws.com/t/a?partNumber=1&uploadId=u",
    "headers": {
        "User-Agent": ["aws-sdk-java"],
        "Content-Type": ["application/octet-stream"],
        "amz-sdk-request": ["attempt=1"],
        "Expect": ["100-continue"],
    },
}


def answer_of(headers: dict[str, list[str]], uri: str = SIGN_REQUEST["uri"]) -> dict[str, Any]:
    return {"uri": uri, "headers": headers}


def test_java_lays_its_own_headers_over_the_answered_ones() -> None:
    """A signer that signs another value than the client's must fail here as it fails there."""
    answer = answer_of(
        {"Authorization": ["a"], "x-amz-date": ["d"], "Content-Type": ["text/plain"], "Cache-Control": ["private"]}
    )
    wire = as_java(SIGN_REQUEST, answer)
    assert wire.method == "PUT"
    assert wire.body is None
    assert sorted(wire.headers) == [
        ("Authorization", "a"),
        ("Content-Type", "application/octet-stream"),
        ("Expect", "100-continue"),
        ("Host", "lake.s3.eu-west-1.amazonaws.com"),
        ("User-Agent", "aws-sdk-java"),
        ("amz-sdk-request", "attempt=1"),
        ("x-amz-date", "d"),
    ]


def test_java_reorders_the_query_and_takes_the_whole_answered_uri() -> None:
    """Signatures must not depend on the order of parameters."""
    assert as_java(SIGN_REQUEST, answer_of({})).target == "/t/a?uploadId=u&partNumber=1"
    steered = as_java(SIGN_REQUEST, answer_of({}, "http://127.0.0.1:9000/lake/t/a"))
    assert steered.target == "/lake/t/a"
    assert ("Host", "127.0.0.1:9000") in steered.headers
    assert ("Host", "h") in as_java(SIGN_REQUEST, answer_of({"Host": ["h"]})).headers


def test_java_mixes_two_spellings_by_chance() -> None:
    """An answer that repeats a client's header in another case and value works on some days only."""
    with pytest.raises(VerificationError, match="AmbiguousMerge"):
        as_java(SIGN_REQUEST, answer_of({"content-type": ["text/plain"]}))
    repeated = as_java(SIGN_REQUEST, answer_of({"content-type": ["application/octet-stream"]}))
    assert [value for name, value in repeated.headers if name.lower() == "content-type"] == ["application/octet-stream"]


def test_pyiceberg_takes_the_answered_headers_last_and_rebuilds_its_own() -> None:
    """A signer that signs what aiohttp writes anew must fail here as it fails there."""
    answer = answer_of({"Authorization": ["a"], "content-type": ["text/plain", "b"], "Cache-Control": ["private"]})
    wire = as_pyiceberg(SIGN_REQUEST, answer)
    assert wire.target == "/t/a?partNumber=1&uploadId=u"
    assert sorted(wire.headers) == [
        ("Accept-Encoding", "identity"),
        ("Authorization", "a"),
        ("Cache-Control", "private"),
        ("Host", "lake.s3.eu-west-1.amazonaws.com"),
        ("User-Agent", "aiobotocore/rebuilt"),
        ("amz-sdk-request", "attempt=2"),
        ("content-type", "text/plain, b"),
    ]


@pytest.mark.parametrize("merge", (as_java, as_pyiceberg))
@pytest.mark.parametrize(
    ("uri", "target", "host"),
    (
        # Java addresses a bucket by its host without any path.
        ("https://b.s3.amazonaws.com?delete", "/?delete", "b.s3.amazonaws.com"),
        ("https://b.s3.amazonaws.com", "/", "b.s3.amazonaws.com"),
        ("https://s3.amazonaws.com:443/b", "/b", "s3.amazonaws.com"),
        ("http://s3.local:80/b", "/b", "s3.local"),
        ("http://s3.local:443/b", "/b", "s3.local:443"),
        ("http://s3.local:9000/b/a%2Fb/%2Fc=d?x=%2F", "/b/a%2Fb/%2Fc=d?x=%2F", "s3.local:9000"),
    ),
)
def test_a_client_sends_the_uri_as_answered(merge: Any, uri: str, target: str, host: str) -> None:
    """The path travels raw; the port is named unless it is the scheme's own."""
    wire = merge({**SIGN_REQUEST, "body": "é"}, answer_of({}, uri))
    assert wire.target == target
    assert ("Host", host) in wire.headers
    assert wire.body == "é".encode()
