"""Each refusal has the status and code of S3, by which SDKs decide whether to try again."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import Worded, s3_answer, s3_code
from signproxy.s3.faults import Fault, S3Refused

# What S3 documents as its codes, and SDKs have a class or a branch for.
_KNOWN = {
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "BadDigest",
    "EntityTooLarge",
    "ExpiredToken",
    "IncompleteBody",
    "InternalError",
    "InvalidAccessKeyId",
    "InvalidArgument",
    "InvalidRequest",
    "InvalidURI",
    "KeyTooLongError",
    "MalformedXML",
    "MethodNotAllowed",
    "MissingContentLength",
    "MissingRequestBodyError",
    "NoSuchKey",
    "NoSuchUpload",
    "NotImplemented",
    "OperationAborted",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "XAmzContentSHA256Mismatch",
}
# Besides those, what S3 has for faults that one reason is enough for.
_OF_FAULTS = _KNOWN | {
    "AuthorizationQueryParametersError", "InvalidBucketName", "InvalidChunkSizeError", "InvalidToken",
    "MalformedTrailerError",
}  # fmt: skip


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.ALLOWED])
def test_every_reason_has_a_code_of_s3(reason: Reason) -> None:
    """A reason without one is a fault of the server to the client, who tries again for minutes."""
    told = s3_answer(Refused(reason, "the operator's detail"))
    status, code = told.status, told.code
    assert code in _KNOWN
    assert told.message
    # Words with places for facts would be told with the places empty.
    assert "{}" not in told.message
    assert "detail" not in told.message
    assert not told.elements
    assert 400 <= status < 600
    # What the caller did wrong is never the server's fault, nor the other way round.
    if reason.status != 429:
        assert (status >= 500) == (reason.status >= 500)


def test_every_rule_about_a_request_is_told_in_words_of_its_own() -> None:
    """A user who reads `Bad Request` cannot find out which of the rules for keys is broken."""
    told: dict[tuple[str, str], list[Reason]] = {}
    for reason in Reason:
        answer = s3_answer(Refused(reason))
        if 400 <= answer.status < 500 and answer.status not in (401, 403):
            told.setdefault((answer.code, answer.message), []).append(reason)
    assert sum(map(len, told.values())) >= 35
    alike = [reasons for reasons in told.values() if len(reasons) > 1]
    # S3's own words, which mean both.
    assert alike == [[Reason.CHUNK_MALFORMED, Reason.CHUNK_INCOMPLETE]]


@pytest.mark.parametrize(
    "reason",
    (
        Reason.OPERATION_REFUSED,
        Reason.OPERATION_UNKNOWN,
        Reason.HEADER_REFUSED,
        Reason.HEADER_VALUE,
        Reason.PAYLOAD_MODE,
        Reason.DELETE_WITHOUT_BODY,
        Reason.DELETE_BODY,
        Reason.DELETE_MARKUP,
        Reason.DELETE_SIZE,
    ),
)
def test_what_the_listener_says_is_not_about_signing(reason: Reason) -> None:
    """A caller that signs by itself, and whose requests are forwarded, would look for a signer it does not use."""
    assert "sign" not in s3_answer(Refused(reason)).message


def test_a_refusal_in_words_of_its_own_is_told_in_them() -> None:
    """The rule is known to the one who refuses, and the reason stands for several."""
    told = s3_answer(Worded(Reason.DELETE_BODY, "These words", detail="the operator's detail"))
    assert told == (400, "MalformedXML", "These words", ())
    told = s3_answer(Worded(Reason.DELETE_BODY, "x" * 5000, code="InvalidArgument"))
    assert told == (400, "InvalidArgument", "x" * 1024, ())


@pytest.mark.parametrize(
    ("reason", "message"),
    (
        (Reason.KEY_DOT_SEGMENT, "The key must not hold dot segments"),
        (Reason.KEY_EMPTY_SEGMENT, "The key must not hold empty segments"),
        (Reason.KEY_PATH_PARAMETER, "The key must not hold a segment that begins with a semicolon"),
    ),
)
def test_the_message_names_the_rule_that_a_key_breaks(reason: Reason, message: str) -> None:
    """`400` is no code that a client knows, and says nothing of what to rename."""
    assert s3_answer(Refused(reason)) == (400, "InvalidURI", message, ())


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    (
        (Reason.ALLOWED, 200, ""),
        (Reason.ANONYMOUS_REQUEST, 403, "AccessDenied"),
        (Reason.TABLE_UNKNOWN, 403, "AccessDenied"),
        (Reason.HEADERS_NOT_SIGNED, 403, "AccessDenied"),
        (Reason.SIGNATURE_EXPIRED, 403, "AccessDenied"),
        (Reason.TOKEN_SIGNATURE, 403, "AccessDenied"),
        (Reason.ACCESS_KEY_UNKNOWN, 403, "InvalidAccessKeyId"),
        (Reason.SIGNATURE_MISMATCH, 403, "SignatureDoesNotMatch"),
        (Reason.CHUNK_SIGNATURE, 403, "SignatureDoesNotMatch"),
        (Reason.TIME_SKEWED, 403, "RequestTimeTooSkewed"),
        (Reason.KEY_EXPIRED, 400, "ExpiredToken"),
        (Reason.RATE_LIMITED, 503, "SlowDown"),
        (Reason.OVERLOADED, 503, "SlowDown"),
        (Reason.PAYLOAD_HASH, 400, "XAmzContentSHA256Mismatch"),
        (Reason.CHECKSUM_MISMATCH, 400, "BadDigest"),
        (Reason.CHUNK_INCOMPLETE, 400, "IncompleteBody"),
        (Reason.LENGTH_REQUIRED, 411, "MissingContentLength"),
        (Reason.PAYLOAD_UNSUPPORTED, 501, "NotImplemented"),
        (Reason.UPLOAD_ID, 404, "NoSuchUpload"),
        (Reason.AUDIT_UNAVAILABLE, 503, "ServiceUnavailable"),
        (Reason.INTERNAL, 500, "InternalError"),
        (Reason.METHOD_UNKNOWN, 405, "MethodNotAllowed"),
        (Reason.HTTP_INVALID, 400, "InvalidRequest"),
        (Reason.ROUTE_UNKNOWN, 404, "NoSuchKey"),
    ),
)
def test_sdks_are_told_what_they_act_on(reason: Reason, status: int, code: str) -> None:
    """SDKs refresh keys on ExpiredToken, wait on SlowDown, correct their clock on RequestTimeTooSkewed."""
    assert s3_code(reason)[:2] == (status, code)


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_is_told_in_words_of_s3(fault: Fault) -> None:
    """A client of S3's own words would show a template in place of what is wrong."""
    said = fault.value
    told = s3_answer(S3Refused(Reason.AUTHORIZATION_MALFORMED, fault, "first", "second", "third", detail="detail"))
    assert (told.status, told.code) == (said.status, said.code)
    assert told.code in _OF_FAULTS
    assert 400 <= told.status < 500
    assert told.message
    assert "{}" not in told.message
    assert "detail" not in told.message
    assert [name for name, _ in told.elements] == [name for name in said.elements if name]


def test_what_a_client_is_told_again_is_bounded() -> None:
    """A header of 16 KiB would come back in every refusal."""
    told = s3_answer(S3Refused(Reason.HEADERS_NOT_SIGNED, Fault.UNSIGNED_HEADERS, "x" * 5000))
    assert told.elements == (("HeadersNotSigned", "x" * 1024),)


def test_a_fact_goes_into_the_words_or_the_element_that_s3_has_for_it() -> None:
    """A client in the wrong region reads the right one from the element."""
    told = s3_answer(S3Refused(Reason.SCOPE_MISMATCH, Fault.CREDENTIAL_REGION, "us-west-1", "eu-central-1"))
    assert told.message.endswith('the region "us-west-1" is wrong; expecting "eu-central-1"')
    assert told.elements == (("Region", "eu-central-1"),)
