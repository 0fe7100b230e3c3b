"""Ask a store which buckets it has: those that clients made, the policy knows by no name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator

from signproxy.forward.relay import Charge, in_turn
from signproxy.gate.forwarded import StoreBucket
from signproxy.s3.canonical import encode_query_part
from signproxy.s3.storage import Storage
from signproxy.s3.xml_document import invalid, read_document

PAGES = 100
"""Of at most ten thousand buckets each; a store could tell of the next one for ever."""

_AT_ONCE = 64
"""Buckets that are taken out of a page before others may have their turn."""


async def every_bucket(
    storage: Storage, page: Callable[[str], Awaitable[bytes]], charge: Charge | None
) -> list[StoreBucket]:
    """Return the buckets of all pages; `page` returns one by its token, and nothing where there is none. Raise Refused.

    `charge` is told of each page before it is read, and the next one is asked for once it was.
    """
    told: list[StoreBucket] = []
    token = ""
    for _ in range(PAGES):
        document = await page(token)
        if not document:
            break
        if charge is not None:
            charge(document)
        found, token = await in_turn(buckets_in(document, storage), len(document))
        told += found
        if not token:
            break
    return told


def query_of(token: str) -> str:
    """Return the query of a page, which is its own canonical form; empty for the first one."""
    return f"continuation-token={encode_query_part(token)}" if token else ""


def buckets_in(document: bytes, storage: Storage) -> Generator[None, None, tuple[list[StoreBucket], str]]:
    """Return, piece by piece, the buckets of a page and where the next one goes on; raise Refused for another one."""
    root = yield from read_document(document)
    if root.name != "ListAllMyBucketsResult":
        raise invalid(f"ListBuckets was answered with {root.name!r}")
    # Without any, some stores write no list at all.
    elements = [bucket for buckets in root.all("Buckets") for bucket in buckets.all("Bucket")]
    told = []
    for number, bucket in enumerate(elements, 1):
        if number % _AT_ONCE == 0:
            yield
        told.append(StoreBucket(bucket.value("Name"), storage, bucket.value("CreationDate")))
    return told, root.value("ContinuationToken")
