"""Ask a store which buckets it has: those that clients made, the policy knows by no name."""

from __future__ import annotations

from collections.abc import Generator

from signproxy.gate.forwarded import StoreBucket
from signproxy.s3.canonical import encode_query_part
from signproxy.s3.storage import Storage
from signproxy.s3.xml_document import invalid, read_document

PAGES = 100
"""Of at most ten thousand buckets each; a store could tell of the next one for ever."""


def query_of(token: str) -> str:
    """Return the query of a page, which is its own canonical form; empty for the first one."""
    return f"continuation-token={encode_query_part(token)}" if token else ""


def buckets_in(document: bytes, storage: Storage) -> Generator[None, None, tuple[list[StoreBucket], str]]:
    """Return, piece by piece, the buckets of a page and where the next one goes on; raise Refused for another one."""
    root = yield from read_document(document)
    if root.name != "ListAllMyBucketsResult":
        raise invalid(f"ListBuckets was answered with {root.name!r}")
    # Without any, some stores write no list at all.
    told = [
        StoreBucket(bucket.value("Name"), storage, bucket.value("CreationDate"))
        for buckets in root.all("Buckets")
        for bucket in buckets.all("Bucket")
    ]
    return told, root.value("ContinuationToken")
