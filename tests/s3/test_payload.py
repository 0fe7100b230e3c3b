"""The payload mode of a request decides what is verified and how the body goes on; the wrong one corrupts objects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.s3.operation import Operation
from signproxy.s3.payload import (
    CHUNK_END,
    MAX_DECODED,
    MAX_REFRAMED_CHUNK,
    Carriage,
    Payload,
    PayloadMode,
    payload_of,
    reframed_end,
    reframed_head,
    reframed_length,
    without_framing,
)
from tests.s3.world import MINIO

SHA = "a" * 64
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
UNSIGNED = "UNSIGNED-PAYLOAD"
CRC32 = "x-amz-checksum-crc32"
PLAIN = MINIO
TRAILERS = replace(MINIO, checks_trailers=True)
ALL = replace(TRAILERS, accepts_chunked_transfer=True)

_SENT = (
    # declared, encoding, trailer, storage -> mode, carriage, sent
    ("", "", "", PLAIN, PayloadMode.UNSIGNED, Carriage.AS_SENT, UNSIGNED),
    ("", "gzip", "", PLAIN, PayloadMode.UNSIGNED, Carriage.AS_SENT, UNSIGNED),
    (UNSIGNED, "", "", ALL, PayloadMode.UNSIGNED, Carriage.AS_SENT, UNSIGNED),
    (SHA, "", "", ALL, PayloadMode.HASHED, Carriage.AS_SENT, SHA),
    (SHA, "aws-chunked", "", ALL, PayloadMode.HASHED, Carriage.AS_SENT, SHA),
    (UNSIGNED_TRAILER, "aws-chunked", CRC32, ALL, PayloadMode.UNSIGNED_TRAILER, Carriage.AS_SENT, UNSIGNED_TRAILER),
    ("", "AWS-Chunked, gzip", CRC32, ALL, PayloadMode.UNSIGNED_TRAILER, Carriage.AS_SENT, UNSIGNED_TRAILER),
    (UNSIGNED_TRAILER, "aws-chunked", "", ALL, PayloadMode.UNSIGNED_TRAILER, Carriage.AS_SENT, UNSIGNED_TRAILER),
    (
        UNSIGNED_TRAILER, "aws-chunked", CRC32, TRAILERS,
        PayloadMode.UNSIGNED_TRAILER, Carriage.REFRAMED, UNSIGNED_TRAILER,
    ),
    (UNSIGNED_TRAILER, "aws-chunked", CRC32, PLAIN, PayloadMode.UNSIGNED_TRAILER, Carriage.DECODED, UNSIGNED),
    (SIGNED, "aws-chunked", "", ALL, PayloadMode.SIGNED_CHUNKS, Carriage.DECODED, UNSIGNED),
    (SIGNED, "", "", PLAIN, PayloadMode.SIGNED_CHUNKS, Carriage.DECODED, UNSIGNED),
    (SIGNED_TRAILER, "aws-chunked", CRC32, ALL, PayloadMode.SIGNED_CHUNKS_TRAILER, Carriage.REFRAMED, UNSIGNED_TRAILER),
    (SIGNED_TRAILER, "aws-chunked", CRC32, PLAIN, PayloadMode.SIGNED_CHUNKS_TRAILER, Carriage.DECODED, UNSIGNED),
)  # fmt: skip


def of(
    declared: str = UNSIGNED_TRAILER,
    encoding: str = "aws-chunked",
    trailer: str = CRC32,
    decoded_length: str | None = "5",
    operation: Operation = Operation.PUT_OBJECT,
    storage: object = PLAIN,
) -> Payload:
    return payload_of(declared, encoding, trailer, decoded_length, operation, storage)  # type: ignore[arg-type]


def refusal(**changed: object) -> Reason:
    with pytest.raises(Refused) as refused:
        of(**changed)  # type: ignore[arg-type]
    return refused.value.reason


@pytest.mark.parametrize(("declared", "encoding", "trailer", "storage", "mode", "carriage", "sent"), _SENT)
def test_each_mode_goes_on_as_the_store_can_take_it(
    declared: str, encoding: str, trailer: str, storage: object, mode: PayloadMode, carriage: Carriage, sent: str
) -> None:
    """Framing under a mode that does not say so becomes the object's content."""
    payload = of(declared, encoding, trailer, storage=storage)
    assert (payload.mode, payload.carriage, payload.sent) == (mode, carriage, sent)
    if mode.chunked:
        assert (payload.decoded_length, payload.trailer) == (5, trailer)
    assert mode.signed == (declared in (SIGNED, SIGNED_TRAILER))


@pytest.mark.parametrize("operation", (Operation.COPY_OBJECT, Operation.GET_OBJECT, Operation.DELETE_OBJECTS))
def test_only_uploads_are_framed(operation: Operation) -> None:
    """A framed bulk delete would be judged by other bytes than the store reads."""
    assert refusal(operation=operation) is Reason.PAYLOAD_MODE


