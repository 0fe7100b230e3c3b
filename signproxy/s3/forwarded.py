"""Classify a request that a client sends to be forwarded: what it addresses, what it does, and how it is sent on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused, anew
from signproxy.s3.bulk_delete import BulkDelete, DeleteRules, by_key_alone, read_bulk_delete
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.codes import naming
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.forward_wire import NO_PARAMETERS, ForwardWire, parameters_of
from signproxy.s3.forwarded_headers import FORCE_DELETE, ForwardedHeaders, read_forwarded
from signproxy.s3.forwarded_operations import find_forwarded
from signproxy.s3.header_rules import Context
from signproxy.s3.hoisted import parted
from signproxy.s3.key import check_dot_segments, check_key, check_prefix, check_s3_key
from signproxy.s3.operation import Access, Operation
from signproxy.s3.operations import BARE, COPIES, Level
from signproxy.s3.outbound import Outbound, outbound_of
from signproxy.s3.payload import NOTHING_SAID, Carriage, Payload, PayloadMode, payload_of, without_framing
from signproxy.s3.refused_headers import read_beside, refused_name, signed_headers
from signproxy.s3.request import ObjectRef, S3Request
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules
from signproxy.s3.storage import Storage
from signproxy.s3.uri import decode_once, is_canonical

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


def addressed_by(host: str, target: str, base_domains: Collection[str]) -> tuple[str, str]:
    """Return bucket and key that a request's host and path name, with every byte as it was sent.

    The bucket is empty at the level of the service, the key at that of a bucket. Nothing is decoded here: a bucket's
    name needs no escapes, and a name that has some is no bucket's. Raise Refused for a path that names neither a bucket
    nor the service.
    """
    path = target.partition("?")[0]
    if base_domains:
        bucket = _bucket_of(host, base_domains)
        if bucket:
            return bucket, path[1:]
    bucket, _, raw_key = path[1:].partition("/")
    if not bucket and path != "/":
        raise Refused(Reason.KEY_EMPTY_SEGMENT, f"path {path!r} names no bucket")
    return bucket, raw_key


def _bucket_of(host: str, base_domains: Collection[str]) -> str:
    """Return what stands before a base domain; nothing where the host is one itself, or lies below none."""
    # A literal IPv6 address has no dots that a base domain could follow, for those have letters in their last part.
    name = host.partition(":")[0].rstrip(".").lower()
    # Buckets may have dots, so each of the parents may be a base domain.
    dot = name.find(".")
    while dot >= 0:
        if name[dot + 1 :] in base_domains:
            return name[:dot]
        dot = name.find(".", dot + 1)
    return ""


class _KnownBucket(msgspec.Struct, frozen=True, gc=False):
    """The way to a bucket of a storage. Holding the storage keeps its identity from reuse."""

    storage: Storage
    outbound: Outbound
    folder: str
    """What the path of every key begins with."""


_BUCKETS_KEPT = 1024
"""Where clients make their own, their names are the clients' to choose."""
_buckets: dict[tuple[int, str], _KnownBucket] = {}


def bucket_unknown(bucket: str, told: str) -> Refused:
    """Return the refusal of a bucket that is not for the caller; what cannot be the name of one is told as that."""
    told = f"bucket {bucket[:256]!r}: {told}"
    if _PROPER_NAME.fullmatch(bucket):
        return Refused(Reason.ENDPOINT_UNKNOWN, told)
    return S3Refused(Reason.ENDPOINT_UNKNOWN, Fault.BUCKET_NAME, bucket, detail=told)


