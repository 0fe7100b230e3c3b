"""Find the S3 operation of a request by method, path level and its exact set of query names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.s3.operation import Operation
from signproxy.s3.storage import OptIns
from signproxy.s3.unsigned_operations import name_of

METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


class Level(Enum):
    """What the path of a request addresses."""

    SERVICE = "service"
    BUCKET = "bucket"
    OBJECT = "object"


# Looking a member up in its class calls Python code; the hot path does without.
_OBJECT = Level.OBJECT


class Shape(NamedTuple):
    """The query of an operation: names that must be there, names that may be."""

    operation: Operation
    required: frozenset[str]
    optional: frozenset[str] = frozenset()


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Without a query and with a key: nearly every request of an engine.
BARE = {
    "GET": Operation.GET_OBJECT,
    "HEAD": Operation.HEAD_OBJECT,
    "PUT": Operation.PUT_OBJECT,
    "DELETE": Operation.DELETE_OBJECT,
}

SHAPES: dict[tuple[str, Level], tuple[Shape, ...]] = {
    ("GET", Level.OBJECT): (
        Shape(Operation.GET_OBJECT, names("")),
        Shape(Operation.LIST_PARTS, names("uploadId"), names("max-parts part-number-marker")),
        Shape(Operation.GET_OBJECT_TAGGING, names("tagging")),
    ),
    ("HEAD", Level.OBJECT): (Shape(Operation.HEAD_OBJECT, names("")),),
    ("PUT", Level.OBJECT): (
        Shape(Operation.PUT_OBJECT, names("")),
        Shape(Operation.UPLOAD_PART, names("partNumber uploadId")),
        Shape(Operation.PUT_OBJECT_TAGGING, names("tagging")),
    ),
    ("POST", Level.OBJECT): (
        Shape(Operation.CREATE_MULTIPART_UPLOAD, names("uploads")),
        Shape(Operation.COMPLETE_MULTIPART_UPLOAD, names("uploadId")),
    ),
    ("DELETE", Level.OBJECT): (
        Shape(Operation.DELETE_OBJECT, names("")),
        Shape(Operation.ABORT_MULTIPART_UPLOAD, names("uploadId")),
    ),
    ("GET", Level.BUCKET): (
        Shape(
            Operation.LIST_OBJECTS_V2,
            names("list-type prefix"),
            names("continuation-token delimiter encoding-type fetch-owner max-keys start-after"),
        ),
        Shape(
            Operation.LIST_OBJECT_VERSIONS,
            names("versions prefix"),
            names("delimiter encoding-type key-marker max-keys version-id-marker"),
        ),
        Shape(
            Operation.LIST_MULTIPART_UPLOADS,
            names("uploads prefix"),
            names("delimiter encoding-type key-marker max-uploads upload-id-marker"),
        ),
    ),
    ("POST", Level.BUCKET): (Shape(Operation.DELETE_OBJECTS, names("delete")),),
}

COPIES = {Operation.PUT_OBJECT: Operation.COPY_OBJECT, Operation.UPLOAD_PART: Operation.UPLOAD_PART_COPY}
"""What an operation becomes if its headers name a copy source."""


# `name` and `name=` are the same marker; a marker with a value is no spelling that any client uses.
_MARKER = re.compile(r"")
_NUMBER = re.compile(r"[0-9]{1,10}")
VALUES: dict[str, re.Pattern[str]] = {
    "delete": _MARKER,
    "uploads": _MARKER,
    "tagging": _MARKER,
    "versions": _MARKER,
    "list-type": re.compile(r"2"),
    "encoding-type": re.compile(r"url"),
    "fetch-owner": re.compile(r"true|false"),
    "max-keys": _NUMBER,
    "max-parts": _NUMBER,
    "max-uploads": _NUMBER,
    "part-number-marker": _NUMBER,
    "partNumber": re.compile(r"[1-9][0-9]{0,3}|10000"),
    "uploadId": re.compile(r"[!-~]+"),
    "x-id": re.compile(r"[A-Za-z0-9]+"),
}


def find_operation(method: str, level: Level, parameters: Mapping[str, str], opt_ins: OptIns) -> Operation:
    """Return the operation as it is without a copy source, or refuse it by name."""
    if not parameters and level is _OBJECT:
        operation = BARE.get(method)
        if operation is not None:
            return operation
    else:
        operation = match_shape(SHAPES.get((method, level), ()), parameters, VALUES)
    if operation is None:
        raise refusal_of(method, level, parameters)
    if operation.opt_in and not getattr(opt_ins, operation.opt_in):
        raise Refused(Reason.OPERATION_REFUSED, f"{operation.s3_name} needs the storage's opt-in {operation.opt_in!r}")
    return operation


def _refusal_of_value(operation: Operation, name: str, value: str) -> Refused:
    return Refused(Reason.OPERATION_UNKNOWN, f"{operation.s3_name} with {name}={value!r}")


def match_shape(
    shapes: Iterable[Shape],
    parameters: Mapping[str, str],
    values: Mapping[str, re.Pattern[str]],
    refusal: Callable[[Operation, str, str], Refused] = _refusal_of_value,
) -> Operation | None:
    """Return the operation whose names these are; refuse it for a value that none of its clients sends."""
    # The Go, JavaScript and Rust SDKs append x-id to any request.
    asked = parameters.keys() - {"x-id"}
    for shape in shapes:
        if shape.required <= asked <= shape.required | shape.optional:
            for name, value in parameters.items():
                pattern = values.get(name)
                if pattern is not None and not pattern.fullmatch(value):
                    raise refusal(shape.operation, name, value)
            return shape.operation
    return None


def refusal_of(method: str, level: Level, parameters: Mapping[str, str]) -> Refused:
    """Return the refusal of a request that is no operation of the allow-list, by the name that S3 has for it."""
    if method not in METHODS:
        return Refused(Reason.METHOD_UNKNOWN, f"method {method!r}")
    asked = f"{method} on {level.value} level, query names: {', '.join(sorted(parameters)) or 'none'}"
    if (method, level) == ("GET", Level.BUCKET) and "list-type" in parameters and "prefix" not in parameters:
        return Refused(Reason.LIST_PREFIX, f"no prefix: {asked}")
    name = name_of(method, level.value, parameters.keys())
    if name is not None:
        return Refused(Reason.OPERATION_REFUSED, f"{name}: {asked}")
    return Refused(Reason.OPERATION_UNKNOWN, asked)