@pytest.mark.parametrize(
    ("changed", "reason"),
    (
        ({"declared": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}, Reason.PAYLOAD_UNSUPPORTED),
        ({"declared": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER"}, Reason.PAYLOAD_UNSUPPORTED),
        ({"declared": "required"}, Reason.PAYLOAD_MODE),
        ({"declared": "A" * 64}, Reason.PAYLOAD_MODE),
        ({"declared": UNSIGNED}, Reason.PAYLOAD_MODE),
        ({"declared": "", "trailer": ""}, Reason.PAYLOAD_MODE),
        ({"declared": SIGNED}, Reason.PAYLOAD_MODE),
        ({"decoded_length": None}, Reason.LENGTH_REQUIRED),
        ({"decoded_length": ""}, Reason.HEADER_VALUE),
        ({"decoded_length": "-1"}, Reason.HEADER_VALUE),
        ({"decoded_length": "1" * 19}, Reason.HEADER_VALUE),
        ({"decoded_length": str(MAX_DECODED + 1)}, Reason.ENTITY_TOO_LARGE),
        ({"trailer": "x-amz-meta-a"}, Reason.HEADER_VALUE),
        ({"trailer": f"{CRC32},x-amz-checksum-sha1"}, Reason.HEADER_VALUE),
        ({"trailer": "x-amz-checksum-xxhash64"}, Reason.PAYLOAD_UNSUPPORTED),
    ),
)
def test_what_s3_does_not_have_is_refused(changed: dict[str, object], reason: Reason) -> None:
    """A mode that is guessed stores something else than the client sent."""
    assert refusal(**changed) is reason


def test_the_largest_upload_is_still_one() -> None:
    """S3's limit is inclusive."""
    assert of(decoded_length=str(MAX_DECODED)).decoded_length == MAX_DECODED


def test_a_checksum_that_only_the_store_knows_goes_on_to_it() -> None:
    """New algorithms reach stores before they reach us."""
    name = "x-amz-checksum-xxhash64"
    assert of(trailer=name, storage=ALL).trailer == name
    assert of(trailer=name.upper(), storage=TRAILERS).trailer == name


@pytest.mark.parametrize(
    ("encoding", "left"),
    (
        ("aws-chunked", ""),
        ("aws-chunked,gzip", "gzip"),
        ("gzip, AWS-CHUNKED", "gzip"),
        ("gzip, br", "gzip, br"),
        ("", ""),
    ),
)
def test_the_framing_is_taken_out_of_the_encoding_alone(encoding: str, left: str) -> None:
    """A gzip that is lost makes the object unreadable."""
    assert without_framing(encoding) == left


_FULL = MAX_REFRAMED_CHUNK


@pytest.mark.parametrize(
    ("length", "sizes"),
    (
        (0, ()),
        (1, (1,)),
        (255, (255,)),
        (4096, (4096,)),
        (_FULL - 1, (_FULL - 1,)),
        (_FULL, (_FULL,)),
        (_FULL + 1, (_FULL, 1)),
        (3 * _FULL, (_FULL, _FULL, _FULL)),
    ),
)
@pytest.mark.parametrize(
    ("trailer", "value"),
    (
        ("", ""),
        (CRC32, "AAAAAA=="),
        ("x-amz-checksum-sha256", "A" * 43 + "="),
        ("x-amz-checksum-crc64nvme", "A" * 11 + "="),
    ),
)
def test_a_reframed_body_is_as_long_as_it_was_said_to_be(
    length: int, sizes: tuple[int, ...], trailer: str, value: str
) -> None:
    """A length that is off by one hangs the upload."""
    payload = Payload(
        PayloadMode.SIGNED_CHUNKS_TRAILER, "", Carriage.REFRAMED, "", decoded_length=length, trailer=trailer
    )
    trailers = {trailer: value} if trailer else {}
    left, heads = length, []
    for size in sizes:
        heads.append(reframed_head(left))
        left -= size
    assert heads == [b"%x\r\n" % size for size in sizes]
    line = f"{trailer}:{value}\r\n".encode() if trailer else b""
    assert reframed_end(trailers) == b"0\r\n" + line + b"\r\n"
    framed = sum(map(len, heads)) + length + len(sizes) * len(CHUNK_END) + len(reframed_end(trailers))
    assert framed == reframed_length(payload)


def test_no_chunk_is_larger_than_stores_take() -> None:
    """MinIO refuses a chunk of more than 16 MiB, and with it each larger upload of an SDK that signs its chunks."""
    assert MAX_REFRAMED_CHUNK == 8 * 1024 * 1024
    assert CHUNK_END == b"\r\n"
