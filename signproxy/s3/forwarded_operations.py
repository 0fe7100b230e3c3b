"""Find the S3 operation of a request that is to be forwarded: the table of the sign way, and what volumes open."""

from __future__ import annotations

import re
from collections.abc import Mapping

from signproxy.errors import Reason, Refused
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.operation import Operation
from signproxy.s3.operations import SHAPES, VALUES, Level, Shape, match_shape, names, refusal_of
from signproxy.s3.rules import OperationsAllowed
from signproxy.s3.storage import OptIns
from signproxy.s3.unsigned_operations import UNSIGNED

_TABLE = OperationsAllowed.TABLE
_ALL = OperationsAllowed.ALL
_OBJECT = Level.OBJECT
_BUCKET = Level.BUCKET

_LISTING = "delimiter encoding-type max-keys"

# What only a proxy can judge, in tables too.
_TABLE_SHAPES: dict[tuple[str, Level], tuple[Shape, ...]] = {
    **SHAPES,
    ("HEAD", _BUCKET): (Shape(Operation.HEAD_BUCKET, names("")),),
    ("GET", _BUCKET): (
        *SHAPES["GET", _BUCKET],
        Shape(Operation.GET_BUCKET_LOCATION, names("location")),
        Shape(Operation.LIST_OBJECTS, names("prefix"), names(f"{_LISTING} marker")),
    ),
    ("DELETE", _OBJECT): (*SHAPES["DELETE", _OBJECT], Shape(Operation.DELETE_OBJECT_TAGGING, names("tagging"))),
}

_READING = names(
    """
    versionId partNumber response-cache-control response-content-disposition response-content-encoding
    response-content-language response-content-type response-expires
    """
)
_VERSION = names("versionId")

# In a volume, objects have versions and headers of their own, and a list may be of the whole bucket.
_VOLUME_SHAPES: dict[tuple[str, Level], tuple[Shape, ...]] = {
    ("GET", _OBJECT): (
        Shape(Operation.GET_OBJECT, names(""), _READING),
        Shape(Operation.LIST_PARTS, names("uploadId"), names("max-parts part-number-marker")),
        Shape(Operation.GET_OBJECT_TAGGING, names("tagging"), _VERSION),
        Shape(Operation.GET_OBJECT_ATTRIBUTES, names("attributes"), _VERSION),
    ),
    ("HEAD", _OBJECT): (Shape(Operation.HEAD_OBJECT, names(""), _READING),),
    ("PUT", _OBJECT): (
        Shape(Operation.PUT_OBJECT, names("")),
        Shape(Operation.UPLOAD_PART, names("partNumber uploadId")),
        Shape(Operation.PUT_OBJECT_TAGGING, names("tagging"), _VERSION),
    ),
    ("POST", _OBJECT): SHAPES["POST", _OBJECT],
    ("DELETE", _OBJECT): (
        Shape(Operation.DELETE_OBJECT, names(""), _VERSION),
        Shape(Operation.ABORT_MULTIPART_UPLOAD, names("uploadId")),
        Shape(Operation.DELETE_OBJECT_TAGGING, names("tagging"), _VERSION),
    ),
    ("HEAD", _BUCKET): (Shape(Operation.HEAD_BUCKET, names("")),),
    ("GET", _BUCKET): (
        Shape(Operation.GET_BUCKET_LOCATION, names("location")),
        Shape(
            Operation.LIST_OBJECTS_V2,
            names("list-type"),
            names(f"{_LISTING} continuation-token fetch-owner metadata prefix start-after"),
        ),
        Shape(
            Operation.LIST_OBJECT_VERSIONS,
            names("versions"),
            names(f"{_LISTING} key-marker metadata prefix version-id-marker"),
        ),
        Shape(
            Operation.LIST_MULTIPART_UPLOADS,
            names("uploads"),
            names("delimiter encoding-type key-marker max-uploads prefix upload-id-marker"),
        ),
        Shape(Operation.LIST_OBJECTS, names(""), names(f"{_LISTING} marker prefix")),
    ),
    ("POST", _BUCKET): SHAPES["POST", _BUCKET],
}
# The store says what it thinks of any other value. An upload without an id is a plain write to some stores.
_VOLUME_VALUES: dict[str, re.Pattern[str]] = {"uploadId": VALUES["uploadId"]}

_LIST_BUCKETS = Shape(Operation.LIST_BUCKETS, names(""), names("bucket-region continuation-token max-buckets prefix"))

