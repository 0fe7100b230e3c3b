"""Ask a store which buckets it has: those that clients made, the policy knows by no name."""

from __future__ import annotations

import re

from signproxy.errors import Reason, Refused
from signproxy.forward.xml_text import unescaped
from signproxy.s3.canonical import encode_query_part

PAGES = 100
"""Of at most ten thousand buckets each; a store could tell of the next one for ever."""

_BUCKETS = re.compile(r"<Buckets>(.*?)</Buckets>", re.DOTALL)
_NAME = re.compile(r"<Name>([^<]*)</Name>")
_NEXT = re.compile(r"<ContinuationToken>([^<]+)</ContinuationToken>")


def query_of(token: str) -> str:
    """Return the query of a page, which is its own canonical form; empty for the first one."""
    return f"continuation-token={encode_query_part(token)}" if token else ""


def names_in(document: bytes) -> tuple[tuple[str, ...], str]:
    """Return the buckets of a page and where the next one goes on; raise Refused for what is no such list."""
    try:
        text = document.decode()
    except UnicodeDecodeError:
        raise Refused(Reason.STORE_INVALID, "ListBuckets was answered with no UTF-8") from None
    if "ListAllMyBucketsResult" not in text:
        raise Refused(Reason.STORE_INVALID, "ListBuckets was answered with another document")
    # Without any, some stores write an empty element in its short form.
    buckets = _BUCKETS.search(text)
    names = () if buckets is None else tuple([unescaped(name) for name in _NAME.findall(buckets[1])])
    following = _NEXT.search(text)
    return names, "" if following is None else unescaped(following[1])
