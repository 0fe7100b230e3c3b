"""What a strict S3 server refuses and some stores do: each attempt, and where it is known to succeed.

The table is that of the stores as they are; run it for another release to learn what has changed.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.e2e.forward.signer import (
    Endpoint,
    Frames,
    Payload,
    Seed,
    Shape,
    checksum_of,
    chunk_signature,
    content_md5,
    presign,
    sign,
    target_of,
    trailer_signature,
    upload,
)
from tests.e2e.stores.direct import Owner
from tests.verifier import WireHttp

SECRET = b"secret"
BODY = b"x" * 9000
SIGNED, TRAILED, UNSIGNED = (
    Shape(Payload.SIGNED_CHUNKS, piece=8192),
    Shape(Payload.SIGNED_TRAILER, piece=8192),
    Shape(Payload.UNSIGNED_TRAILER, piece=8192),
)
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Scene:
    """A bucket with a secret, and an endpoint that leads to it."""

    endpoint: Endpoint
    bucket: str

    def target(self, key: str = "target") -> str:
        return target_of(f"{self.bucket}/{key}")


class Attempt(NamedTuple):
    """A request that has to fail."""

    name: str
    open_on: frozenset[str]
    """The stores where it does what it must not."""
    codes: frozenset[str]
    """Which of S3's codes signproxy may refuse it with."""
    wire: Callable[[Scene], WireHttp]
    happened: Callable[[Owner, str], bool]

    def __str__(self) -> str:
        return self.name


def lay_out(owner: Owner, bucket: str) -> None:
    """Put there what attempts are after."""
    owner.must("PUT", bucket)
    owner.must("PUT", f"{bucket}/secret", body=SECRET)
    owner.must("PUT", f"{bucket}/d/inside", body=SECRET)


def _exists(key: str) -> Callable[[Owner, str], bool]:
    return lambda owner, bucket: owner.ask("HEAD", f"{bucket}/{key}").ok


def _gone(key: str) -> Callable[[Owner, str], bool]:
    return lambda owner, bucket: not owner.ask("HEAD", f"{bucket}/{key}").ok


# -- what is not signed --------------------------------------------------------------------------------------------


def _laundered(name: str, value: str, *, method: str = "PUT", key: str = "target") -> Callable[[Scene], WireHttp]:
    def wire(scene: Scene) -> WireHttp:
        honest = (
            upload(scene.endpoint, "PUT", scene.target(key), body=b"own")
            if method == "PUT"
            else sign(scene.endpoint, method, scene.target(key)).wire()
        )
        return replace(honest, headers=(*honest.headers, (name, value.format(bucket=scene.bucket))))

    return wire


def _laundered_presigned(scene: Scene) -> WireHttp:
    honest = presign(scene.endpoint, "PUT", scene.target())
    return replace(honest, headers=(*honest.headers, ("x-amz-copy-source", f"/{scene.bucket}/secret")), body=b"")


def _moved(scene: Scene) -> WireHttp:
    honest = sign(scene.endpoint, "GET", f"/lake/wh{scene.target('secret')}").wire()
    return replace(honest, target=scene.target("secret"), headers=(*honest.headers, ("X-Forwarded-Prefix", "/lake/wh")))


def _extracted(scene: Scene) -> WireHttp:
    honest = upload(scene.endpoint, "PUT", scene.target("target.tar"), body=_archive())
    return replace(honest, headers=(*honest.headers, ("x-amz-meta-snowball-auto-extract", "true")))


def _archive() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        member = tarfile.TarInfo("extracted")
        member.size = len(SECRET)
        archive.addfile(member, io.BytesIO(SECRET))
    return written.getvalue()


# -- what does not match -------------------------------------------------------------------------------------------


def _altered(shape: Shape, alter: Callable[[Seed, Frames], Frames], **announced: str) -> Callable[[Scene], WireHttp]:
    def wire(scene: Scene) -> WireHttp:
        names = {name.replace("_", "-"): value for name, value in announced.items()}
        return upload(scene.endpoint, "PUT", scene.target(), body=BODY, shape=shape, alter=alter, announced=names)

    return wire


def _same(_seed: Seed, frames: Frames) -> Frames:
    return frames


def _tampered(_seed: Seed, frames: Frames) -> Frames:
    return replace(frames, chunks=(frames.chunks[0].replace(b"xx", b"yx", 1), *frames.chunks[1:]))


def _bad_last_signature(_seed: Seed, frames: Frames) -> Frames:
    return replace(frames, last=frames.last[:-6] + b"0000\r\n")


def _no_last(_seed: Seed, frames: Frames) -> Frames:
    return replace(frames, last=b"", trailer=b"", end=b"")


def _no_trailer(_seed: Seed, frames: Frames) -> Frames:
    return replace(frames, trailer=b"")


