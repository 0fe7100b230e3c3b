"""Judge the headers that an SDK moved into the query of a presigned URL, and write the query that they go on in.

To the caller's store they are parameters of a query, which it reads or does not: a checksum there is none of the body.
So they go on as parameters, written anew from what was judged, and are judged as the headers that a store may take them
for.
"""

from __future__ import annotations

from signproxy.errors import Reason, Refused
from signproxy.s3.canonical import encode_query_part

Headers = tuple[tuple[str, str], ...]
"""Names and values; the bytes of a value are the characters of latin-1."""

_COPY_SOURCE = "x-amz-copy-source"
_FRAMING = frozenset(("x-amz-decoded-content-length", "x-amz-trailer"))


def beside(headers: Headers, names: tuple[str, ...], hoisted: Headers) -> tuple[Headers, tuple[str, ...]]:
    """Return headers, and their names as spelled, with those that were moved into the query. Raise Refused."""
    for name, _ in hoisted:
        if name.lower() in _FRAMING:
            # It says how a body is framed: in a query, one reader would believe it and the other not.
            raise Refused(Reason.HEADER_REFUSED, f"{name!r} in a query")
    moved = tuple([(name.lower(), value) for name, value in hoisted])
    return headers + moved, names + tuple([name for name, _ in hoisted])


def parted(sent: Headers, signed: Headers, hoisted: Headers) -> tuple[Headers, Headers, str]:
    """Return what is sent and signed without what was moved, and the parameters that this is instead.

    What is judged as a copy has to be one to each store: there they go on as headers, and there are no parameters.
    """
    moved = {name.lower() for name, _ in hoisted}
    if _COPY_SOURCE in moved:
        return sent, signed, ""
    return (
        tuple([header for header in sent if header[0].lower() not in moved]),
        tuple([header for header in signed if header[0] not in moved]),
        "&".join([f"{encode_query_part(name)}={encode_query_part(_text(value))}" for name, value in hoisted]),
    )


def with_hoisted(target: str, query: str, hoisted: str) -> tuple[str, str]:
    """Return a target and its canonical query with the parameters behind their own."""
    mark = "&" if "?" in target else "?"
    pairs = [*query.split("&"), *hoisted.split("&")] if query else hoisted.split("&")
    # Pairs are sorted, not joined parts: see `canonical_query`.
    return f"{target}{mark}{hoisted}", "&".join(sorted(pairs, key=_pair))


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name, value


def _text(value: str) -> str:
    # It was decoded from a query as UTF-8.
    return value.encode("latin-1").decode()
