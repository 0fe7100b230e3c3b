"""Write the page of S3 operations and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from signproxy.errors import Refused
from signproxy.s3 import header_rules
from signproxy.s3.forwarded_operations import find_forwarded, find_of_service
from signproxy.s3.operation import Operation
from signproxy.s3.operations import COPIES, SHAPES, Level, Shape, find_operation
from signproxy.s3.rules import OperationsAllowed
from signproxy.s3.storage import OptIns
from signproxy.s3.unsigned_operations import UNSIGNED
from tools.docs.markdown import code, codes, table

_INTRODUCTION = """\
# S3 operations

What is signed is an allow-list. An operation is found by its method, by what the path addresses, by the exact set of
its query parameters, and by the header `x-amz-copy-source`; never by the method alone. `x-id`, which some SDKs append,
counts as no parameter. Any other parameter makes the request unknown, and it is refused.

All signing needs `TABLE_REMOTE_SIGN` besides the privilege of the table.

## Signed
"""
_OPT_INS = """\

## Signed where the storage opts in

Each is off until the policy names it in the storage's `opt_ins`.
"""
_NEVER = """\

## Never signed

These are recognised, so that a refusal can name them, and refused with `operation_refused`. Combinations that are none
of S3's operations are refused with `operation_unknown`.
"""

_FORWARDED = """\

## Through the S3 listener

What becomes of each operation in [transparent mode](transparent.md), for a caller who holds every privilege: in a
table, in a volume of `operations: object`, and in one of `operations: all`. A code is the reason of the refusal; all of
them are 403 `AccessDenied` to the client, and in the audit event. Operations that the sign way has as opt-ins need them
in tables here too, except ListMultipartUploads.
"""

_HEADERS = """\

## Headers

Names are compared without regard to case. A header that is not listed is refused: it might change what the store does.
"""

_ENABLED = [name for name in OptIns.__struct_fields__ if OptIns.__annotations__[name] == "bool"]
_WITH_PREFIX = {"ListObjects": ("prefix",)}
"""Of which a part alone is served in a table, and what makes it one."""
_COPIED = {operation.s3_name for operation in COPIES.values()}
_SAMPLES = {"list-type": "2", "prefix": "p/", "uploadId": "u", "partNumber": "1"}


class Row(NamedTuple):
    """A signed operation, and the request that is one."""

    operation: Operation
    request: str
    optional: tuple[str, ...]
    opt_in: str


def page() -> str:
    """Return the page."""
    rows = list(rows_of_signed())
    signed = [_cells(row)[:-1] for row in rows if not row.opt_in]
    opted = [_cells(row) for row in rows if row.opt_in]
    titles = ("operation", "request", "further parameters", "access", "privilege")
    return "".join(
        (
            f"{_INTRODUCTION}\n",
            table(titles, signed),
            f"{_OPT_INS}\n",
            table((*titles, "opt-in"), opted),
            f"{_NEVER}\n",
            table(("operation", "request"), _never({row.operation.s3_name for row in rows})),
            f"{_FORWARDED}\n",
            table(("operation", "request", "table", "`object`", "`all`"), _forwarded()),
            f"{_HEADERS}\n",
            table(("treatment", "headers"), _headers()),
        )
    )


def rows_of_signed() -> Iterator[Row]:
    """Yield every operation that can be signed, in the order of the code."""
    by_operation = {row.operation: row for row in _rows()}
    for operation in Operation:
        if not operation.forward_only:
            yield by_operation[operation]


def _rows() -> Iterator[Row]:
    for (method, level), shapes in SHAPES.items():
        for shape in shapes:
            request = _request(method, level.value, sorted(shape.required))
            optional = tuple(sorted(shape.optional))
            opt_in = _opt_in(method, level, shape)
            yield Row(shape.operation, code(request), optional, opt_in)
            copy = COPIES.get(shape.operation)
            if copy is not None:
                yield Row(copy, f"{code(request)} with `x-amz-copy-source`", optional, opt_in)


def _opt_in(method: str, level: Level, shape: Shape) -> str:
    """Ask the code itself which opt-in lets an operation pass."""
    parameters = {name: _SAMPLES.get(name, "") for name in shape.required}
    for name in ("", *_ENABLED):
        opt_ins = msgspec.structs.replace(OptIns(), **({name: True} if name else {}))
        try:
            find_operation(method, level, parameters, opt_ins)
        except Refused:
            continue
        return name
    raise LookupError(f"no opt-in lets {shape.operation.s3_name} pass")


def _cells(row: Row) -> tuple[str, ...]:
    operation = row.operation
    privilege = "TABLE_WRITE_DATA" if operation.needs_write else "TABLE_READ_DATA"
    return (
        operation.s3_name,
        row.request,
        codes(row.optional),
        operation.access.value,
        code(privilege),
        code(row.opt_in),
    )


def _never(signed: set[str]) -> Iterator[tuple[str, str]]:
    rows = [
        (name, code(_request(method, level, markers)))
        for (method, level), operations in UNSIGNED.items()
        for name, markers in operations
        if name not in signed
    ]
    yield from sorted(rows)


def _forwarded() -> Iterator[tuple[str, ...]]:
    """Yield what the listener makes of each operation, as the code itself says."""
    for name, method, level, names in sorted(_every_operation()):
        request = code(_request(method, level, names))
        if name in _COPIED:
            request += " with `x-amz-copy-source`"
        parameters = {each: _SAMPLES.get(each, "") for each in names}
        yield name, request, *_outcomes(method, Level(level), parameters)


def _every_operation() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield each operation of S3 with method, level and the query names that it is told by."""
    known = set()
    for (method, level), shapes in SHAPES.items():
        for shape in shapes:
            for operation in filter(None, (shape.operation, COPIES.get(shape.operation))):
                known.add(operation.s3_name)
                yield operation.s3_name, method, level.value, tuple(sorted(shape.required))
    for (method, level_name), operations in UNSIGNED.items():
        for name, markers in operations:
            if name not in known:
                yield name, method, level_name, _WITH_PREFIX.get(name, markers)


def _outcomes(method: str, level: Level, parameters: dict[str, str]) -> Iterator[str]:
    for allowed in OperationsAllowed:
        try:
            if level is Level.SERVICE:
                find_of_service(method, parameters)
            else:
                find_forwarded(method, level, parameters, allowed, OptIns())
        except Refused as refused:
            yield code(refused.reason.code)
        else:
            yield "served"


def _headers() -> Iterator[tuple[str, str]]:
    yield "signed", codes([*sorted(header_rules.SIGNED), "x-amz-content-sha256", "x-amz-meta-*"])
    yield "signed if the value is allowed, which may need an opt-in", codes(sorted(header_rules.CHECKS))
    prefixes = [f"{prefix}*" for prefix in header_rules.UNSIGNED_PREFIXES]
    yield "accepted, not signed", codes([*sorted(header_rules.UNSIGNED), *sorted(prefixes)])
    yield "refused, for only the signer sets them", codes(sorted(header_rules.CREDENTIALS))
    yield "must equal the URI's host", codes(["host"])


def _request(method: str, level: str, names: list[str] | tuple[str, ...]) -> str:
    path = {"service": "/", "bucket": "/bucket", "object": "/bucket/key"}[level]
    query = "&".join("list-type=2" if name == "list-type" else name for name in names)
    return f"{method} {path}{'?' if query else ''}{query}"
