"""Classify a request that a client wants signed: what it addresses, what it does, and its canonical form."""

from __future__ import annotations

import hashlib

from signproxy.errors import Reason, Refused, anew
from signproxy.s3.bulk_delete import read_bulk_delete
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.copy_source import parse_copy_source
from signproxy.s3.header_rules import Context
from signproxy.s3.headers import UNSIGNED_PAYLOAD, plan_for, read_headers
from signproxy.s3.key import check_key, check_prefix
from signproxy.s3.operation import Operation
from signproxy.s3.operations import BARE, COPIES, Level, find_operation
from signproxy.s3.query import parse_query
from signproxy.s3.request import BulkRequest, S3Request, WireRequest
from signproxy.s3.storage import AddressedOrigin, EndpointIndex, Storage
from signproxy.s3.uri import PLAIN, PLAIN_LENGTH, decode_once, is_canonical, split_uri

_NO_PARAMETERS: dict[str, str] = {}

# Looking a member up in its class calls Python code; the hot path does without.
_BUCKET, _OBJECT, _SERVICE = Level.BUCKET, Level.OBJECT, Level.SERVICE
_DELETE_OBJECTS = Operation.DELETE_OBJECTS


def classify(endpoints: EndpointIndex, wire: WireRequest) -> S3Request:
    """Return the request that S3 would see, or refuse it; nothing here depends on who asks.

    The steps follow the order of `errors.Check`: endpoint, uri, operation, headers, body.
    """
    uri = wire.uri
    plain = PLAIN.fullmatch(uri) if len(uri) <= PLAIN_LENGTH else None
    spelled, raw_path, raw_query = split_uri(uri) if plain is None else (plain[1], plain[2], None)
    if raw_query == "":
        # A mark with nothing behind it asks for nothing: it is signed, and sent, without.
        uri, raw_query = uri[:-1], None
    origin = endpoints.find(spelled)
    if origin is None:
        raise Refused(Reason.ENDPOINT_UNKNOWN, f"origin {spelled!r}")
    bucket, raw_key, level = _address(origin.bucket, raw_path)
    storage = _storage(origin, bucket, level)
    if wire.region != storage.region:
        raise Refused(Reason.REGION_MISMATCH, f"region {wire.region!r}, storage {storage.name!r} is {storage.region!r}")

    prefix = query = ""
    if plain is not None and raw_key:
        key, path = raw_key, raw_path
        operation = BARE.get(wire.method) or find_operation(wire.method, level, _NO_PARAMETERS, storage.opt_ins)
    else:
        parameters = _NO_PARAMETERS if raw_query is None else parse_query(raw_query)
        key = decode_once(raw_key)
        if raw_key:
            check_key(key)
        operation = find_operation(wire.method, level, parameters, storage.opt_ins)
        if level is _BUCKET and operation is not _DELETE_OBJECTS:
            # What is left on the bucket are lists.
            prefix = parameters["prefix"]
            check_prefix(prefix)
        path = _canonical(raw_path, raw_key, key)
        query = canonical_query(parameters.items())

    plan = plan_for(wire.headers)
    copy_source = None
    if plan.copy_source is not None:
        operation = COPIES.get(operation, operation)
    read = read_headers(wire.headers, plan, origin.host, Context(wire.method, operation, storage))
    if plan.copy_source is not None:
        copy_source = parse_copy_source(wire.headers[plan.copy_source][0], versions=storage.opt_ins.recover)

    keys: tuple[str, ...] = ()
    payload = read.payload
    if operation is _DELETE_OBJECTS:
        keys, digest = _bulk_delete(wire)
        # Java would lay a declared hash back over the answer's; unsigned, the key list could be swapped.
        if plan.payload is not None and payload != digest:
            reason = Reason.DELETE_UNBOUND if payload == UNSIGNED_PAYLOAD else Reason.PAYLOAD_HASH
            raise Refused(reason, f"x-amz-content-sha256 {payload!r} is not the hash of the body")
        payload = digest
    elif wire.body:
        raise Refused(Reason.BODY_UNEXPECTED, f"{len(wire.body)} characters with {operation.s3_name}")
    return S3Request(
        operation,
        wire.method,
        uri,
        storage,
        bucket,
        key,
        origin.host,
        path,
        query,
        read.signed,
        payload,
        prefix,
        keys,
        copy_source,
        read.conditional,
    )


def _address(named: str | None, raw_path: str) -> tuple[str, str, Level]:
    """Return bucket, raw key and level; the path is split before anything is decoded."""
    if named is not None:
        return named, raw_path[1:], _OBJECT if len(raw_path) > 1 else _BUCKET
    bucket, _, raw_key = raw_path[1:].partition("/")
    if not bucket and not raw_key:
        return "", "", _SERVICE
    return bucket, raw_key, _OBJECT if raw_key else _BUCKET


def _canonical(raw_path: str, raw_key: str, key: str) -> str:
    """Return the path as S3 signs it; the part before the key holds no escapes, and an empty path is a slash."""
    if is_canonical(raw_path):
        return raw_path or "/"
    return canonical_path(raw_path[: len(raw_path) - len(raw_key)] + key)


def _storage(origin: AddressedOrigin, bucket: str, level: Level) -> Storage:
    storage = origin.storages.get(bucket)
    if storage is None and level is _SERVICE:
        # No bucket is addressed; any storage of the origin will do to refuse the operation by its name.
        storage = next(iter(origin.storages.values()))
    if storage is None:
        raise Refused(Reason.ENDPOINT_UNKNOWN, f"bucket {bucket!r} is none of the storage's at host {origin.host!r}")
    return storage


def _bulk_delete(wire: WireRequest) -> tuple[tuple[str, ...], str]:
    """Return the keys of a bulk delete and the hash that binds them."""
    if not wire.body:
        raise Refused(Reason.DELETE_WITHOUT_BODY)
    content = content_of(wire.body)
    deletes = wire.deletes if isinstance(wire, BulkRequest) else read_bulk_delete(content)
    if isinstance(deletes, Refused):
        raise anew(deletes)
    return deletes.keys, hashlib.sha256(content).hexdigest()


def content_of(body: str) -> bytes:
    """Return the bytes of a body that a client shows."""
    try:
        return body.encode()
    except UnicodeEncodeError:
        raise Refused(Reason.DELETE_BODY, "the body is not text that UTF-8 can hold") from None
