"""Frame verified data anew: whatever pieces it comes in, the store reads the same bytes in chunks that it takes."""

from __future__ import annotations

import zlib
from base64 import b64encode
from random import Random

import pytest

from signproxy.forward.payload import Reframed
from signproxy.s3.aws_chunked import ChunkedPayload
from signproxy.s3.payload import MAX_REFRAMED_CHUNK, Carriage, Payload, PayloadMode, reframed_length

CRC32 = "x-amz-checksum-crc32"


def _decoded(framed: bytes) -> tuple[list[int], bytes, bytes]:
    """Read chunks as a store does; return their sizes, the data, and what follows the last one."""
    sizes: list[int] = []
    data: list[bytes] = []
    while True:
        head, framed = framed.split(b"\r\n", 1)
        size = int(head, 16)
        if not size:
            return sizes, b"".join(data), framed
        sizes.append(size)
        data.append(framed[:size])
        assert framed[size : size + 2] == b"\r\n"
        framed = framed[size + 2 :]


@pytest.mark.parametrize("size", (0, 1, 70_000, MAX_REFRAMED_CHUNK, MAX_REFRAMED_CHUNK + 1, 2 * MAX_REFRAMED_CHUNK + 5))
@pytest.mark.parametrize("piece", (999_983, 4 * 1024 * 1024))
def test_the_store_reads_the_same_bytes_in_chunks_that_it_takes(size: int, piece: int) -> None:
    """A store that refuses a large chunk loses each upload of an SDK that signs its chunks; one byte off hangs it."""
    body = Random(size).randbytes(size)
    crc = b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    # A client's own chunks, of a size that divides nothing here.
    cut = 131_071
    sent = b"".join(
        b"%x\r\n%b\r\n" % (len(part), part) for part in (body[at : at + cut] for at in range(0, len(body), cut))
    )
    sent += f"0\r\n{CRC32}:{crc}\r\n\r\n".encode()
    payload = Payload(PayloadMode.UNSIGNED_TRAILER, "", Carriage.REFRAMED, "", decoded_length=size, trailer=CRC32)
    reframed = Reframed(ChunkedPayload(payload, None), payload)
    framed = b"".join(
        bytes(out) for at in range(0, len(sent), piece) for out in reframed.feed(memoryview(sent)[at : at + piece])
    )
    framed += b"".join(map(bytes, reframed.finish()))
    assert len(framed) == reframed_length(payload)
    sizes, data, end = _decoded(framed)
    assert data == body
    assert all(each == MAX_REFRAMED_CHUNK for each in sizes[:-1])
    assert end == f"{CRC32}:{crc}\r\n\r\n".encode()
