"""Delete those of many objects that the caller may delete, and tell it of the others as S3 does: key by key."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Generator, Iterable
from hashlib import md5, sha256

from signproxy.errors import Reason, Refused
from signproxy.forward.store_request import StoreRequest
from signproxy.gate.forwarded import RefusedKey
from signproxy.s3.answers import delete_document, delete_errors, delete_result_xml
from signproxy.s3.bulk_delete import BulkDelete, DeletedObject
from signproxy.s3.checksums import checksum, is_known
from signproxy.s3.codes import s3_code
from signproxy.s3.xml_document import invalid, read_document, replaced

_CHECKSUM = "x-amz-checksum-"
_PIECE = 64 * 1024
"""Bytes that a checksum is computed of at a time: half a millisecond of the slowest one."""
# S3 knows them, and what a client declares of its own body is not true of another one.
_NOT_COMPUTED = frozenset(("x-amz-checksum-xxhash3", "x-amz-checksum-xxhash64", "x-amz-checksum-xxhash128"))
_ALGORITHM = "x-amz-sdk-checksum-algorithm"
_VERSION = "VersionId"


def bound(
    request: StoreRequest, body: bytes, deletes: BulkDelete, allowed: Iterable[str]
) -> Generator[None, None, bytes]:
    """Return the body to send: written from the allowed ones of what was judged, whatever the client's own looks like.

    Everything that the request says of its body is true of this one. Raise Refused where it was not of the client's.
    Others have their turn between two pieces of a body.
    """
    # The store will not see what the client declared: it is compared here.
    yield from _declare(request, body, _compared)
    keys = {*allowed}
    body = delete_document([each for each in deletes.objects if each.key in keys], quiet=deletes.quiet)
    yield from _declare(request, body, _replaced)
    replaced_by_md5 = [name for name, _ in request.headers if name.lower() in _NOT_COMPUTED]
    if replaced_by_md5:
        for name in (*replaced_by_md5, _ALGORITHM, "content-md5"):
            request.remove(name.lower())
        request.add("Content-MD5", b64encode(md5(body, usedforsecurity=False).digest()).decode())
    request.payload = sha256(body).hexdigest()
    request.framing = f"Content-Length: {len(body)}\r\n"
    return body


def _declare(
    request: StoreRequest, body: bytes, say: Callable[[StoreRequest, str, str, str], None]
) -> Generator[None, None, None]:
    """Say for each header that declares something of the body what was declared, and what is true."""
    for spelled, declared in tuple(request.headers):
        name = spelled.lower()
        algorithm = "md5" if name == "content-md5" else name.removeprefix(_CHECKSUM)
        if name == "content-md5" or (name != algorithm and is_known(algorithm)):
            computed = checksum(algorithm)
            for start in range(0, len(body), _PIECE):
                computed.update(body[start : start + _PIECE])
                yield
            say(request, name, declared, computed.base64())


def _compared(_request: StoreRequest, name: str, declared: str, computed: str) -> None:
    if declared != computed:
        reason = Reason.CONTENT_MD5 if name == "content-md5" else Reason.CHECKSUM_MISMATCH
        raise Refused(reason, f"{name} {declared!r}, and the body's is {computed!r}")


def _replaced(request: StoreRequest, name: str, _declared: str, computed: str) -> None:
    request.replace(name, computed)


def merged(document: bytes, deletes: BulkDelete, refused: Iterable[RefusedKey]) -> Generator[None, None, bytes]:
    """Return, piece by piece, the store's result with an error for each object that it was not asked for."""
    root = yield from read_document(document)
    if root.name != "DeleteResult":
        raise invalid(f"DeleteObjects was answered with {root.name!r}")
    reasons = dict(refused)
    errors = [_error(each, reasons[each.key]) for each in deletes.objects if each.key in reasons]
    if root.is_short:
        return delete_result_xml(errors)
    return replaced(document, [(root.end, root.end, delete_errors(errors).encode())])


def _error(each: DeletedObject, reason: Reason) -> tuple[str, str, str, str]:
    version = dict(each.conditions).get(_VERSION, "")
    return each.key, s3_code(reason).code, reason.value.message, version
