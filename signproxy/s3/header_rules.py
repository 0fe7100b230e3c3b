"""Hold the rule of each request header: leave it unsigned, sign it, check its value first, or refuse it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import naming
from signproxy.s3.operation import Access, Operation
from signproxy.s3.storage import Storage


class Context(msgspec.Struct, frozen=True, gc=False):
    """What a header's value is checked against."""

    method: str
    operation: Operation
    storage: Storage


class Treatment(Enum):
    """What happens to a header that has no check of its own."""

    UNSIGNED = "accepted, not signed"
    SIGNED = "signed"
    CHECKED = "signed if its value is allowed"
    REFUSED = "refused"


ValueCheck = Callable[[str, Context], bool]


def _with_copy(_value: str, context: Context) -> bool:
    return context.operation in (Operation.COPY_OBJECT, Operation.UPLOAD_PART_COPY)


def _owner(value: str, context: Context) -> bool:
    return not context.storage.bucket_owner or value == context.storage.bucket_owner


def _kms_detail(_value: str, context: Context) -> bool:
    return bool(context.storage.opt_ins.kms_keys)


CHECKS: dict[str, ValueCheck] = {
    "x-amz-te": lambda value, context: value == "append-md5" and context.method in ("GET", "HEAD"),
    "x-amz-copy-source": _with_copy,
    "x-amz-copy-source-if-match": _with_copy,
    "x-amz-copy-source-if-none-match": _with_copy,
    "x-amz-copy-source-if-modified-since": _with_copy,
    "x-amz-copy-source-if-unmodified-since": _with_copy,
    "x-amz-copy-source-range": _with_copy,
    "x-amz-expected-bucket-owner": _owner,
    "x-amz-source-expected-bucket-owner": _owner,
    "x-amz-acl": lambda value, context: (
        context.storage.opt_ins.bucket_owner_full_control and value == "bucket-owner-full-control"
    ),
    "x-amz-tagging": lambda _, context: context.storage.opt_ins.tagging,
    "x-amz-storage-class": lambda value, context: (
        value == "STANDARD" or value in context.storage.opt_ins.storage_classes
    ),
    "x-amz-server-side-encryption": lambda value, context: (
        value == "AES256" or (value in ("aws:kms", "aws:kms:dsse") and bool(context.storage.opt_ins.kms_keys))
    ),
    # A foreign key would lock the owner of the table out of it.
    "x-amz-server-side-encryption-aws-kms-key-id": lambda value, context: value in context.storage.opt_ins.kms_keys,
    "x-amz-server-side-encryption-context": _kms_detail,
    "x-amz-server-side-encryption-bucket-key-enabled": _kms_detail,
    "x-amz-optional-object-attributes": lambda _, context: context.operation.access is Access.LIST,
}

SIGNED = frozenset(
    """
    content-encoding content-md5 content-type
    x-amz-checksum-algorithm x-amz-checksum-crc32 x-amz-checksum-crc32c x-amz-checksum-crc64nvme x-amz-checksum-md5
    x-amz-checksum-mode x-amz-checksum-sha1 x-amz-checksum-sha256 x-amz-checksum-sha512 x-amz-checksum-type
    x-amz-checksum-xxhash128 x-amz-checksum-xxhash3 x-amz-checksum-xxhash64 x-amz-decoded-content-length
    x-amz-if-match-initiated-time x-amz-if-match-last-modified-time x-amz-if-match-size x-amz-mp-object-size
    x-amz-sdk-checksum-algorithm x-amz-trailer
    """.split()
)

# What proxies, SDKs and tracers change, or send to every server; a store reads none of it as a command.
UNSIGNED = frozenset(
    """
    accept accept-charset accept-encoding accept-language baggage cache-control connection content-disposition
    content-language content-length cookie date dnt expect expires from if-match if-modified-since
    if-none-match if-range if-unmodified-since keep-alive max-forwards origin pragma priority proxy-authenticate
    proxy-connection range referer te traceparent tracestate trailer transfer-encoding upgrade
    upgrade-insecure-requests user-agent via warning x-amzn-trace-id x-client-version x-request-id
    """.split()
)
UNSIGNED_PREFIXES = ("amz-sdk-", "sec-fetch-", "sec-ch-", "x-b3-", "x-datadog-", "uber-trace-")

CREDENTIALS = frozenset({"authorization", "proxy-authorization", "x-amz-date", "x-amz-security-token"})
"""Headers that only the signer may set: Java would lay the client's own back over the answer's."""

# `Host` and the payload hash are read by the recipe itself.
OWN = frozenset({"host", "x-amz-content-sha256"})

_METADATA = "x-amz-meta-"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")


def treatment(lower: str) -> Treatment:
    """Return the treatment of a header by its lower-case name; what is not listed is refused."""
    if lower in CHECKS:
        return Treatment.CHECKED
    if lower in SIGNED:
        return Treatment.SIGNED
    if lower in UNSIGNED or lower.startswith(UNSIGNED_PREFIXES):
        return Treatment.UNSIGNED
    # MinIO unpacks an archive anywhere in the bucket if told so by user metadata.
    if lower.startswith(_METADATA) and len(lower) > len(_METADATA) and "snowball" not in lower:
        return Treatment.SIGNED
    return Treatment.REFUSED


def check_name(name: str) -> str:
    """Return the lower-case name of a header that may be sent at all. Raise Refused, which names any other."""
    if not _TOKEN.fullmatch(name):
        raise naming(Refused(Reason.HEADER_MALFORMED, f"name {name!r}"), name)
    lower = name.lower()
    if lower in CREDENTIALS:
        raise naming(Refused(Reason.HEADER_CREDENTIALS, f"header {lower!r}"), name)
    if lower not in OWN and treatment(lower) is Treatment.REFUSED:
        raise naming(Refused(Reason.HEADER_REFUSED, f"header {lower!r}"), name)
    return lower
