"""Classify a request that a client sends to be forwarded: what it addresses, what it does, and how it is sent on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused, anew
from signproxy.s3.bulk_delete import BulkDelete, DeleteRules, by_key_alone, read_bulk_delete
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.forwarded_headers import FORCE_DELETE, read_forwarded
from signproxy.s3.forwarded_operations import MAX_BUCKETS, find_forwarded, find_of_service
from signproxy.s3.header_rules import Context
from signproxy.s3.header_words import naming
from signproxy.s3.hoisted import parted
from signproxy.s3.key import check_dot_segments, check_key, check_prefix, check_s3_key
from signproxy.s3.operation import Access, Operation
from signproxy.s3.operations import COPIES, Level
from signproxy.s3.outbound import Outbound, outbound_of
from signproxy.s3.payload import Carriage, Payload, PayloadMode, payload_of, without_framing
from signproxy.s3.query import parse_query
from signproxy.s3.refused_headers import read_beside, refused_name, signed_headers
from signproxy.s3.request import ObjectRef, S3Request
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from signproxy.s3.storage import Storage
from signproxy.s3.uri import decode_once, is_canonical

__all__ = [
    "FORWARDED",
    "ForwardWire",
    "Forwardable",
    "KeyRules",
    "OperationsAllowed",
    "Rules",
    "classify_forwarded",
    "decoded_key",
    "is_bulk_delete",
    "key_check",
    "list_prefix",
    "service_operation",
    "spellings",
]

_NO_PARAMETERS: dict[str, str] = {}

# Looking a member up in its class calls Python code; the hot path does without.
_BUCKET, _OBJECT = Level.BUCKET, Level.OBJECT
_DELETE_OBJECTS = Operation.DELETE_OBJECTS
_LIST_PARTS = Operation.LIST_PARTS
_LIST = Access.LIST
_DECODED = Carriage.DECODED
_STRICT = KeyRules.STRICT
_TABLE = OperationsAllowed.TABLE

# No character of a bucket's name may change the path or the host that it travels in.
_PROPER_NAME = re.compile(r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]")
_BUCKET_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9._\-]{0,254}")
# Nothing escaped, no segment that is empty or begins with a dot: its own canonical form, and every rule lets it pass.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9\-_~][A-Za-z0-9\-._~]*+(?:/[A-Za-z0-9\-_~][A-Za-z0-9\-._~]*+)*+")
_PLAIN_LENGTH = 1024
_RAW = {
    KeyRules.STRICT: re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]++|%[0-9A-Fa-f]{2})*+"),
    # Whatever clients leave as it is; a store gets the same bytes.
    KeyRules.S3: re.compile(r"(?:[!-\"$&->@-~]++|%[0-9A-Fa-f]{2})*+"),
}
# Keys are refused one by one, where it is known in whose place they lie; what XML cannot hold is in none.
FORWARDED = DeleteRules(check=None, conditions=True, written_anew=True)
"""Of a bulk delete that is forwarded: whether an object may name a version is a question of its place, too."""
_RAW_QUERY = re.compile(r"(?:[!-\"$&-~]++|%[0-9A-Fa-f]{2})*+")


class ForwardWire(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An S3 request as the listener hands it on; not believed."""

    method: str
    bucket: str
    """Empty on service level."""
    raw_key: str
    """As sent, without the slash before it; empty on bucket level."""
    raw_query: str | None
    """As sent, the parameters of a presigned URL taken out."""
    headers: tuple[tuple[str, str], ...]
    """Lower-case names and values as they came; hop-by-hop, Host and the caller's authentication taken out."""
    names: tuple[str, ...]
    """The names as spelled, in the same order."""
    hoisted: tuple[tuple[str, str], ...] = ()
    """Headers that a presigned URL brought in its query; names as spelled."""
    body: bytes | None = None
    """Of a bulk delete, read whole."""
    deletes: BulkDelete | Refused | None = None
    """What the body asks for, or why that cannot be read; None where it was not read yet."""
    host: str = ""
    """The Host that the client addressed, for answers that name it."""
    payload: str = ""
    """The payload that the caller's signature binds; empty where only the header may say it."""


class Forwardable(msgspec.Struct, frozen=True, gc=False):
    """A request that passed the grammar, and how it is sent on once it is allowed."""

    request: S3Request
    """`host`, `canonical_path`, `canonical_query`, `headers` and `payload` are what is signed for the store."""
    target: str
    """The request target to send: the key's and the query's bytes exactly as the client sent them."""
    headers: tuple[tuple[str, str], ...]
    """Names as spelled and values exactly, besides Host, the message's framing and the signature's own."""
    mode: PayloadMode
    payload: Payload
    outbound: Outbound
    hoisted: str = ""
    """Parameters that go into the query besides: headers that an SDK moved there, judged as headers."""
    deletes: BulkDelete | None = None
    """Of a bulk delete: all that the client asks for, and `request.delete_keys` is what may be sent of it."""


class _Known(msgspec.Struct, frozen=True, gc=False):
    """The way to a bucket of a storage. Holding the storage keeps its identity from reuse."""

    storage: Storage
    outbound: Outbound


