"""Hold an S3 request as the listener hands it on, and read of it what is asked before it is classified."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.bulk_delete import BulkDelete
from signproxy.s3.forwarded_operations import MAX_BUCKETS, find_of_service
from signproxy.s3.operation import Operation
from signproxy.s3.query import parse_query
from signproxy.s3.uri import decode_once

NO_PARAMETERS: dict[str, str] = {}

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


class ServiceRequest(NamedTuple):
    """A request that addresses no bucket."""

    operation: Operation
    prefix: str | None
    after: str
    """The last bucket that was told before."""
    most: int


def service_operation(wire: ForwardWire) -> ServiceRequest:
    """Return what is asked of the service; only ListBuckets is served."""
    parameters = parameters_of(wire.raw_query)
    operation = find_of_service(wire.method, parameters)
    most = int(parameters.get("max-buckets", MAX_BUCKETS))
    return ServiceRequest(operation, parameters.get("prefix"), parameters.get("continuation-token", ""), most)


def is_bulk_delete(raw_key: str, raw_query: str | None) -> bool:
    """Whether a POST is judged by its body, which the listener then reads whole."""
    if raw_key or not raw_query:
        return False
    return any(_decoded_name(part) == "delete" for part in raw_query.split("&"))


def decoded_key(wire: ForwardWire) -> str:
    """Return the addressed key, decoded once; empty on bucket level."""
    raw = wire.raw_key
    return decode_once(raw) if "%" in raw else raw


def list_prefix(wire: ForwardWire) -> str:
    """Return the prefix that a list asks for; empty where it asks for none, or is none."""
    if wire.raw_key or not wire.raw_query:
        return ""
    return parameters_of(wire.raw_query).get("prefix", "")


def parameters_of(raw_query: str | None) -> dict[str, str]:
    """Return the parameters of a query, decoded once; refuse what two readers may understand differently."""
    if not raw_query:
        # `?` alone is a query without parameters, which some clients send.
        return NO_PARAMETERS
    if not _RAW_QUERY.fullmatch(raw_query):
        raise Refused(Reason.QUERY_MALFORMED, f"query {raw_query[:256]!r}")
    return parse_query(raw_query)


def _decoded_name(part: str) -> str:
    try:
        return decode_once(part.partition("=")[0].replace("+", " "))
    except Refused:
        # The reader of the whole query refuses it.
        return ""
