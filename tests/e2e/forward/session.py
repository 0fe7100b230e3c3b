"""Write down what an S3 endpoint answers, so that two of them can be compared line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

from tests.e2e.forward.signer import WHOLE, Endpoint, Shape, presign, sign, target_of, upload
from tests.e2e.stores.contents import objects_of, uploads_of
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer, BrokenAnswer, Wire
from tests.verifier import WireHttp

# Each answer has its own, and only a connection's two ends are concerned with the others.
_VOLATILE = frozenset(
    """
    date server connection keep-alive transfer-encoding x-amz-request-id x-amz-id-2 x-trans-id x-openstack-request-id
    x-signproxy-event-id x-timestamp x-minio-deployment-id x-ratelimit-limit x-ratelimit-remaining
    """.split()
)
_DATES = frozenset({"last-modified"})

# What stands in an answer's document and is another one each time, or in each bucket.
_ELEMENTS = re.compile(
    rb"<(LastModified|Initiated|RequestId|HostId|RequestTime|ServerTime|StringToSign|CanonicalRequest"
    rb"|StringToSignBytes|CanonicalRequestBytes|SignatureProvided|AWSAccessKeyId|Resource|Key|BucketName|Location"
    rb"|NextContinuationToken|ContinuationToken|NextUploadIdMarker|UploadIdMarker|UploadId|Message)>[^<]*</\1>"
)
_KEPT = frozenset({b"Key"})
# In which order they are told is not promised.
_SETS = (re.compile(rb"(?:<Deleted>.*?</Deleted>)+", re.DOTALL), re.compile(rb"(?:<Tag>.*?</Tag>)+", re.DOTALL))
_BOUNDARY = re.compile("boundary=([0-9A-Za-z-]+)")


@dataclass(frozen=True, slots=True)
class Line:
    """An answer without what is its own each time."""

    label: str
    status: int
    code: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __str__(self) -> str:
        return f"{self.label}: {self.status} {self.code} {dict(self.headers)} {self.body[:200]!r}"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as its owner finds it, with what was said about it."""

    key: str
    body: bytes
    headers: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Session:
    """One run of a case at one endpoint, in a bucket of its own."""

    endpoint: Endpoint
    bucket: str
    lines: list[Line] = field(default_factory=list)
    _secrets: dict[str, str] = field(default_factory=dict)
    _wire: Wire | None = None

    def __enter__(self) -> Self:
        self._wire = Wire(self.endpoint.port)
        return self

    def __exit__(self, *_: object) -> None:
        if self._wire is not None:
            self._wire.close()

    def target(self, key: str = "") -> str:
        """Return the path of a key given as plain text."""
        return target_of(f"{self.bucket}/{key}" if key else self.bucket)

    def raw(self, key: str) -> str:
        """Return the path of a key given as it is sent."""
        return f"/{self.bucket}/{key}"

    def ask(
        self,
        label: str,
        method: str,
        key: str = "",
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        target: str = "",
    ) -> Answer:
        """Send a request without a body."""
        return self.send(label, sign(self.endpoint, method, target or self.target(key), query, headers=headers).wire())

    def put(
        self,
        label: str,
        key: str,
        body: bytes,
        query: str = "",
        *,
        method: str = "PUT",
        shape: Shape = WHOLE,
        headers: Mapping[str, str] | None = None,
        announced: Mapping[str, str] | None = None,
        target: str = "",
    ) -> Answer:
        """Send a request with a body."""
        where = target or self.target(key)
        wire = upload(self.endpoint, method, where, query, body=body, shape=shape, headers=headers, announced=announced)
        return self.send(label, wire)

    def presigned(self, label: str, method: str, key: str, query: str = "", *, body: bytes | None = None) -> Answer:
        """Send a request with its signature in the query."""
        wire = presign(self.endpoint, method, self.target(key), query)
        return self.send(label, WireHttp(wire.method, wire.target, wire.headers, body))

    def begin(self, key: str, *, headers: Mapping[str, str] | None = None) -> str:
        """Begin a multipart upload; return its id as a query has it."""
        answer = self.ask("create", "POST", key, "uploads=", headers=headers)
        found = re.search(rb"<UploadId>([^<]+)</UploadId>", answer.body)
        upload_id = found[1].decode() if found else "none"
        self._secrets[upload_id] = "UPLOAD"
        return quote(upload_id, safe="~")

    def send(self, label: str, wire: WireHttp) -> Answer:
        """Send a request and write its answer down."""
        assert self._wire is not None
        try:
            answer = self._wire.send(wire)
        except (ConnectionError, BrokenAnswer, TimeoutError) as broken:
            self._wire.close()
            answer = Answer(0, {"broken": type(broken).__name__}, b"")
        if self.endpoint.name == "direct" and ("Transfer-Encoding", "chunked") in wire.headers:
            # versitygw takes what is left of the chunks around an upload's own framing for the next request.
            self._wire.close()
        self.lines.append(self._line(label, wire.method, answer))
        return answer

    def _line(self, label: str, method: str, answer: Answer) -> Line:
        is_xml = answer.body[:5] in (b"<?xml", b"<Erro", b"<List", b"<Copy")
        if boundary := _BOUNDARY.search(answer.headers.get("content-type", "")):
            self._secrets[boundary[1]] = "BOUNDARY"
        body = self._body(answer.body) if is_xml else self._bytes(answer.body)
        kept = {}
        for name, value in answer.headers.items():
            # A document's length is that of the ids in it.
            if name in _VOLATILE or (name == "content-length" and (is_xml or answer.status >= 400)):
                continue
            kept[name] = "*" if name in _DATES else self._text(value)
        _without_framing(kept)
        if not answer.ok:
            # An error is its code, and no client reads more of it; HEAD has not even that.
            body, kept = b"", {}
        code = "" if answer.ok or method == "HEAD" else code_of(answer)
        return Line(label, answer.status, code, tuple(sorted(kept.items())), body)

    def _body(self, body: bytes) -> bytes:
        def blank(found: re.Match[bytes]) -> bytes:
            return found[0] if found[1] in _KEPT else b"<" + found[1] + b"/>"

        for items in _SETS:
            body = items.sub(lambda found: b"".join(sorted(re.split(b"(?=<Deleted>|<Tag>)", found[0]))), body)
        return self._text(_ELEMENTS.sub(blank, body).decode("utf-8", "replace")).encode()

    def _bytes(self, body: bytes) -> bytes:
        for secret, name in self._secrets.items():
            body = body.replace(secret.encode(), name.encode())
        return body

    def _text(self, text: str) -> str:
        for secret, name in self._secrets.items():
            text = text.replace(secret, name)
        return text.replace(self.bucket, "BUCKET")


def contents(owner: Owner, bucket: str) -> tuple[list[Stored], list[tuple[str, int]]]:
    """Return every object of a bucket with its bytes, and how many parts each unfinished upload has."""
    kept = []
    for found in objects_of(owner, bucket):
        answer = owner.must("GET", f"{bucket}/{found.key}")
        said = {
            name: value.replace(bucket, "BUCKET")
            for name, value in answer.headers.items()
            if name not in _VOLATILE and name not in _DATES
        }
        _without_framing(said)
        kept.append(Stored(found.key, answer.body, tuple(sorted(said.items()))))
    return kept, [(upload.key, len(upload.parts)) for upload in uploads_of(owner, bucket)]


def _without_framing(headers: dict[str, str]) -> None:
    """Take out what S3 does: versitygw keeps the framing of signed chunks as if it were a property of the object."""
    if "content-encoding" in headers:
        codings = [coding for coding in headers["content-encoding"].split(",") if coding.strip() != "aws-chunked"]
        headers["content-encoding"] = ",".join(codings)
        if not codings:
            del headers["content-encoding"]