_OUTBOUNDS_KEPT = 1024
"""Buckets; where clients make their own, their names are the clients' to choose."""
_outbounds: dict[tuple[int, str], _Known] = {}


def bucket_unknown(bucket: str, told: str) -> Refused:
    """Return the refusal of a bucket that is not for the caller; what cannot be the name of one is told as that."""
    told = f"bucket {bucket[:256]!r}: {told}"
    if _PROPER_NAME.fullmatch(bucket):
        return Refused(Reason.ENDPOINT_UNKNOWN, told)
    return S3Refused(Reason.ENDPOINT_UNKNOWN, Fault.BUCKET_NAME, bucket, detail=told)


class ServiceRequest(NamedTuple):
    """A request that addresses no bucket."""

    operation: Operation
    prefix: str | None
    after: str
    """The last bucket that was told before."""
    most: int


def service_operation(wire: ForwardWire) -> ServiceRequest:
    """Return what is asked of the service; only ListBuckets is served."""
    parameters = _parameters(wire.raw_query)
    operation = find_of_service(wire.method, parameters)
    most = int(parameters.get("max-buckets", MAX_BUCKETS))
    return ServiceRequest(operation, parameters.get("prefix"), parameters.get("continuation-token", ""), most)


def is_bulk_delete(method: str, raw_key: str, raw_query: str | None) -> bool:
    """Whether a request is judged by its body, which the listener then reads whole."""
    if method != "POST" or raw_key or not raw_query:
        return False
    return any(_decoded_name(part) == "delete" for part in raw_query.split("&"))


def decoded_key(wire: ForwardWire) -> str:
    """Return the addressed key, decoded once; empty on bucket level."""
    return decode_once(wire.raw_key)


def list_prefix(wire: ForwardWire) -> str:
    """Return the prefix that a list asks for; empty where it asks for none, or is none."""
    if wire.raw_key or not wire.raw_query:
        return ""
    return _parameters(wire.raw_query).get("prefix", "")


def classify_forwarded(storage: Storage, wire: ForwardWire, rules: Rules) -> Forwardable:
    """Return the request that the store would see, or refuse it; nothing here depends on who asks.

    The steps follow the order of `errors.Check`: endpoint, uri, operation, headers, body.
    """
    bucket, raw_key, raw_query = wire.bucket, wire.raw_key, wire.raw_query
    if bucket not in storage.buckets and not _BUCKET_NAME.fullmatch(bucket):
        raise bucket_unknown(bucket, "no name of a bucket")
    outbound = _outbound(storage, bucket)
    path = canonical = outbound.path(bucket, raw_key)
    key, level = raw_key, _OBJECT if raw_key else _BUCKET
    if raw_key and (len(raw_key) > _PLAIN_LENGTH or not _PLAIN_KEY.fullmatch(raw_key)):
        key = _key(raw_key, storage, rules)
        if not is_canonical(path):
            canonical = canonical_path(outbound.path(bucket, key))
    parameters = _NO_PARAMETERS if raw_query is None else _parameters(raw_query)
    operation, named = find_forwarded(wire.method, level, parameters, rules.operations, storage.opt_ins)
    prefix = ""
    if operation.access is _LIST and operation is not _LIST_PARTS:
        prefix = parameters.get("prefix", "")
        _check_prefix(prefix, storage, rules)

    hoisted = wire.hoisted
    headers, names = read_beside(wire.headers, wire.names, wire.hoisted) if hoisted else (wire.headers, wire.names)
    try:
        read = read_forwarded(headers, names, rules.operations)
    except Refused as refused:
        raise naming(refused, refused_name(headers, names, rules)) from None
    if raw_key and read.value(FORCE_DELETE) is not None:
        raise naming(Refused(Reason.HEADER_REFUSED, f"header {FORCE_DELETE!r} with a key"), FORCE_DELETE)
    copy_source = read.value("x-amz-copy-source")
    operation = operation if copy_source is None else COPIES.get(operation, operation)
    signed = signed_headers(read, Context(wire.method, operation, storage)) if read.plan.signed else ()
    if read.plan.places:
        payload = payload_of(
            wire.payload or read.value("x-amz-content-sha256") or "",
            read.value("content-encoding") or "",
            read.value("x-amz-trailer") or "",
            read.value("x-amz-decoded-content-length"),
            operation,
            storage,
        )
    else:
        payload = payload_of(wire.payload, "", "", None, operation, storage)
    sent, content = read.sent(), payload.sent
    in_query = ""
    # What is said of the body of a bulk delete stays a header: the store gets another body, and another checksum of it.
    if hoisted and operation is not _DELETE_OBJECTS:
        sent, signed, in_query = parted(sent, signed, hoisted)
    if payload.carriage is _DECODED:
        sent, signed = _unframed(sent, payload), _unframed(signed, payload)
    deletes: BulkDelete | None = None
    if operation is _DELETE_OBJECTS:
        deletes, content = _bulk_delete(wire, payload, rules)
    elif wire.body:
        raise Refused(Reason.BODY_UNEXPECTED, f"{len(wire.body)} bytes with {named or operation.s3_name}")
    # A mark with nothing behind it asks for nothing: it is signed, and sent, without.
    target = f"{path}?{raw_query}" if raw_query else path
    request = S3Request(
        operation,
        wire.method,
        f"{outbound.scheme}://{outbound.host}{target}",
        storage,
        bucket,
        key,
        outbound.host,
        canonical,
        canonical_query(parameters.items()) if parameters else "",
        signed,
        content,
        prefix,
        () if deletes is None else deletes.keys,
        None if copy_source is None else _source(copy_source, storage, rules),
        read.is_conditional(),
        named,
    )
    return Forwardable(request, target, sent, payload.mode, payload, outbound, in_query, deletes)


