"""Draft sign requests as clients honestly make them: the 13 operations, in the shapes that clients really send."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from tests.e2e.containment.world import DATA_NAMES, MINE, NAMESPACE, Table, labelled
from tests.e2e.stores import DOMAIN, RunningStore

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(slots=True)
class OwnUpload:
    """An upload that the caller began, and the parts that it remembers."""

    key: str
    upload_id: str
    parts: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Draft:
    """A sign request in the making, and what is sent to the store if it is signed."""

    operation: str
    table: Table
    method: str
    origin: str
    bucket: str
    raw_key: str
    """As it stands in the URI, without the slash before it."""
    route: str
    region: str
    query: list[str] = field(default_factory=list)
    headers: dict[str, list[str]] = field(default_factory=dict)
    body: str | None = None
    """The field `body` of the sign request."""
    content: bytes = b""
    """The body of the request to the store."""
    upload: OwnUpload | None = None
    part: int = 0
    token: str | None = None
    """A bearer token instead of the caller's."""
    uri_override: str | None = None
    family: str = "honest"

    @property
    def uri(self) -> str:
        """Return the URI as the client would write it."""
        if self.uri_override is not None:
            return self.uri_override
        bucket = "" if f"//{self.bucket}." in self.origin else f"/{self.bucket}"
        path = bucket + (f"/{self.raw_key}" if self.raw_key else "")
        return self.origin + path + (f"?{'&'.join(self.query)}" if self.query else "")

    def message(self) -> dict[str, Any]:
        """Return the sign request's JSON."""
        made: dict[str, Any] = {
            "region": self.region,
            "method": self.method,
            "uri": self.uri,
            "headers": self.headers,
        }
        if self.body is not None:
            made["body"] = self.body
        return made


def encode_key(key: str) -> str:
    """Encode a key as SDKs do: everything but unreserved characters and slashes."""
    return quote(key, safe="/~")


def named_route(table: Table, namespace: str = NAMESPACE) -> str:
    """Return the table-scoped route, Polaris style."""
    return f"/s3-sign/v1/{table.catalog}/namespaces/{namespace}/tables/{table.name}"


def specified_route(table: Table) -> str:
    """Return the table-scoped route of the Iceberg specification."""
    return f"/v1/{table.catalog}/namespaces/{NAMESPACE}/tables/{table.name}/sign"


def legacy_route(table: Table) -> str:
    """Return the route without a table, below the catalog's mount."""
    return f"/catalogs/{table.catalog}/v1/aws/s3/sign"


class Desk:
    """Where drafts are made: one source of chance, one store, the uploads in progress of each table."""

    def __init__(self, chance: Random, store: RunningStore) -> None:
        self.chance = chance
        self.store = store
        self.uploads: dict[str, list[OwnUpload]] = {}
        self._serial = 0

    def draft(self, operation: str, table: Table) -> Draft:
        """Return an honest request of one operation."""
        draft = Draft(operation, table, "GET", self._origin(table), table.bucket, "", "", self.store.region)
        draft.route = self.chance.choices(
            (named_route(table), specified_route(table), legacy_route(table)), weights=(6, 3, 1)
        )[0]
        _MAKERS[operation](self, draft)
        if self.chance.random() < 0.5:
            draft.headers.update(_JAVA if self.chance.random() < 0.5 else _PYICEBERG)
        return draft

    def honest(self) -> Draft:
        """Return an honest request of any operation on any table that the caller may use so."""
        operation = self.chance.choices(OPERATIONS, weights=_WEIGHTS)[0]
        table = self.chance.choice(self._tables[operation in READS])
        if operation in _OF_UPLOADS and not self.uploads.get(table.name) and self.chance.random() < 0.9:
            operation = "CreateMultipartUpload"
        return self.draft(operation, table)

    def use_tables(self, readable: tuple[Table, ...], writable: tuple[Table, ...]) -> None:
        """Say which tables honest requests go to."""
        self._tables = (writable, readable)

    def own_key(self, table: Table) -> str:
        """Return a key inside the table, from a pool that a run cannot outgrow."""
        name = self.chance.choice(DATA_NAMES)
        if self.chance.random() < 0.4:
            head, _, leaf = name.rpartition("/")
            name = f"{head}/{self.chance.randrange(40)}-{leaf}"
        return f"{table.root}/{name}"

    def upload_of(self, table: Table, *, begun: bool = False) -> OwnUpload:
        """Return one of the caller's uploads, with a part if there is one, or an upload that does not exist."""
        uploads = self.uploads.get(table.name)
        if uploads:
            return self.chance.choice([upload for upload in uploads if upload.parts or not begun] or uploads)
        return OwnUpload(self.own_key(table), "0123456789abcdef")

    def payload(self, size: int = 0) -> bytes:
        """Return content that says it is the caller's."""
        self._serial += 1
        return labelled(MINE, f"{self._serial} " + "x" * (size or self.chance.choice((0, 10, 100, 5000))))

    def _origin(self, table: Table) -> str:
        if self.chance.random() < 0.3:
            return f"http://{table.bucket}.{DOMAIN}:{self.store.port}"
        return self.store.origin


