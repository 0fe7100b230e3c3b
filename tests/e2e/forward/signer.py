"""Sign and frame requests as S3's specification has them, for a store or for signproxy alike.

Nothing here is shared with the code under test. Each part of a request can be got wrong on purpose: a head is signed
as it is given, and a body is framed from pieces whose signatures, sizes and trailer the caller may choose.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from tests.e2e.stores import RunningStore
from tests.verifier import WireHttp

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where S3 is spoken on loopback, and the key that opens it."""

    name: str
    port: int
    region: str
    access_key: str
    secret: str
    session_token: str = ""
    skew: float = 0.0
    """Seconds that the signer's clock runs ahead."""

    @classmethod
    def direct(cls, store: RunningStore) -> Self:
        """Return the store itself, as its owner sees it."""
        return cls("direct", store.port, store.region, store.access_key, store.secret)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.authority}"

    def __repr__(self) -> str:
        return f"Endpoint({self.name} at {self.origin})"


class Payload(Enum):
    """How a body is vouched for."""

    HASHED = "sha256"
    UNSIGNED = "unsigned"
    SIGNED_CHUNKS = "signed chunks"
    SIGNED_TRAILER = "signed chunks and trailer"
    UNSIGNED_TRAILER = "unsigned trailer"

    @property
    def sentinel(self) -> str:
        """What `x-amz-content-sha256` says, empty where it is the hash itself."""
        return {
            Payload.HASHED: "",
            Payload.UNSIGNED: UNSIGNED,
            Payload.SIGNED_CHUNKS: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            Payload.SIGNED_TRAILER: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            Payload.UNSIGNED_TRAILER: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }[self]

    @property
    def is_chunked(self) -> bool:
        """Say whether the body has a framing of its own."""
        return self.sentinel.startswith("STREAMING")

    @property
    def has_trailer(self) -> bool:
        return self.sentinel.endswith("TRAILER")


class Transfer(Enum):
    """How HTTP says where a body ends."""

    LENGTH = "length"
    CHUNKED = "chunked"


@dataclass(frozen=True, slots=True)
class Shape:
    """How a body is sent."""

    payload: Payload = Payload.HASHED
    transfer: Transfer = Transfer.LENGTH
    algorithm: str = "crc32"
    """Of the trailing checksum."""
    piece: int = 64 * 1024

    def __str__(self) -> str:
        return f"{self.payload.value}{', te chunked' if self.transfer is Transfer.CHUNKED else ''}"


WHOLE = Shape()
"""As a client sends what it has in memory: hashed, with its length."""

