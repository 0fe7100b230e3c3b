"""Say which headers of a catalog call travel to the upstream, and which of its answer travel back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_REQUEST = frozenset(
    """
    accept accept-language content-type idempotency-key user-agent
    baggage traceparent tracestate
    x-client-version x-client-git-commit-short
    """.split()
)
"""What Iceberg clients send and catalogs read. A list of what may not pass would never be complete: headers that name
another method, path, host or user (`X-HTTP-Method-Override`, `X-Original-URL`, `X-Forwarded-User` ...) mean something
to one framework or gateway each, and the call was judged without them."""

_ICEBERG = "x-iceberg-"
_DELEGATION = "x-iceberg-access-delegation"
"""Not sent on: keys that the upstream would hand out are removed from its answer, and its own signer is not used."""

_ANSWER = ("Last-Modified", "Retry-After", "WWW-Authenticate")
"""Beside these, an answer is JSON that was written here, or has no body."""
_PRINTABLE = re.compile(r"[\t\x20-\x7e]*")

NEVER_SENT = frozenset(
    """
    accept-encoding authorization connection content-encoding content-length cookie expect forwarded host keep-alive
    proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade via
    """.split()
)
"""Names that no setting can let pass: they belong to one connection, or are set for the upstream alone."""


def question_headers(
    headers: Iterable[tuple[str, str]], more: frozenset[str], request_id: str, authorization: str | None
) -> list[tuple[str, str]]:
    """Return what an upstream is sent with a call: the headers of the call that travel, and signproxy's own."""
    # What is read here is not to be unpacked first.
    sent = [*onward(headers, more), ("Accept-Encoding", "identity"), ("X-Request-ID", request_id)]
    if authorization is not None:
        sent.append(("Authorization", authorization))
    return sent


def onward(headers: Iterable[tuple[str, str]], more: frozenset[str]) -> list[tuple[str, str]]:
    """Return the headers of a call that are sent on; `more` are further names, in lower case.

    A name that the call's own Connection header lists belongs to that connection and ends with it.
    """
    given = list(headers)
    ends_here = {
        name.strip().lower() for header, value in given if header.lower() == "connection" for name in value.split(",")
    }
    sent = []
    for header, value in given:
        name = header.lower()
        known = name in _REQUEST or name in more or (name.startswith(_ICEBERG) and name != _DELEGATION)
        if known and name not in ends_here and name not in NEVER_SENT and _PRINTABLE.fullmatch(value):
            sent.append((header, value))
    return sent


def back(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers of an answer that the caller gets; never cookies, and no `Location` to follow."""
    return [(name, value) for name in _ANSWER if (value := headers.get(name)) and _PRINTABLE.fullmatch(value)]
