"""Bind the id of a multipart upload to the place that it was begun for, so that it is good for nothing else.

A store looks an upload up by its id and a key. One that is lax about the key would let whoever learns of an id add
parts to another table's upload, or end it. Clients are given `<the store's id>.<mark>` instead, and the mark holds for
one table or volume, bucket and key alone.
"""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import unquote_plus

from signproxy.errors import Reason, Refused
from signproxy.forward.xml_text import unescaped
from signproxy.s3.canonical import encode_query_part
from signproxy.s3.operation import Operation
from signproxy.s3.query import parse_query
from signproxy.sealing import MARK_LENGTH, Marker

# A tuple: members are compared by identity there, while a set calls their hash, which is Python code.
MARKED_ANSWERS = (Operation.CREATE_MULTIPART_UPLOAD, Operation.LIST_PARTS, Operation.LIST_MULTIPART_UPLOADS)
"""Operations whose answers name upload ids."""

_UPLOAD_ID = "uploadId"
_UPLOAD_ID_MARKER = "upload-id-marker"
_UPLOAD = re.compile(r"<Upload>.*?</Upload>", re.DOTALL)
_KEY = re.compile(r"<Key>([^<]*)</Key>")
_ID = re.compile(r"(<UploadId>)([^<]*)(</UploadId>)")
# Where a list begins, and where the next one would; each with the key that its id belongs to.
_MARKERS = tuple(
    (
        re.compile(rf"(<{name}UploadIdMarker>)([^<]+)(</{name}UploadIdMarker>)"),
        re.compile(rf"<{name}KeyMarker>([^<]*)<"),
    )
    for name in ("", "Next")
)


class Place:
    """What the uploads of one request are bound to: the owner of the keys and the bucket."""

    __slots__ = ("bucket", "owner")

    def __init__(self, owner: str, bucket: str) -> None:
        self.owner = owner
        self.bucket = bucket


class UploadIds:
    """Adds the mark where a store names an upload, and takes it off where a client does."""

    __slots__ = ("_marker",)

    def __init__(self, marker: Marker) -> None:
        self._marker = marker

    def stripped(self, place: Place, key: str, target: str, canonical_query: str) -> tuple[str, str]:
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

    def marked(self, place: Place, operation: Operation, key: str, document: bytes) -> bytes:
        """Return a store's answer with each upload id marked; raise Refused with STORE_INVALID where there is none."""
        try:
            text = document.decode()
        except UnicodeDecodeError:
            raise Refused(Reason.STORE_INVALID, f"{operation.s3_name} was answered with no UTF-8") from None
        if operation is not Operation.LIST_MULTIPART_UPLOADS:
            text, count = _ID.subn(lambda found: self._remade(found, place, key), text)
            if count != 1:
                raise Refused(Reason.STORE_INVALID, f"{operation.s3_name} was answered with {count} upload ids")
            return text.encode()
        encoded = "<EncodingType>url</EncodingType>" in text
        text = _UPLOAD.sub(lambda found: self._upload(found[0], place, encoded=encoded), text)
        for marker, key_marker in _MARKERS:
            beside = key_marker.search(text)
            if beside is not None:
                remade = partial(self._remade, place=place, key=_decoded(beside[1], encoded=encoded))
                text = marker.sub(remade, text, count=1)
        return text.encode()

    def _upload(self, element: str, place: Place, *, encoded: bool) -> str:
        key = _KEY.search(element)
        if key is None:
            raise Refused(Reason.STORE_INVALID, "an upload without a key")
        return _ID.sub(lambda found: self._remade(found, place, _decoded(key[1], encoded=encoded)), element)

    def _remade(self, found: re.Match[str], place: Place, key: str) -> str:
        upload_id = unescaped(found[2])
        mark = self._marker.mark(place.owner, place.bucket, key, upload_id)
        # Marks are made of letters, digits, `-` and `_`: the element's text is only made longer.
        return f"{found[1]}{found[2]}.{mark}{found[3]}"

    def _opened(self, place: Place, key: str, marked: str) -> str | None:
        upload_id, mark = marked[: -MARK_LENGTH - 1], marked[-MARK_LENGTH:]
        if not upload_id or marked[len(upload_id)] != ".":
            return None
        return upload_id if self._marker.holds(mark, place.owner, place.bucket, key, upload_id) else None


def _decoded(text: str, *, encoded: bool) -> str:
    """Return a key as the document means it."""
    key = unescaped(text)
    return unquote_plus(key) if encoded else key