SHAPES = (
    *(Shape(payload) for payload in Payload),
    *(Shape(payload, Transfer.CHUNKED) for payload in Payload if payload.is_chunked),
)
"""What clients really send. No SDK sends plain bodies in HTTP chunks without a length."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A signed head, and what the chunks of its body are signed on from."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    signature: str
    key: bytes
    date: str
    scope: str

    def wire(self, body: bytes | None = None) -> WireHttp:
        """Return the request with a body."""
        return WireHttp(self.method, self.target, self.headers, body)


# -- heads ---------------------------------------------------------------------------------------------------------


def target_of(path: str) -> str:
    """Return bucket and key, given as plain text, as SDKs write them."""
    return quote(f"/{path}", safe="/~")


def sign(
    endpoint: Endpoint,
    method: str,
    target: str,
    query: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    payload: str = EMPTY,
    unsigned: Sequence[str] = (),
) -> Seed:
    """Sign a head whose path and query are sent exactly as given; `unsigned` names headers to leave out of it."""
    date = _now(endpoint)
    sent = {"host": endpoint.authority, "x-amz-content-sha256": payload, "x-amz-date": date}
    if endpoint.session_token:
        sent["x-amz-security-token"] = endpoint.session_token
    sent |= {name.lower(): value for name, value in (headers or {}).items()}
    names = sorted(name for name in sent if name not in {each.lower() for each in unsigned})
    signature, key, scope = _signature(endpoint, method, target, query, {name: sent[name] for name in names}, payload)
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={endpoint.access_key}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return Seed(method, target + (f"?{query}" if query else ""), tuple(sent.items()), signature, key, date, scope)


def presign(
    endpoint: Endpoint,
    method: str,
    target: str,
    query: str = "",
    *,
    seconds: int = 300,
    headers: Mapping[str, str] | None = None,
) -> WireHttp:
    """Return a request that carries its signature in the query."""
    date = _now(endpoint)
    sent = {"host": endpoint.authority, **{name.lower(): value for name, value in (headers or {}).items()}}
    names = sorted(sent)
    scope = f"{date[:8]}/{endpoint.region}/s3/aws4_request"
    added = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{endpoint.access_key}/{scope}",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(seconds),
        "X-Amz-SignedHeaders": ";".join(names),
    }
    if endpoint.session_token:
        added["X-Amz-Security-Token"] = endpoint.session_token
    whole = "&".join(filter(None, (query, *(f"{name}={quote(value, safe='~')}" for name, value in added.items()))))
    signature, _key, _scope = _signature(endpoint, method, target, whole, sent, UNSIGNED, date)
    return WireHttp(method, f"{target}?{whole}&X-Amz-Signature={signature}", tuple(sent.items()))


def _now(endpoint: Endpoint) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + endpoint.skew))


def _signature(
    endpoint: Endpoint,
    method: str,
    target: str,
    query: str,
    signed: Mapping[str, str],
    payload: str,
    date: str = "",
) -> tuple[str, bytes, str]:
    date = date or signed["x-amz-date"]
    lines = [method, _recoded(target, "/~"), canonical_query(query)]
    lines += [f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)]
    request = "\n".join((*lines, "", ";".join(sorted(signed)), payload))
    parts = (date[:8], endpoint.region, "s3", "aws4_request")
    key = f"AWS4{endpoint.secret}".encode()
    for part in parts:
        key = hmac.digest(key, part.encode(), "sha256")
    scope = "/".join(parts)
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    return hmac.digest(key, text.encode(), "sha256").hex(), key, scope


def canonical_query(raw: str) -> str:
    """Return a query as signatures are made of it."""
    parts = (part.partition("=") for part in raw.split("&") if part)
    return "&".join(
        f"{name}={value}"
        for name, value in sorted((_recoded(name, "~"), _recoded(value, "~")) for name, _, value in parts)
    )


def _recoded(raw: str, safe: str) -> str:
    return quote_from_bytes(unquote_to_bytes(raw), safe=safe)


# -- bodies --------------------------------------------------------------------------------------------------------

CHUNK = "AWS4-HMAC-SHA256-PAYLOAD"
TRAILER = "AWS4-HMAC-SHA256-TRAILER"


@dataclass(frozen=True, slots=True)
class Frames:
    """A body in chunks, part by part, so that each can be altered."""

    chunks: tuple[bytes, ...]
    """Head, data and line end of each chunk with data."""
    last: bytes
    """The head of the empty one; with a trailer its own line end is all that follows."""
    trailer: bytes
    """Its lines."""
    end: bytes = b"\r\n"

    def join(self) -> bytes:
        """Return the body."""
        return b"".join((*self.chunks, self.last, self.trailer, self.end))


def frames(seed: Seed, body: bytes, shape: Shape, *, checksum: str | None = None) -> Frames:
    """Frame a body as its shape says; a `checksum` replaces the right one."""
    pieces = [body[start : start + shape.piece] for start in range(0, len(body), shape.piece)]
    signed = shape.payload is not Payload.UNSIGNED_TRAILER
    previous, chunks = seed.signature, []
    for piece in pieces:
        if signed:
            previous = chunk_signature(seed, previous, piece)
        chunks.append(_chunk_head(piece, previous if signed else "") + piece + b"\r\n")
    if signed:
        previous = chunk_signature(seed, previous, b"")
    last = _chunk_head(b"", previous if signed else "")
    if not shape.payload.has_trailer:
        return Frames(tuple(chunks), last, b"")
    value = checksum_of(shape.algorithm, body) if checksum is None else checksum
    line = f"x-amz-checksum-{shape.algorithm}:{value}"
    trailer = f"{line}\r\n".encode()
    if signed:
        trailer += f"x-amz-trailer-signature:{trailer_signature(seed, previous, line)}\r\n".encode()
    return Frames(tuple(chunks), last, trailer)


def chunk_signature(seed: Seed, previous: str, data: bytes) -> str:
    """Return the signature of one chunk after another."""
    return _chained(seed, CHUNK, previous, EMPTY, hashlib.sha256(data).hexdigest())


def trailer_signature(seed: Seed, previous: str, line: str) -> str:
    """Return the signature of the trailer."""
    return _chained(seed, TRAILER, previous, hashlib.sha256(f"{line}\n".encode()).hexdigest())


def _chained(seed: Seed, kind: str, previous: str, *hashes: str) -> str:
    text = "\n".join((kind, seed.date, seed.scope, previous, *hashes))
    return hmac.digest(seed.key, text.encode(), "sha256").hex()


def _chunk_head(piece: bytes, signature: str) -> bytes:
    return f"{len(piece):x}{f';chunk-signature={signature}' if signature else ''}\r\n".encode()


def upload(
    endpoint: Endpoint,
    method: str,
    target: str,
    query: str = "",
    *,
    body: bytes,
    shape: Shape = WHOLE,
    headers: Mapping[str, str] | None = None,
    alter: Callable[[Seed, Frames], Frames] | None = None,
    announced: Mapping[str, str] | None = None,
    checksum: str | None = None,
) -> WireHttp:
    """Return a signed request with a body of a shape; `alter` changes frames, `announced` headers before signing."""
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    if not shape.payload.is_chunked:
        sent |= announced or {}
        payload = shape.payload.sentinel or hashlib.sha256(body).hexdigest()
        return _framed(sign(endpoint, method, target, query, headers=sent, payload=payload).wire(body), shape)
    codings = [sent.get("content-encoding", ""), "aws-chunked"]
    sent["content-encoding"] = ",".join(filter(None, codings))
    sent["x-amz-decoded-content-length"] = str(len(body))
    if shape.payload.has_trailer:
        sent["x-amz-trailer"] = f"x-amz-checksum-{shape.algorithm}"
    sent |= announced or {}
    seed = sign(endpoint, method, target, query, headers=sent, payload=shape.payload.sentinel)
    framed = frames(seed, body, shape, checksum=checksum)
    return _framed(seed.wire((alter(seed, framed) if alter else framed).join()), shape)


def _framed(wire: WireHttp, shape: Shape) -> WireHttp:
    """Say where the body ends, outside the signature as most SDKs do."""
    if shape.transfer is Transfer.CHUNKED:
        return replace(wire, headers=(*wire.headers, ("Transfer-Encoding", "chunked")))
    return replace(wire, headers=(*wire.headers, ("Content-Length", str(len(wire.body or b"")))))


# -- checksums -----------------------------------------------------------------------------------------------------


def checksum_of(algorithm: str, body: bytes) -> str:
    """Return a checksum as its header has it."""
    return base64.b64encode(_CHECKSUMS[algorithm](body)).decode()


def content_md5(body: bytes) -> str:
    """Return the value of Content-MD5."""
    return base64.b64encode(hashlib.md5(body).digest()).decode()  # noqa: S324  # what the protocol has


def _table(polynomial: int) -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        return value

    return tuple(map(entry, range(256)))


def _reflected(table: Sequence[int], width: int) -> Callable[[Iterable[int]], bytes]:
    mask = (1 << width) - 1

    def digest(data: Iterable[int]) -> bytes:
        crc = mask
        for byte in data:
            crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
        return (crc ^ mask).to_bytes(width // 8, "big")

    return digest


_CHECKSUMS: dict[str, Callable[[bytes], bytes]] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "crc32c": _reflected(_table(0x82F63B78), 32),
    "crc64nvme": _reflected(_table(0x9A6C9329AC4BC9B5), 64),
    "sha1": lambda body: hashlib.sha1(body).digest(),  # noqa: S324  # what the protocol has
    "sha256": lambda body: hashlib.sha256(body).digest(),
}
ALGORITHMS = tuple(_CHECKSUMS)
