"""Read `x-amz-copy-source`: the object that a copy reads, judged like a read of that object."""

from __future__ import annotations

import re
from collections.abc import Callable

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.key import check_key
from signproxy.s3.request import ObjectRef
from signproxy.s3.uri import decode_once

# A raw plus is a space to some stores and a plus to others; every SDK sends %2B. The bucket is never escaped.
_SOURCE = re.compile(
    r"/?([a-z0-9][a-z0-9.\-]{1,61}[a-z0-9])/((?:[A-Za-z0-9\-._~!$&'()*,;=:@/]|%[0-9A-Fa-f]{2})+)"
    r"(?:\?versionId=([A-Za-z0-9._\-]{1,1024}))?"
)
# Clients that talk to S3 itself spell more characters out; what has two readings stays refused.
_WIDE_SOURCE = re.compile(
    r"/?([A-Za-z0-9._\-]{1,255})/((?:[!-$&-*,->@-~ ]|%[0-9A-Fa-f]{2})+)(?:\?versionId=([A-Za-z0-9._\-]{1,1024}))?"
)
_BUCKET = re.compile(r"(?![0-9]{1,3}(?:\.[0-9]{1,3}){3}$)[A-Za-z0-9._\-]{1,255}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HEADER = "x-amz-copy-source"
# S3 decodes before it splits. With a slash of its own in it, a store that splits first would find another bucket.
_ENCODED_WHOLE = re.compile(r"\A(?:/|%2[Ff])?([A-Za-z0-9._\-]+)%2[Ff](?=[^/]*\Z)")


def parse_copy_source(
    value: str, *, versions: bool, check: Callable[[str], None] = check_key, strict: bool = True
) -> ObjectRef:
    """Return the source object; `versions` says whether a version of it may be named, `check` which keys may."""
    match = _SOURCE.fullmatch(value) if strict else _WIDE_SOURCE.fullmatch(_ENCODED_WHOLE.sub(r"/\1/", value))
    if match is None or not _BUCKET.fullmatch(match[1]):
        raise _refusal_of(value)
    bucket, raw_key, version = match.groups()
    if version is not None and not versions:
        raise Refused(Reason.COPY_SOURCE, "a version of the source needs the storage's opt-in 'recover'")
    key = ""
    try:
        key = decode_once(raw_key)
        check(key)
    except Refused as refusal:
        told = f"{refusal.reason.code}: {refusal.detail}"
        if not key:
            raise S3Refused(Reason.COPY_SOURCE, Fault.COPY_SOURCE_ENCODING, _HEADER, value, detail=told) from None
        raise S3Refused(Reason.COPY_SOURCE, Fault.COPY_SOURCE_KEY, _HEADER, key, detail=told) from None
    return ObjectRef(bucket, key)


def _refusal_of(value: str) -> Refused:
    """Return the refusal of what is no copy source, as S3 tells its parts apart."""
    told = f"copy source {value!r} is not /bucket/key, encoded once"
    if _BAD_ESCAPE.search(value):
        return S3Refused(Reason.COPY_SOURCE, Fault.COPY_SOURCE_ENCODING, _HEADER, value, detail=told)
    bucket, _, key = value.removeprefix("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        return S3Refused(Reason.COPY_SOURCE, Fault.COPY_SOURCE_BUCKET, _HEADER, value, detail=told)
    return S3Refused(Reason.COPY_SOURCE, Fault.COPY_SOURCE_KEY, _HEADER, key, detail=told)