def _outbound(storage: Storage, bucket: str) -> Outbound:
    known = _outbounds.get((id(storage), bucket))
    if known is not None and known.storage is storage:
        return known.outbound
    outbound = outbound_of(storage, bucket)
    if len(_outbounds) >= _OUTBOUNDS_KEPT:
        _outbounds.clear()
    _outbounds[id(storage), bucket] = _Known(storage, outbound)
    return outbound


def _parameters(raw_query: str | None) -> dict[str, str]:
    if not raw_query:
        # `?` alone is a query without parameters, which some clients send.
        return _NO_PARAMETERS
    if not _RAW_QUERY.fullmatch(raw_query):
        raise Refused(Reason.QUERY_MALFORMED, f"query {raw_query[:256]!r}")
    return parse_query(raw_query)


def _decoded_name(part: str) -> str:
    try:
        return decode_once(part.partition("=")[0].replace("+", " "))
    except Refused:
        # The reader of the whole query refuses it.
        return ""


def _key(raw_key: str, storage: Storage, rules: Rules) -> str:
    if not _RAW[rules.keys].fullmatch(raw_key):
        raise Refused(Reason.URI_MALFORMED, f"key {raw_key[:256]!r} as sent")
    key = decode_once(raw_key)
    key_check(storage, rules.keys)(key)
    return key


def key_check(storage: Storage, keys: KeyRules) -> Callable[[str], None]:
    """Return what refuses keys that may not be addressed."""
    return check_key if keys is _STRICT else partial(check_s3_key, literal=storage.literal_keys)


def _check_prefix(prefix: str, storage: Storage, rules: Rules) -> None:
    if rules.keys is _STRICT:
        # A list of a whole bucket is a volume's to allow.
        if prefix or rules.operations is _TABLE:
            check_prefix(prefix)
    elif not storage.literal_keys:
        try:
            check_dot_segments(prefix)
        except Refused as refusal:
            raise Refused(Reason.LIST_PREFIX, refusal.detail) from None


def _source(value: str, storage: Storage, rules: Rules) -> ObjectRef:
    return parse_copy_source(
        value,
        versions=storage.opt_ins.recover or rules.operations is not _TABLE,
        check=key_check(storage, rules.keys),
        strict=rules.keys is _STRICT,
    )


def spellings(key: str, storage: Storage) -> tuple[str, ...]:
    """Return the keys that a store may read where a document names one: some parsers trim a text."""
    if key == key.strip() or storage.literal_keys:
        return (key,)
    return tuple(dict.fromkeys((key, key.strip(), key.lstrip(), key.rstrip())))


def _bulk_delete(wire: ForwardWire, payload: Payload, rules: Rules) -> tuple[BulkDelete, str]:
    """Return what a bulk delete asks for, and the hash of its body; which keys may be addressed is asked of each."""
    body = wire.body
    if not body:
        raise Refused(Reason.DELETE_WITHOUT_BODY)
    digest = hashlib.sha256(body).hexdigest()
    if payload.mode is PayloadMode.HASHED and payload.declared != digest:
        told = f"x-amz-content-sha256 {payload.declared}, the body's is {digest}"
        raise S3Refused(Reason.PAYLOAD_HASH, Fault.CONTENT_SHA256, payload.declared, digest, detail=told)
    deletes = read_bulk_delete(body, FORWARDED) if wire.deletes is None else wire.deletes
    if isinstance(deletes, Refused):
        raise anew(deletes)
    if rules.operations is _TABLE:
        named = next((each for each in deletes.objects if each.conditions), None)
        if named is not None:
            condition = named.conditions[0][0]
            raise by_key_alone(condition, f"{condition} of key {named.key[:256]!r}")
    return deletes, digest


def _unframed(headers: tuple[tuple[str, str], ...], payload: Payload) -> tuple[tuple[str, str], ...]:
    """Return the headers of a framed body as those of the data in it."""
    kept = []
    for name, value in headers:
        lower = name.lower()
        if lower in ("x-amz-decoded-content-length", "x-amz-trailer"):
            continue
        # Without the trailer that it speaks of, stores refuse it.
        if payload.trailer and lower == "x-amz-sdk-checksum-algorithm":
            continue
        if lower == "content-encoding":
            value = without_framing(value)  # noqa: PLW2901
            if not value:
                continue
        kept.append((name, value))
    return tuple(kept)
