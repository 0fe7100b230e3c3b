"""Delete those of many objects that the caller may delete, and tell it of the others as S3 does: key by key."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import md5, sha256

from signproxy.errors import Reason, Refused
from signproxy.forward.resign import Outbound
from signproxy.forward.xml_text import unescaped
from signproxy.gate.forwarded import RefusedKey
from signproxy.s3.answers import delete_errors
from signproxy.s3.checksums import checksum, is_known
from signproxy.s3.codes import s3_code

_OBJECT = re.compile(rb"<Object\s*>.*?</Object\s*>", re.DOTALL)
_KEY = re.compile(rb"<Key\s*>(.*?)</Key\s*>", re.DOTALL)
_END = re.compile(rb"</DeleteResult\s*>\s*\Z")
_EMPTY = re.compile(rb"<DeleteResult((?:\s[^<>]*?)?)\s*/>\s*\Z")
_CHECKSUM = "x-amz-checksum-"


def bound(request: Outbound, body: bytes, allowed: Iterable[str], *, partial: bool) -> bytes:
    """Return the body to send, for the allowed keys alone, with everything that the request says of it true."""
    if partial:
        # The store will not see what the client declared: it is compared here.
        _declare(request, body, _compared)
        body = _cut(body, allowed)
        _declare(request, body, _replaced)
    request.payload = sha256(body).hexdigest()
    request.framing = f"Content-Length: {len(body)}\r\n"
    return body


def _cut(body: bytes, allowed: Iterable[str]) -> bytes:
    """Return the body of a bulk delete with those objects alone; what stays stays byte for byte.

    The body passed the strict reader: there is nothing in it that another reader takes for something else.
    """
    keys = {*allowed}
    found: set[str] = set()

    def kept(element: re.Match[bytes]) -> bytes:
        inside = _KEY.search(element[0])
        key = None if inside is None else unescaped(inside[1].decode())
        if key not in keys:
            return b""
        found.add(key)
        return element[0]

    cut = _OBJECT.sub(kept, body)
    if found != keys:
        raise Refused(Reason.DELETE_BODY, f"{len(keys - found)} keys are not found again")
    return cut


def _declare(request: Outbound, body: bytes, say: Callable[[Outbound, str, str, str], None]) -> None:
    """Say for each header that declares something of the body what was declared, and what is true."""
    for spelled, declared in tuple(request.headers):
        name = spelled.lower()
        if name == "content-md5":
            say(request, name, declared, b64encode(md5(body, usedforsecurity=False).digest()).decode())
        elif name.startswith(_CHECKSUM) and is_known(name.removeprefix(_CHECKSUM)):
            computed = checksum(name.removeprefix(_CHECKSUM))
            computed.update(body)
            say(request, name, declared, computed.base64())


def _compared(_request: Outbound, name: str, declared: str, computed: str) -> None:
    if declared != computed:
        reason = Reason.CONTENT_MD5 if name == "content-md5" else Reason.CHECKSUM_MISMATCH
        raise Refused(reason, f"{name} {declared!r}, and the body's is {computed!r}")


def _replaced(request: Outbound, name: str, _declared: str, computed: str) -> None:
    request.replace(name, computed)


def merged(document: bytes, refused: Iterable[RefusedKey]) -> bytes:
    """Return the store's result with an error for each key that it was not asked for."""
    errors = _errors(refused)
    end = _END.search(document)
    if end is not None:
        return document[: end.start()] + errors + document[end.start() :]
    empty = _EMPTY.search(document)
    if empty is not None:
        return b"%b<DeleteResult%b>%b</DeleteResult>" % (document[: empty.start()], empty[1], errors)
    raise Refused(Reason.STORE_INVALID, "DeleteObjects was answered with no DeleteResult")


def _errors(refused: Iterable[RefusedKey]) -> bytes:
    return delete_errors([(key, s3_code(reason)[1], reason.value.message) for key, reason in refused]).encode()