def _bad_trailer_signature(_seed: Seed, frames: Frames) -> Frames:
    return replace(frames, trailer=frames.trailer[:-6] + b"0000\r\n")


def _other_checksum(seed: Seed, frames: Frames) -> Frames:
    """Sign a wrong checksum as it should be."""
    line = f"x-amz-checksum-crc32:{checksum_of('crc32', b'other')}"
    if b"trailer-signature" not in frames.trailer:
        return replace(frames, trailer=f"{line}\r\n".encode())
    previous = frames.last.partition(b"chunk-signature=")[2].strip().decode()
    signature = trailer_signature(seed, previous, line)
    return replace(frames, trailer=f"{line}\r\nx-amz-trailer-signature:{signature}\r\n".encode())


def _other_key(seed: Seed, frames: Frames) -> Frames:
    """Sign the chunks with another secret than the head."""
    other = replace(seed, key=hashlib.sha256(seed.key).digest())
    previous, chunks = seed.signature, []
    for chunk in frames.chunks:
        data = chunk.partition(b"\r\n")[2][:-2]
        previous = chunk_signature(other, previous, data)
        chunks.append(f"{len(data):x};chunk-signature={previous}\r\n".encode() + data + b"\r\n")
    last = f"0;chunk-signature={chunk_signature(other, previous, b'')}\r\n".encode()
    return replace(frames, chunks=tuple(chunks), last=last)


def _hashed(scene: Scene) -> WireHttp:
    seed = sign(scene.endpoint, "PUT", scene.target(), payload=hashlib.sha256(b"other").hexdigest())
    return seed.wire(BODY)


def _with(name: str, value: str) -> Callable[[Scene], WireHttp]:
    return lambda scene: upload(scene.endpoint, "PUT", scene.target(), body=BODY, headers={name: value})


# -- who, when and where -------------------------------------------------------------------------------------------


def _as(**wrong: object) -> Callable[[Scene], WireHttp]:
    def wire(scene: Scene) -> WireHttp:
        return upload(replace(scene.endpoint, **wrong), "PUT", scene.target(), body=BODY)  # type: ignore[arg-type]

    return wire


def _presigned(seconds: int, skew: float) -> Callable[[Scene], WireHttp]:
    def wire(scene: Scene) -> WireHttp:
        signed = presign(replace(scene.endpoint, skew=skew), "PUT", scene.target(), seconds=seconds)
        return replace(signed, body=b"own")

    return wire


def _path(raw: str) -> Callable[[Scene], WireHttp]:
    return lambda scene: upload(scene.endpoint, "PUT", f"/{scene.bucket}/{raw}", body=BODY)


def _twice(scene: Scene) -> WireHttp:
    query = "partNumber=1&uploadId=a&uploadId=b"
    return upload(scene.endpoint, "PUT", scene.target(), query, body=BODY)


NOBODY: frozenset[str] = frozenset()
_DENIED = frozenset({"AccessDenied"})
_MISMATCH = frozenset({"SignatureDoesNotMatch"})
_PATH = frozenset({"InvalidRequest", "InvalidURI", "InvalidArgument", "AccessDenied"})
_CHUNKS = frozenset({"SignatureDoesNotMatch", "AccessDenied"})
_CUT = frozenset({"IncompleteBody", "InvalidRequest", "MalformedTrailerError"})
_TRAILER = frozenset({"SignatureDoesNotMatch", "IncompleteBody", "InvalidRequest", "MalformedTrailerError"})
_DIGEST = frozenset({"BadDigest"})


def _on(*names: str) -> frozenset[str]:
    return frozenset(names)