_JAVA = {
    "amz-sdk-invocation-id": ["7a1f0c0e-27c4-4d12-9a75-4d2f0e2f9a11"],
    "amz-sdk-request": ["attempt=1; max=6"],
    "User-Agent": ["aws-sdk-java/2.55.9 md/io#sync md/http#Apache ua/2.1 os/Linux lang/java#17 iceberg/1.12.0"],
}
_PYICEBERG = {"User-Agent": ["PyIceberg/0.12.0 aiobotocore/2.25 botocore/1.40 md/Botocore#1.40"]}


def _object(desk: Desk, draft: Draft, method: str) -> None:
    draft.method = method
    draft.raw_key = encode_key(desk.own_key(draft.table))


def _get(desk: Desk, draft: Draft) -> None:
    _object(desk, draft, "GET")
    if desk.chance.random() < 0.7:
        draft.headers["Range"] = [desk.chance.choice(("bytes=0-", "bytes=-4", "bytes=2-5"))]
    if desk.chance.random() < 0.4:
        draft.headers["x-amz-te"] = ["append-md5"]
    elif desk.chance.random() < 0.5:
        draft.headers["x-amz-checksum-mode"] = ["ENABLED"]


def _head(desk: Desk, draft: Draft) -> None:
    _object(desk, draft, "HEAD")


def _list(desk: Desk, draft: Draft) -> None:
    below = desk.chance.choice(("", "data/", "data/part", "metadata/", "data/ünï", "data/city=a%2F", "none/", "data/S"))
    prefix = quote(f"{draft.table.root}/{below}", safe=desk.chance.choice(("", "~", "/~", "/~=")))
    draft.query = ["list-type=2", f"prefix={prefix}"]
    if desk.chance.random() < 0.4:
        draft.query += desk.chance.choice(
            (
                ["delimiter=%2F"],
                ["delimiter=/", "max-keys=1", "encoding-type=url"],
                ["max-keys=3"],
                ["fetch-owner=true"],
                [f"start-after={quote(draft.table.root, safe='')}%2Fdata%2Fp"],
                ["start-after=zzzz"],
                ["start-after=a", "max-keys=1000"],
            )
        )
    desk.chance.shuffle(draft.query)


def _put(desk: Desk, draft: Draft) -> None:
    _object(desk, draft, "PUT")
    _upload_content(desk, draft, desk.payload())
    if desk.chance.random() < 0.2:
        draft.headers["x-amz-meta-note"] = [desk.chance.choice(("plain", "two  spaces", " padded ", "a,b;c=d"))]
    if desk.chance.random() < 0.2:
        draft.headers["Cache-Control"] = ["max-age=60"]


def _upload_content(desk: Desk, draft: Draft, content: bytes) -> None:
    """Choose one of the ways in which clients announce a body."""
    draft.content = content
    mode = desk.chance.randrange(7)
    headers = draft.headers
    headers["Content-Length"] = [str(len(content))]
    if mode == 0:
        headers["x-amz-content-sha256"] = [hashlib.sha256(content).hexdigest()]
    elif mode == 1:
        headers["X-Amz-Content-SHA256"] = ["UNSIGNED-PAYLOAD"]
    elif mode == 2:
        headers["Content-MD5"] = [_b64(hashlib.md5(content, usedforsecurity=False).digest())]
    elif mode == 3:
        headers["x-amz-checksum-crc32"] = [crc32(content)]
        headers["x-amz-sdk-checksum-algorithm"] = ["CRC32"]
    elif mode == 4:
        draft.content = frame(content)
        headers["Content-Length"] = [str(len(draft.content))]
        headers["Content-Encoding"] = ["aws-chunked"]
        headers["X-Amz-Trailer"] = ["x-amz-checksum-crc32"]
        headers["X-Amz-Decoded-Content-Length"] = [str(len(content))]
        headers["X-Amz-Content-SHA256"] = [UNSIGNED_TRAILER]
    elif mode == 5:
        headers["Expect"] = ["100-continue"]
        headers["Content-Type"] = ["application/octet-stream"]


def _copy(desk: Desk, draft: Draft) -> None:
    _object(desk, draft, "PUT")
    draft.headers["x-amz-copy-source"] = [_own_source(desk, draft.table)]
    draft.headers["Content-Length"] = ["0"]


def _own_source(desk: Desk, table: Table) -> str:
    # Only names that are there from the start, and never deleted by their own name: a copy should find its source.
    slash = desk.chance.choice(("", "/"))
    return f"{slash}{table.bucket}/{encode_key(f'{table.root}/{desk.chance.choice(DATA_NAMES)}')}"


def _create_upload(desk: Desk, draft: Draft) -> None:
    _object(desk, draft, "POST")
    draft.query = [desk.chance.choice(("uploads", "uploads="))]
    draft.headers["Content-Type"] = ["binary/octet-stream"]


