"""Name the header for which a request is refused: it is the caller's own, and is searched for only then."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from msgspec.structs import replace

from signproxy.errors import Refused
from signproxy.s3.codes import naming
from signproxy.s3.forwarded_headers import ForwardedHeaders, read_forwarded
from signproxy.s3.header_rules import Context
from signproxy.s3.hoisted import Headers, beside
from signproxy.s3.rules import Rules


def read_beside(headers: Headers, names: tuple[str, ...], hoisted: Headers) -> tuple[Headers, tuple[str, ...]]:
    """Return the headers of a request with those in its query. Raise Refused, which names one of the latter."""
    try:
        return beside(headers, names, hoisted)
    except Refused as refused:
        at = _first_refused(lambda count: beside((), (), hoisted[:count]), len(hoisted))
        raise naming(refused, hoisted[at][0]) from None


def refused_name(headers: Headers, names: tuple[str, ...], rules: Rules) -> str:
    """Return the header that may not be sent at all."""

    def first(count: int) -> ForwardedHeaders:
        return read_forwarded(headers[:count], names[:count], rules.operations)

    return names[_first_refused(first, len(names))]


def signed_headers(read: ForwardedHeaders, context: Context) -> Headers:
    """Return the headers that are signed. Raise Refused, which names the header."""
    try:
        return read.signed(context)
    except Refused as refused:
        plan = read.plan

        def first(count: int) -> Headers:
            return replace(read, plan=replace(plan, signed=plan.signed[:count])).signed(context)

        at, *_ = plan.signed[_first_refused(first, len(plan.signed))]
        raise naming(refused, read.names[at]) from None


def _first_refused(read: Callable[[int], object], count: int) -> int:
    """Return which of several headers is refused; `read` reads the first so many of them."""

    def is_refused(first: int) -> bool:
        try:
            read(first)
        except Refused:
            return True
        return False

    return bisect_left(range(1, count), True, key=is_refused)