MAX_BUCKETS = 10_000
_MOST_BUCKETS = re.compile(r"[0-9]{1,5}")

# They hand out credentials, or move another object than the one that is addressed.
_NEVER = frozenset({"CreateSession", "RenameObject"})
_OF_THEIR_OWN = frozenset(operation.s3_name for operation in Operation)
_OF_OTHERS = names("continuation-token id versionId x-id")
# MinIO's clients ask so for the rules of a life cycle; to other stores it says nothing.
_OF_LIFECYCLE = names("withUpdatedAt")
_BARE_TOO = names("x-id")
_READS = ("GET", "HEAD")
_UPLOAD_PART = Operation.UPLOAD_PART
_PART = VALUES["partNumber"]


def find_forwarded(
    method: str, level: Level, parameters: Mapping[str, str], allowed: OperationsAllowed, opt_ins: OptIns
) -> tuple[Operation, str]:
    """Return the operation as it is without a copy source, and S3's name of one that has no member of its own."""
    if allowed is _TABLE:
        return _in_table(method, level, parameters, opt_ins), ""
    operation = match_shape(_VOLUME_SHAPES.get((method, level), ()), parameters, _VOLUME_VALUES, _refusal_of_value)
    if operation is _UPLOAD_PART and not _PART.fullmatch(parameters["partNumber"]):
        raise _refusal_of_value(operation, "partNumber", parameters["partNumber"])
    if operation is not None:
        return operation, ""
    if allowed is _ALL:
        named = _other(method, level, parameters)
        if named:
            return Operation.OTHER_READ if method in _READS else Operation.OTHER_WRITE, named
    raise refusal_of(method, level, parameters)


def find_of_service(method: str, parameters: Mapping[str, str]) -> Operation:
    """Return the operation of a request that addresses no bucket."""
    operation = match_shape((_LIST_BUCKETS,), parameters, {}) if method == "GET" else None
    if operation is None:
        raise refusal_of(method, Level.SERVICE, parameters)
    most = parameters.get("max-buckets")
    if most is not None and not (_MOST_BUCKETS.fullmatch(most) and 1 <= int(most) <= MAX_BUCKETS):
        told = f"ListBuckets with max-buckets={most[:32]!r}"
        raise S3Refused(Reason.QUERY_MALFORMED, Fault.MAX_BUCKETS, "max-buckets", most, detail=told)
    return operation


def _in_table(method: str, level: Level, parameters: Mapping[str, str], opt_ins: OptIns) -> Operation:
    operation = match_shape(_TABLE_SHAPES.get((method, level), ()), parameters, VALUES, _refusal_of_value)
    if operation is None:
        if level is _BUCKET and method == "GET" and "prefix" not in parameters:
            whole = match_shape(_VOLUME_SHAPES["GET", _BUCKET], parameters, {})
            if whole is not None:
                raise Refused(Reason.LIST_PREFIX, f"{whole.s3_name} without a prefix")
        raise refusal_of(method, level, parameters)
    # Of uploads only those are listed whose keys the prefix leads to, and a proxy sees the answer.
    needed = "" if operation is Operation.LIST_MULTIPART_UPLOADS else operation.opt_in
    if needed and not getattr(opt_ins, needed):
        raise Refused(Reason.OPERATION_REFUSED, f"{operation.s3_name} needs the storage's opt-in {needed!r}")
    return operation


def _refusal_of_value(operation: Operation, name: str, value: str) -> Refused:
    """Return the refusal of an operation for the value of a parameter, as S3 tells it where it has words for it."""
    told = f"{operation.s3_name} with {name}={value!r}"
    if name == "uploadId" and value:
        return Refused(Reason.UPLOAD_ID, told)
    if name == "partNumber":
        return S3Refused(Reason.OPERATION_UNKNOWN, Fault.PART_NUMBER, name, value, detail=told)
    return Refused(Reason.OPERATION_UNKNOWN, told)


def _other(method: str, level: Level, parameters: Mapping[str, str]) -> str:
    """Return the name of an operation whose query names are exactly S3's; empty for any other."""
    asked = parameters.keys()
    for name, markers in UNSIGNED.get((method, level.value), ()):
        besides = _OF_OTHERS | _OF_LIFECYCLE if "lifecycle" in markers else _OF_OTHERS
        if set(markers) <= asked <= (besides.union(markers) if markers else _BARE_TOO):
            first = name.partition(" or ")[0]
            return "" if first in _NEVER or first in _OF_THEIR_OWN else first
    return ""