def _with_upload(desk: Desk, draft: Draft, method: str) -> None:
    upload = desk.upload_of(draft.table, begun=method == "POST")
    draft.method, draft.upload, draft.raw_key = method, upload, encode_key(upload.key)
    draft.query = [f"uploadId={quote(upload.upload_id, safe='~')}"]


def _upload_part(desk: Desk, draft: Draft) -> None:
    _with_upload(desk, draft, "PUT")
    draft.part = desk.chance.choice((1, 1, 1, 2, 3, 10000))
    draft.query.insert(desk.chance.randrange(2), f"partNumber={draft.part}")
    _upload_content(desk, draft, desk.payload())


def _upload_part_copy(desk: Desk, draft: Draft) -> None:
    _with_upload(desk, draft, "PUT")
    draft.part = desk.chance.choice((1, 2))
    draft.query.append(f"partNumber={draft.part}")
    draft.headers["x-amz-copy-source"] = [_own_source(desk, draft.table)]
    draft.headers["Content-Length"] = ["0"]
    if desk.chance.random() < 0.3:
        draft.headers["x-amz-copy-source-range"] = ["bytes=0-3"]


def _complete(desk: Desk, draft: Draft) -> None:
    _with_upload(desk, draft, "POST")
    assert draft.upload is not None
    # A store takes small parts only as the last one.
    number = min(draft.upload.parts, default=1)
    etag = draft.upload.parts.get(number, "0" * 32)
    draft.content = (
        "<CompleteMultipartUpload><Part>"
        f"<PartNumber>{number}</PartNumber><ETag>&quot;{etag}&quot;</ETag>"
        "</Part></CompleteMultipartUpload>"
    ).encode()
    draft.headers["Content-Type"] = ["application/xml"]


def _list_parts(desk: Desk, draft: Draft) -> None:
    _with_upload(desk, draft, "GET")
    if desk.chance.random() < 0.3:
        draft.query.append("max-parts=1")


def _abort(desk: Desk, draft: Draft) -> None:
    _with_upload(desk, draft, "DELETE")


def _delete(desk: Desk, draft: Draft) -> None:
    # The names without a number stay, so that reads and copies find something.
    draft.method, draft.raw_key = "DELETE", encode_key(_numbered(desk.own_key(draft.table)))


def _bulk_delete(desk: Desk, draft: Draft) -> None:
    draft.method = "POST"
    draft.query = [desk.chance.choice(("delete", "delete="))]
    keys = sorted({_numbered(desk.own_key(draft.table)) for _ in range(desk.chance.randrange(1, 5))})
    set_body(draft, bulk_body(keys, quiet=desk.chance.random() < 0.5))


def _numbered(key: str) -> str:
    head, _, leaf = key.rpartition("/")
    return key if leaf[:1].isdigit() else f"{head}/0-{leaf}"


def bulk_body(keys: list[str], *, quiet: bool = False) -> str:
    """Return the XML of a bulk delete."""
    objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    mode = "<Quiet>true</Quiet>" if quiet else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}{mode}</Delete>'
    )


def set_body(draft: Draft, body: str) -> None:
    """Give a bulk delete its body, in the sign request and on the wire, with the checksum that Java sends."""
    draft.body = body
    draft.content = body.encode(errors="replace")
    draft.headers["Content-Length"] = [str(len(draft.content))]
    draft.headers["Content-MD5"] = [_b64(hashlib.md5(draft.content, usedforsecurity=False).digest())]
    draft.headers["Content-Type"] = ["application/xml"]


def crc32(content: bytes) -> str:
    """Return the checksum as S3 writes it."""
    return _b64(zlib.crc32(content).to_bytes(4, "big"))


def frame(content: bytes) -> bytes:
    """Frame a body as aws-chunked with an unsigned CRC32 trailer."""
    chunks = [content[start : start + 65536] for start in range(0, len(content), 65536)]
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return framed + f"0\r\nx-amz-checksum-crc32:{crc32(content)}\r\n\r\n".encode()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


_MAKERS: dict[str, Callable[[Desk, Draft], None]] = {
    "GetObject": _get,
    "HeadObject": _head,
    "ListObjectsV2": _list,
    "ListParts": _list_parts,
    "PutObject": _put,
    "CopyObject": _copy,
    "CreateMultipartUpload": _create_upload,
    "UploadPart": _upload_part,
    "UploadPartCopy": _upload_part_copy,
    "CompleteMultipartUpload": _complete,
    "AbortMultipartUpload": _abort,
    "DeleteObject": _delete,
    "DeleteObjects": _bulk_delete,
}
OPERATIONS = tuple(_MAKERS)
READS = frozenset({"GetObject", "HeadObject", "ListObjectsV2"})
_OF_UPLOADS = frozenset(
    {"ListParts", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload"}
)
_WEIGHTS = (10, 5, 10, 4, 12, 8, 5, 8, 6, 5, 2, 5, 6)
