"""Frame bodies as aws-chunked, written from AWS' specification alone: nothing is shared with the code under test."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from zlib import crc32

from signproxy.s3.payload import Payload, PayloadMode
from signproxy.s3.sigv4 import derive
from signproxy.s3.verify import SeedSignature

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
AMZ_DATE = "20130524T000000Z"
REGION = "us-east-1"
SCOPE = f"20130524/{REGION}/s3/aws4_request"
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CRC32 = "x-amz-checksum-crc32"
_EMPTY = hashlib.sha256(b"").hexdigest()


def crc_of(data: bytes) -> str:
    """Return the checksum of a body as S3 writes it."""
    return b64encode(crc32(data).to_bytes(4, "big")).decode()


def seed(secret: str = SECRET) -> SeedSignature:
    """Return the seed of AWS' own example."""
    return SeedSignature(SEED, AMZ_DATE, derive("AKIAIOSFODNN7EXAMPLE", secret, "20130524", REGION, "s3"))


def payload(mode: PayloadMode, length: int, trailer: str = "") -> Payload:
    """Return the payload of a chunked upload."""
    return Payload(mode=mode, declared="", decoded_length=length, trailer=trailer)


def _sign(text: str, secret: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in ("20130524", REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def signed(
    data: bytes,
    sizes: tuple[int, ...],
    *,
    trailers: dict[str, str] | None = None,
    secret: str = SECRET,
    line_feed: str = "",
) -> bytes:
    """Return a body in signed chunks of these sizes, with a signed trailer where one is given."""
    parts, previous, position = [], SEED, 0
    for size in (*sizes, 0):
        chunk = data[position : position + size]
        position += size
        hashed = hashlib.sha256(chunk).hexdigest()
        previous = _sign(f"AWS4-HMAC-SHA256-PAYLOAD\n{AMZ_DATE}\n{SCOPE}\n{previous}\n{_EMPTY}\n{hashed}", secret)
        parts.append(f"{size:x};chunk-signature={previous}\r\n".encode() + chunk + (b"\r\n" if size else b""))
    if trailers is not None:
        text = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        hashed = hashlib.sha256(text.encode()).hexdigest()
        signature = _sign(f"AWS4-HMAC-SHA256-TRAILER\n{AMZ_DATE}\n{SCOPE}\n{previous}\n{hashed}", secret)
        lines = [*(f"{name}:{value}{line_feed}\r\n" for name, value in trailers.items())]
        parts.append("".join([*lines, f"x-amz-trailer-signature:{signature}\r\n"]).encode())
    return b"".join([*parts, b"\r\n"])


def unsigned(data: bytes, sizes: tuple[int, ...], *, trailers: dict[str, str] | None = None) -> bytes:
    """Return a body in unsigned chunks of these sizes, with a trailer where one is given."""
    parts, position = [], 0
    for size in sizes:
        parts.append(f"{size:x}\r\n".encode() + data[position : position + size] + b"\r\n")
        position += size
    lines = [f"{name}:{value}\r\n".encode() for name, value in (trailers or {}).items()]
    return b"".join([*parts, b"0\r\n", *lines, b"\r\n"])