def classify_forwarded(storage: Storage, wire: ForwardWire, rules: Rules) -> Forwardable:
    """Return the request that the store would see, or refuse it; nothing here depends on who asks.

    The steps follow the order of `errors.Check`: endpoint, uri, operation, headers, body.
    """
    bucket, raw_key, raw_query = wire.bucket, wire.raw_key, wire.raw_query
    known = _buckets.get((id(storage), bucket))
    if known is None or known.storage is not storage:
        known = _known_bucket(storage, bucket)
    outbound = known.outbound
    path = canonical = known.folder + raw_key if raw_key else outbound.path(bucket, "")
    key = raw_key
    if raw_key and (len(raw_key) > _PLAIN_LENGTH or not _PLAIN_KEY.fullmatch(raw_key)):
        key = _key(raw_key, storage, rules)
        canonical = path if is_canonical(path) else canonical_path(known.folder + key)
    parameters = NO_PARAMETERS if raw_query is None else parameters_of(raw_query)
    operation, named = BARE.get(wire.method) if raw_key and not parameters else None, ""
    if operation is None:
        level = _OBJECT if raw_key else _BUCKET
        operation, named = find_forwarded(wire.method, level, parameters, rules.operations, storage.opt_ins)
    is_list = operation.access is _LIST and operation is not _LIST_PARTS
    prefix = _prefix(parameters, storage, rules) if is_list else ""

    hoisted = wire.hoisted
    headers, names = read_beside(wire.headers, wire.names, hoisted) if hoisted else (wire.headers, wire.names)
    try:
        read = read_forwarded(headers, names, rules.operations)
    except Refused as refused:
        raise naming(refused, refused_name(headers, names, rules)) from None
    plan = read.plan
    copy_source, signed, payload = _NOT_SAID
    if plan.signed or plan.places or wire.payload:
        operation, (copy_source, signed, payload) = _said(read, wire, operation, storage)
    sent, content, in_query = read.sent, payload.sent, ""
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
    query = canonical_query(parameters.items()) if parameters else ""
    keys = () if deletes is None else deletes.keys
    source = None if copy_source is None else _source(copy_source, storage, rules)
    is_conditional = bool(plan.conditions) and read.is_conditional()
    uri = f"{outbound.scheme}://{outbound.host}{target}"
    request = S3Request(
        operation, wire.method, uri, storage, bucket, key, outbound.host, canonical, query, signed, content, prefix,
        keys, source, is_conditional, named,
    )  # fmt: skip
    return Forwardable(request, target, sent, payload.mode, payload, outbound, in_query, deletes)


class _Said(NamedTuple):
    """What the headers of a request say of it."""

    copy_source: str | None
    signed: tuple[tuple[str, str], ...]
    payload: Payload


_NOT_SAID = _Said(None, (), NOTHING_SAID)
"""Of headers that are only handed on, as most are."""


def _said(read: ForwardedHeaders, wire: ForwardWire, operation: Operation, storage: Storage) -> tuple[Operation, _Said]:
    """Return the operation that it is with its copy source, and what else its headers say."""
    if wire.raw_key and read.value(FORCE_DELETE) is not None:
        raise naming(Refused(Reason.HEADER_REFUSED, f"header {FORCE_DELETE!r} with a key"), FORCE_DELETE)
    copy_source = read.value("x-amz-copy-source")
    operation = operation if copy_source is None else COPIES.get(operation, operation)
    signed = signed_headers(read, Context(wire.method, operation, storage)) if read.plan.signed else ()
    payload = payload_of(
        wire.payload or read.value("x-amz-content-sha256") or "",
        read.value("content-encoding") or "",
        read.value("x-amz-trailer") or "",
        read.value("x-amz-decoded-content-length"),
        operation,
        storage,
    )
    return operation, _Said(copy_source, signed, payload)


def _known_bucket(storage: Storage, bucket: str) -> _KnownBucket:
    if bucket not in storage.buckets and not _BUCKET_NAME.fullmatch(bucket):
        raise bucket_unknown(bucket, "no name of a bucket")
    if len(_buckets) >= _BUCKETS_KEPT:
        _buckets.clear()
    outbound = outbound_of(storage, bucket)
    known = _buckets[id(storage), bucket] = _KnownBucket(storage, outbound, outbound.folder(bucket))
    return known


def _key(raw_key: str, storage: Storage, rules: Rules) -> str:
    if not _RAW[rules.keys].fullmatch(raw_key):
        raise Refused(Reason.URI_MALFORMED, f"key {raw_key[:256]!r} as sent")
    key = decode_once(raw_key)
    key_check(storage, rules.keys)(key)
    return key


def key_check(storage: Storage, keys: KeyRules) -> Callable[[str], None]:
    """Return what refuses keys that may not be addressed."""
    return check_key if keys is _STRICT else partial(check_s3_key, literal=storage.literal_keys)


def _prefix(parameters: Mapping[str, str], storage: Storage, rules: Rules) -> str:
    """Return the prefix of a list, or refuse it."""
    prefix = parameters.get("prefix", "")
    if rules.keys is _STRICT:
        # A list of a whole bucket is a volume's to allow.
        if prefix or rules.operations is _TABLE:
            check_prefix(prefix)
    elif not storage.literal_keys:
        try:
            check_dot_segments(prefix)
        except Refused as refusal:
            raise Refused(Reason.LIST_PREFIX, refusal.detail) from None
    return prefix


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
