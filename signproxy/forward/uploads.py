"""Bind the id of a multipart upload to the place that it was begun for, so that it is good for nothing else.

A store looks an upload up by its id and a key. One that is lax about the key would let any client that learns of an
id add parts to another table's upload, or end it. Clients are given `<the store's id>.<mark>` instead, and the mark
holds for one table or volume, bucket and key alone.
"""

from __future__ import annotations

from collections.abc import Generator
from urllib.parse import unquote_plus

from signproxy.errors import Reason, Refused
from signproxy.gate.forwarded import Passed
from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.s3.answers import escaped
from signproxy.s3.canonical import encode_query_part
from signproxy.s3.operation import Operation
from signproxy.s3.query import parse_query
from signproxy.s3.xml_document import Element, invalid, read_document, replaced
from signproxy.sealing import MARK_LENGTH, Marker

# A tuple: members are compared by identity there, while a set calls their hash, which is Python code.
MARKED_ANSWERS = (Operation.CREATE_MULTIPART_UPLOAD, Operation.LIST_PARTS, Operation.LIST_MULTIPART_UPLOADS)
"""Operations whose answers name upload ids."""
LISTS = (Operation.LIST_PARTS, Operation.LIST_MULTIPART_UPLOADS)
"""Those of them whose answers are much work, and that may be refused once the store has answered."""

_AT_ONCE = 16
"""Uploads that are marked before others may have their turn."""

_UPLOAD_ID = "uploadId"
_UPLOAD_ID_MARKER = "upload-id-marker"
# Where a list begins, and where the next one would; each with the key that its id belongs to.
_MARKERS = (("UploadIdMarker", "KeyMarker"), ("NextUploadIdMarker", "NextKeyMarker"))


class UploadScope:
    """What the uploads of one request are bound to: the owner of the keys and the bucket."""

    __slots__ = ("bucket", "owner")

    def __init__(self, owner: str, bucket: str) -> None:
        self.owner = owner
        self.bucket = bucket


def place_of(passed: Passed) -> UploadScope:
    """Return what the upload ids of a request are bound to, besides the key."""
    table, volume = passed.allow.table, passed.allow.volume
    owner: tuple[str, ...] = ()
    if table is not None:
        owner = ("table", table.catalog, table.namespace, table.name)
    elif volume is not None:
        owner = ("volume", volume.catalog, volume.name)
    return UploadScope(NAMESPACE_SEPARATOR.join(owner), passed.forwardable.request.bucket)


class UploadIds:
    """Adds the mark where a store names an upload, and takes it off where a client does."""

    __slots__ = ("_marker",)

    def __init__(self, marker: Marker) -> None:
        self._marker = marker

    def stripped(self, place: UploadScope, key: str, target: str, canonical_query: str) -> tuple[str, str]:
        """Return target and canonical query as the store knows them; raise Refused with UPLOAD_ID.

        Whatever else stands in the target stays byte for byte.
        """
        path, _, raw_query = target.partition("?")
        parts = raw_query.split("&")
        for index, part in enumerate(parts):
            raw_name, _, raw_value = part.partition("=")
            name = unquote_plus(raw_name)
            if name == _UPLOAD_ID:
                marked = parse_query(part)[_UPLOAD_ID]
                upload_id = self._opened(place, key, marked)
                if upload_id is None:
                    raise Refused(
                        Reason.UPLOAD_ID, f"upload id {marked[:64]!r} is none of {place.owner!r} and key {key[:64]!r}"
                    )
            elif name == _UPLOAD_ID_MARKER:
                # A position in a list that is cut to what the caller may see: nothing depends on its being true.
                marked = parse_query(part)[_UPLOAD_ID_MARKER]
                upload_id = self._opened(place, parse_query(raw_query).get("key-marker", ""), marked)
                if upload_id is None:
                    continue
            else:
                continue
            mark = marked[len(upload_id) :]
            raw_id = raw_value.removesuffix(mark) if raw_value.endswith(mark) else encode_query_part(upload_id)
            parts[index] = f"{raw_name}={raw_id}"
            signed, unsigned = (f"{name}={encode_query_part(each)}" for each in (marked, upload_id))
            # The name stands only once, so that the order of the parts does not change.
            canonical_query = "&".join([unsigned if each == signed else each for each in canonical_query.split("&")])
        return f"{path}?{'&'.join(parts)}", canonical_query

    def marked(
        self, place: UploadScope, operation: Operation, key: str, document: bytes
    ) -> Generator[None, None, bytes]:
        """Return, piece by piece, a store's answer with each upload id marked; raise Refused where there is none."""
        root = yield from read_document(document)
        if operation is not Operation.LIST_MULTIPART_UPLOADS:
            upload_id = root.one("UploadId")
            if upload_id is None:
                raise invalid(f"{operation.s3_name} was answered with no upload id")
            return replaced(document, [self._remade(upload_id, place, key)])
        encoded = root.value("EncodingType") == "url"
        changes = []
        for name, key_name in _MARKERS:
            marker = root.one(name)
            if marker is not None and marker.text:
                changes.append(self._remade(marker, place, _decoded(root.value(key_name), encoded=encoded)))
        for number, upload in enumerate(root.all("Upload"), 1):
            if number % _AT_ONCE == 0:
                yield
            named, upload_id = upload.one("Key"), upload.one("UploadId")
            if named is None or upload_id is None:
                raise invalid("an upload without its key or its id")
            changes.append(self._remade(upload_id, place, _decoded(named.text, encoded=encoded)))
        return replaced(document, sorted(changes))

    def _remade(self, element: Element, place: UploadScope, key: str) -> tuple[int, int, bytes]:
        """Return the id of an upload, written anew with its mark, and what stands in its place."""
        upload_id = element.text
        if not upload_id:
            raise invalid("an empty upload id")
        mark = self._marker.mark(place.owner, place.bucket, key, upload_id)
        return element.start, element.end, f"<{element.name}>{escaped(f'{upload_id}.{mark}')}".encode()

    def _opened(self, place: UploadScope, key: str, marked: str) -> str | None:
        upload_id, mark = marked[: -MARK_LENGTH - 1], marked[-MARK_LENGTH:]
        if not upload_id or marked[len(upload_id)] != ".":
            return None
        return upload_id if self._marker.holds(mark, place.owner, place.bucket, key, upload_id) else None


def _decoded(text: str, *, encoded: bool) -> str:
    """Return a key as the document means it."""
    return unquote_plus(text) if encoded else text
