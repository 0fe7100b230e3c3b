"""What S3 tells apart is told apart: clients and their authors read the words and the elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.aws_chunked import ChunkedPayload, UnsignedWatch
from signproxy.s3.codes import s3_answer
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.forward_wire import ForwardWire, service_operation
from signproxy.s3.forwarded import classify_forwarded
from signproxy.s3.operation import Operation
from signproxy.s3.payload import Payload, PayloadMode, payload_of
from tests.s3.forwarded_world import ALL, TABLE, asked
from tests.s3.world import MINIO

CRC32 = "x-amz-checksum-crc32"
UNSIGNED = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def _classified(wire: ForwardWire, rules: object = ALL) -> Callable[[], object]:
    return lambda: classify_forwarded(MINIO, wire, rules)  # type: ignore[arg-type]  # one of the two below


def _copied(value: str) -> Callable[[], object]:
    return lambda: parse_copy_source(value, versions=False, strict=False)


def _payload(
    declared: str = UNSIGNED,
    trailer: str = CRC32,
    length: str | None = "5",
    operation: Operation = Operation.PUT_OBJECT,
) -> Callable[[], object]:
    return lambda: payload_of(declared, "aws-chunked", trailer, length, operation, MINIO)


def _watched(framed: bytes, length: int = 2, trailer: str = CRC32) -> Callable[[], object]:
    def follow() -> None:
        watch = UnsignedWatch(
            Payload(PayloadMode.UNSIGNED_TRAILER, UNSIGNED, decoded_length=length, trailer=trailer), verifies=True
        )
        watch.feed(framed)
        watch.finish()

    return follow


def _chunked(framed: bytes, length: int, mode: PayloadMode = PayloadMode.SIGNED_CHUNKS_TRAILER) -> Callable[[], object]:
    def follow() -> None:
        chunks = ChunkedPayload(Payload(mode, mode.value, decoded_length=length, trailer=CRC32), None)
        chunks.feed(framed)
        chunks.finish()

    return follow


_SIGNATURE = b"0" * 64
_LAST = b"0;chunk-signature=" + _SIGNATURE + b"\r\n"
_LENGTHS = "You did not provide the number of bytes specified by the Content-Length HTTP header"
_TRAILER = "The request contained trailing data that was not well-formed or did not conform to our published schema."
_UPLOAD = (
    "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been "
    "aborted or completed."
)
_TERMINATED = "The request body terminated unexpectedly"


@pytest.mark.parametrize(
    ("attempt", "reason", "code", "message", "elements"),
    (
        # the address and the query
        (
            _classified(asked(bucket="My_Bucket%")), Reason.ENDPOINT_UNKNOWN, "InvalidBucketName",
            "The specified bucket is not valid.", {"BucketName": "My_Bucket%"},
        ),
        (
            _classified(asked("PUT", "k", "partNumber=0&uploadId=u")), Reason.OPERATION_UNKNOWN, "InvalidArgument",
            "Part number must be an integer between 1 and 10000, inclusive.",
            {"ArgumentName": "partNumber", "ArgumentValue": "0"},
        ),
        (
            _classified(asked("PUT", "wh/t1/k", "partNumber=10001&uploadId=u"), TABLE), Reason.OPERATION_UNKNOWN,
            "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive.",
            {"ArgumentName": "partNumber", "ArgumentValue": "10001"},
        ),
        (
            _classified(asked("GET", "k", "uploadId=not%20one")), Reason.UPLOAD_ID, "NoSuchUpload",
            _UPLOAD, {},
        ),
        (
            lambda: service_operation(asked("GET", "", "max-buckets=10001", bucket="")), Reason.QUERY_MALFORMED,
            "InvalidArgument", "Argument max-buckets must be an integer between 1 and 10000.",
            {"ArgumentName": "max-buckets", "ArgumentValue": "10001"},
        ),
        # the copy source
        (
            _copied("bucket/%ZZ"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source encoding",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "bucket/%ZZ"},
        ),
        (
            _copied("bucket/%ff"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source encoding",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "bucket/%ff"},
        ),
        (
            _copied("192.168.1.1/foo"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source bucket name",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "192.168.1.1/foo"},
        ),
        (
            _copied("bu@cket/foo"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source bucket name",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "bu@cket/foo"},
        ),
        (
            _copied("/bucket"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source object key",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": ""},
        ),
        (
            _copied("bucket/a/../../b"), Reason.COPY_SOURCE, "InvalidArgument", "Invalid copy source object key",
            {"ArgumentName": "x-amz-copy-source", "ArgumentValue": "a/../../b"},
        ),
        # the payload
        (
            _payload("hello"), Reason.PAYLOAD_MODE, "InvalidArgument", None,
            {"ArgumentName": "x-amz-content-sha256", "ArgumentValue": "hello"},
        ),
        (
            _payload(operation=Operation.PUT_OBJECT_TAGGING), Reason.PAYLOAD_MODE, "InvalidRequest",
            "The value of x-amz-content-sha256 header is invalid.", {},
        ),
        (
            _payload(length=None), Reason.LENGTH_REQUIRED, "MissingContentLength",
            "You must provide the Content-Length HTTP header.", {},
        ),
        (
            _payload(length="12x"), Reason.HEADER_VALUE, "MissingContentLength",
            "You must provide the Content-Length HTTP header.", {},
        ),
        (
            _payload(trailer="x-amz-checksum-x"), Reason.HEADER_VALUE, "InvalidRequest",
            "The value specified in the x-amz-trailer header is not supported", {},
        ),
        # the body
        (_watched(b"3\r\nabc\r\n0\r\n\r\n"), Reason.CHUNK_INCOMPLETE, "IncompleteBody", _LENGTHS, {}),
        (_watched(b"2\r\nab\r\n0\r\n\r\n"), Reason.CHUNK_INCOMPLETE, "MalformedTrailerError", _TRAILER, {}),
        (_watched(b"2\r\nab\r\n0\r\n:a\r\n\r\n"), Reason.CHUNK_MALFORMED, "MalformedTrailerError", _TRAILER, {}),
        (_watched(b"2\r\nab\r\n0\r\nx:a\r\n\r\n"), Reason.CHUNK_MALFORMED, "MalformedTrailerError", _TRAILER, {}),
        (_watched(b"2\r\nab\r\n"), Reason.CHUNK_INCOMPLETE, "IncompleteBody", _TERMINATED, {}),
        (_watched(b"nothing\r\n"), Reason.CHUNK_MALFORMED, "IncompleteBody", _TERMINATED, {}),
        (
            _watched(f"2\r\nab\r\n0\r\n{CRC32}:AAAAAA==\r\n\r\n".encode()), Reason.CHECKSUM_MISMATCH, "BadDigest",
            "The CRC32 you specified did not match the calculated checksum.", {},
        ),
        (
            _watched(f"2\r\nab\r\n0\r\n{CRC32}:invalid\r\n\r\n".encode()), Reason.CHECKSUM_MISMATCH, "InvalidRequest",
            f"Value for {CRC32} trailing header is invalid.", {},
        ),
        (_chunked(_LAST + b"\r\n", 0), Reason.CHUNK_INCOMPLETE, "MalformedTrailerError", _TRAILER, {}),
        (_chunked(_LAST + b"x-a:b\r\n\r\n", 0), Reason.CHUNK_INCOMPLETE, "IncompleteBody", _TERMINATED, {}),
        (
            _chunked(_LAST + b"x-amz-trailer-signature:" + _SIGNATURE + b"0\r\n\r\n", 0), Reason.CHUNK_INCOMPLETE,
            "IncompleteBody", _TERMINATED, {},
        ),
        (_chunked(_LAST + b"a\rb\r\n\r\n", 0), Reason.CHUNK_MALFORMED, "IncompleteBody", _TERMINATED, {}),
        (
            _chunked((b"1;chunk-signature=" + _SIGNATURE + b"\r\nx\r\n") * 2, 2, PayloadMode.SIGNED_CHUNKS),
            Reason.CHUNK_MALFORMED, "InvalidChunkSizeError",
            "Only the last chunk is allowed to have a size less than 8192 bytes",
            {"Chunk": "1", "BadChunkSize": "1"},
        ),
    ),
)  # fmt: skip
def test_a_fault_is_told_in_the_words_of_s3(
    attempt: Callable[[], object], reason: Reason, code: str, message: str | None, elements: dict[str, str]
) -> None:
    """A client that tells faults apart by what S3 says would take every one of them for the same."""
    with pytest.raises(Refused) as refused:
        attempt()
    answer = s3_answer(refused.value)
    assert (refused.value.reason, answer.code) == (reason, code)
    assert message is None or answer.message == message
    assert dict(answer.elements) == elements


def test_a_bucket_that_could_be_one_is_refused_as_any_others() -> None:
    """A caller who guesses names would learn from the words which of them are there."""
    with pytest.raises(Refused) as refused:
        classify_forwarded(MINIO, asked(bucket="other%"), ALL)
    assert s3_answer(refused.value).code == "InvalidBucketName"
    with pytest.raises(Refused) as refused:
        classify_forwarded(MINIO, asked(bucket="%2e"), ALL)
    assert s3_answer(refused.value).status == 400


def test_ways_to_buckets_are_kept_in_bounds() -> None:
    """Where clients make their own buckets, their names would fill the memory."""
    from signproxy.s3 import forwarded

    for number in range(forwarded._BUCKETS_KEPT + 10):
        found = classify_forwarded(MINIO, asked("GET", "k", bucket=f"made-{number}"), ALL)
        assert found.request.bucket == f"made-{number}"
    assert len(forwarded._buckets) <= forwarded._BUCKETS_KEPT
