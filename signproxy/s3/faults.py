"""Name what S3 tells apart where one reason is enough for signproxy, with the words that S3 has for it.

A fault changes what the client is told, and nothing else: audit, metrics and documentation know reasons.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from signproxy.errors import Reason, Refused

_MAX_FACT = 1024
"""Characters of what a client sent that it is told again."""


class S3Code(NamedTuple):
    """What an S3 client understands of a refusal."""

    status: int
    code: str
    message: str = ""
    """S3's own words, with places for facts; the reason's message where there are none."""
    elements: tuple[str, ...] = ()
    """What S3 calls the facts, in the elements of the error that hold them; an empty name is in no element."""


_AUTHORIZATION = "The authorization header is malformed; "
_CREDENTIAL = "Error parsing the X-Amz-Credential parameter; "
_CREDENTIAL_FORM = 'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".'
_DATE_FORM = 'incorrect date format "{}". This date in the credential must be in the format "yyyyMMdd".'
_SERVICE = 'incorrect service "{}". This endpoint belongs to "s3".'
_TERMINAL = 'incorrect terminal "{}". This endpoint uses "aws4_request".'
_REGION = 'the region "{}" is wrong; expecting "{}"'
_ARGUMENTS = ("ArgumentName", "ArgumentValue")
_CONTENT_SHA256 = (
    "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 "
    "value."
)


def _malformed(message: str, *elements: str) -> S3Code:
    return S3Code(400, "AuthorizationHeaderMalformed", _AUTHORIZATION + message, elements)


def _query(message: str) -> S3Code:
    return S3Code(400, "AuthorizationQueryParametersError", message)


def _argument(message: str) -> S3Code:
    return S3Code(400, "InvalidArgument", message, _ARGUMENTS)


def _request(message: str) -> S3Code:
    return S3Code(400, "InvalidRequest", message)


class Fault(Enum):
    """What S3 tells apart where one reason is enough for signproxy."""

    # fmt: off
    # the message
    HTTP_MESSAGE = _request("The HTTP message is not well-formed: {}.")
    # the Authorization header
    DATE_HEADER = S3Code(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.")
    AUTHORIZATION_FORM = _argument("Authorization header is invalid -- one and only one ' ' (space) required.")
    AUTHORIZATION_TYPE = _argument("Unsupported Authorization Type")
    SIGNATURE_VERSION = _request("The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
    COMPONENTS = _malformed("the authorization header requires three components: Credential, SignedHeaders, and Signature.")
    COMPONENT_FORM = _malformed('the authorization component "{}" is malformed.')
    COMPONENT_MISSING = _malformed("missing {}.")
    CREDENTIAL_FORM = _malformed(_CREDENTIAL_FORM)
    CREDENTIAL_DATE = _malformed(_DATE_FORM)
    CREDENTIAL_SERVICE = _malformed(_SERVICE)
    CREDENTIAL_TERMINAL = _malformed(_TERMINAL)
    CREDENTIAL_REGION = _malformed(_REGION, "", "Region")
    DATES = _malformed(_AUTHORIZATION + "Invalid credential date. Date is not the same as X-Amz-Date.")
    CONTENT_SHA256_MISSING = _request("Missing required header for this request: x-amz-content-sha256")
    CONTENT_SHA256_FORM = _argument(_CONTENT_SHA256)
    CONTENT_SHA256_USE = _request("The value of x-amz-content-sha256 header is invalid.")
    # the query of a presigned URL
    QUERY_PARAMETERS = _query("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
    QUERY_ALGORITHM = _query('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256"')
    QUERY_HMAC = _query('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
    QUERY_CREDENTIAL_FORM = _query(_CREDENTIAL + _CREDENTIAL_FORM)
    QUERY_CREDENTIAL_DATE = _query(_CREDENTIAL + _DATE_FORM)
    QUERY_CREDENTIAL_SERVICE = _query(_CREDENTIAL + _SERVICE)
    QUERY_CREDENTIAL_TERMINAL = _query(_CREDENTIAL + _TERMINAL)
    QUERY_CREDENTIAL_REGION = _query(_CREDENTIAL + _REGION)
    QUERY_DATE = _query("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    QUERY_DATES = _query('Invalid credential date "{}". This date is not the same as X-Amz-Date: "{}".')
    QUERY_EXPIRES_NUMBER = _query("X-Amz-Expires should be a number")
    QUERY_EXPIRES_NEGATIVE = _query("X-Amz-Expires must be non-negative")
    QUERY_EXPIRES_LATE = _query("X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds")
    # keys and signatures
    TOKEN_INVALID = S3Code(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    KEY_UNKNOWN = S3Code(403, "InvalidAccessKeyId", "", ("AWSAccessKeyId",))
    UNSIGNED_HEADERS = S3Code(403, "AccessDenied", "", ("HeadersNotSigned",))
    SKEWED = S3Code(403, "RequestTimeTooSkewed", "", ("RequestTime", "ServerTime", "MaxAllowedSkewMilliseconds"))
    URL_EXPIRED = S3Code(403, "AccessDenied", "Request has expired.", ("X-Amz-Expires", "Expires", "ServerTime"))
    # what is asked for
    BUCKET_NAME = S3Code(400, "InvalidBucketName", "The specified bucket is not valid.", ("BucketName",))
    PART_NUMBER = _argument("Part number must be an integer between 1 and 10000, inclusive.")
    MAX_BUCKETS = _argument("Argument max-buckets must be an integer between 1 and 10000.")
    COPY_SOURCE_ENCODING = _argument("Invalid copy source encoding")
    COPY_SOURCE_BUCKET = _argument("Invalid copy source bucket name")
    COPY_SOURCE_KEY = _argument("Invalid copy source object key")
    # the body
    DECODED_LENGTH = S3Code(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    LENGTHS = S3Code(400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length HTTP header")
    CHUNK_SIZE = S3Code(400, "InvalidChunkSizeError", "Only the last chunk is allowed to have a size less than 8192 bytes", ("Chunk", "BadChunkSize"))
    TRAILER_NAME = _request("The value specified in the x-amz-trailer header is not supported")
    TRAILER_FORM = S3Code(400, "MalformedTrailerError", "The request contained trailing data that was not well-formed or did not conform to our published schema.")
    TRAILER_VALUE = _request("Value for {} trailing header is invalid.")
    CHECKSUM = S3Code(400, "BadDigest", "The {} you specified did not match the calculated checksum.")
    CONTENT_MD5 = S3Code(400, "BadDigest", "The Content-MD5 you specified did not match what we received.", ("ExpectedDigest", "CalculatedDigest"))
    CONTENT_SHA256 = S3Code(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.", ("ClientComputedContentSHA256", "S3ComputedContentSHA256"))
    # fmt: on


class S3Refused(Refused):
    """Raise to refuse a request with what S3 says of the very fault; `facts` are the caller's own, and told to it."""

    def __init__(self, reason: Reason, fault: Fault, *facts: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.fault = fault
        self.facts = tuple([fact[:_MAX_FACT] for fact in facts])