def _all() -> Iterator[Attempt]:  # noqa: PLR0915  # A table, a row a statement.
    there = _exists("target")
    yield Attempt("unsigned x-amz-meta", _on("minio"), _DENIED, _laundered("x-amz-meta-a", "b"), there)
    yield Attempt("unsigned x-amz-acl", _on("minio"), _DENIED, _laundered("x-amz-acl", "public-read"), there)
    copy = _laundered("x-amz-copy-source", "/{bucket}/secret")
    yield Attempt("unsigned x-amz-copy-source", _on("minio"), _DENIED, copy, there)
    yield Attempt("unsigned x-amz-copy-source, presigned", _on("minio"), _DENIED, _laundered_presigned, there)
    force = _laundered("x-minio-force-delete", "true", method="DELETE", key="d/")
    yield Attempt(
        "unsigned x-minio-force-delete", _on("minio"), _DENIED | {"InvalidRequest", "204"}, force, _gone("d/inside")
    )
    yield Attempt("unsigned x-amz-meta-snowball-auto-extract", _on("minio"), _DENIED, _extracted, _exists("extracted"))

    yield Attempt("content-sha256 of another body", _on("seaweedfs"), _on("XAmzContentSHA256Mismatch"), _hashed, there)
    md5, crc = content_md5(b"other"), checksum_of("crc32", b"other")
    yield Attempt("content-md5 of another body", NOBODY, _DIGEST, _with("content-md5", md5), there)
    yield Attempt("checksum of another body", NOBODY, _DIGEST, _with("x-amz-checksum-crc32", crc), there)

    yield Attempt("signed chunks, data altered", NOBODY, _CHUNKS, _altered(SIGNED, _tampered), there)
    yield Attempt(
        "signed chunks, last signature altered", NOBODY, _CHUNKS, _altered(SIGNED, _bad_last_signature), there
    )
    yield Attempt("signed chunks, of another key", NOBODY, _CHUNKS, _altered(SIGNED, _other_key), there)
    yield Attempt("signed chunks, no last chunk", _on("minio"), _CUT, _altered(SIGNED, _no_last), there)
    longer = {"x_amz_decoded_content_length": str(len(BODY) + 1)}
    yield Attempt("signed chunks, announced longer", _on("seaweedfs"), _CUT, _altered(SIGNED, _same, **longer), there)
    shorter = {"x_amz_decoded_content_length": str(len(BODY) - 1)}
    yield Attempt("signed chunks, announced shorter", _on("seaweedfs"), _CUT, _altered(SIGNED, _same, **shorter), there)

    yield Attempt("signed trailer, data altered", NOBODY, _CHUNKS, _altered(TRAILED, _tampered), there)
    yield Attempt(
        "signed trailer, its signature altered",
        _on("seaweedfs"),
        _TRAILER,
        _altered(TRAILED, _bad_trailer_signature),
        there,
    )
    yield Attempt(
        "signed trailer, last signature altered",
        _on("seaweedfs"),
        _CHUNKS,
        _altered(TRAILED, _bad_last_signature),
        there,
    )
    yield Attempt("signed trailer, left out", _on("minio"), _TRAILER, _altered(TRAILED, _no_trailer), there)
    yield Attempt("signed trailer, no last chunk", _on("minio"), _CUT, _altered(TRAILED, _no_last), there)
    yield Attempt(
        "signed trailer, checksum of another body", NOBODY, _DIGEST, _altered(TRAILED, _other_checksum), there
    )

    yield Attempt("unsigned trailer, data altered", NOBODY, _DIGEST, _altered(UNSIGNED, _tampered), there)
    yield Attempt(
        "unsigned trailer, checksum of another body", NOBODY, _DIGEST, _altered(UNSIGNED, _other_checksum), there
    )
    yield Attempt("unsigned trailer, left out", NOBODY, _TRAILER, _altered(UNSIGNED, _no_trailer), there)
    yield Attempt("unsigned trailer, no last chunk", _on("minio"), _CUT, _altered(UNSIGNED, _no_last), there)
    yield Attempt(
        "unsigned trailer, announced longer", _on("seaweedfs"), _CUT, _altered(UNSIGNED, _same, **longer), there
    )
    yield Attempt(
        "unsigned trailer, announced shorter", _on("seaweedfs"), _CUT, _altered(UNSIGNED, _same, **shorter), there
    )

    yield Attempt("another secret", NOBODY, _MISMATCH, _as(secret="another"), there)
    yield Attempt("an unknown key", NOBODY, _on("InvalidAccessKeyId"), _as(access_key="AKIANOBODY"), there)
    yield Attempt("clock ahead", NOBODY, _on("RequestTimeTooSkewed"), _as(skew=1000.0), there)
    yield Attempt("clock behind", NOBODY, _on("RequestTimeTooSkewed"), _as(skew=-1000.0), there)
    region = _as(region="ap-south-2")
    yield Attempt("another region", _on("seaweedfs", "minio"), _on("AuthorizationHeaderMalformed"), region, there)
    expired = _presigned(60, -120.0)
    yield Attempt("presigned, expired", NOBODY, _DENIED, expired, there)
    yield Attempt(
        "presigned, for more than a week",
        NOBODY,
        _DENIED | {"AuthorizationQueryParametersError"},
        _presigned(8 * DAY, 0),
        there,
    )
    ahead = _on("versitygw", "swift", "seaweedfs")
    late = _on("RequestTimeTooSkewed", "AccessDenied")
    yield Attempt("presigned, dated ahead", ahead, late, _presigned(300, 1200.0), there)

    dots = _path("a/../target")
    yield Attempt("dot segments, resolved", _on("versitygw"), _PATH, dots, there)
    yield Attempt("dot segments, encoded", _on("versitygw"), _PATH, _path("a/%2E%2E/target"), there)
    folds = _on("versitygw", "seaweedfs")
    yield Attempt("empty segments, folded", folds, _PATH, _path("a//target"), _exists("a/target"))
    yield Attempt("a query parameter twice", NOBODY, _PATH, _twice, there)


ATTEMPTS = tuple(_all())
