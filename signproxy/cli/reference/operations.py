"""Write the page of S3 operations and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from signproxy.cli.reference.markdown import code, codes, table
from signproxy.errors import Refused
from signproxy.s3 import header_rules
from signproxy.s3.operation import Operation
from signproxy.s3.operations import COPIES, SHAPES, Level, Shape, find_operation
from signproxy.s3.storage import OptIns
from signproxy.s3.unsigned_operations import UNSIGNED

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

_HEADERS = """\

## Headers

Names are compared without regard to case. A header that is not listed is refused: it might change what the store does.
"""

_ENABLED = [name for name in OptIns.__struct_fields__ if OptIns.__annotations__[name] == "bool"]
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
