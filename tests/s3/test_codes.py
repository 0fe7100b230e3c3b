"""Each refusal has the status and code of S3, by which SDKs decide whether to try again."""

from __future__ import annotations

import pytest

from signproxy.errors import Reason
from signproxy.s3.codes import s3_code

# What S3 answers with, and SDKs have a class or a branch for.
_KNOWN = {
    "AccessDenied", "AuthorizationHeaderMalformed", "BadDigest", "EntityTooLarge", "ExpiredToken", "IncompleteBody",
    "InternalError", "InvalidAccessKeyId", "InvalidArgument", "InvalidRequest", "InvalidURI", "KeyTooLongError",
    "MalformedXML", "MethodNotAllowed", "MissingContentLength", "MissingRequestBodyError", "NoSuchKey", "NoSuchUpload",
    "NotImplemented", "RequestTimeTooSkewed", "RequestTimeout", "ServiceUnavailable", "SignatureDoesNotMatch",
    "SlowDown", "XAmzContentSHA256Mismatch",
}  # fmt: skip


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.ALLOWED])
def test_every_reason_has_a_code_of_s3(reason: Reason) -> None:
    """A reason without one is a fault of the server to the client, who tries again for minutes."""
    status, code = s3_code(reason)
    assert code in _KNOWN
    assert 400 <= status < 600
    # What the caller did wrong is never the server's fault, nor the other way round.
    if reason.status != 429:
        assert (status >= 500) == (reason.status >= 500)


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
    assert s3_code(reason) == (status, code)
