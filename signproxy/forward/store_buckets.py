"""Ask a store which buckets it has: those that clients made, the policy knows by no name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from time import perf_counter_ns
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.forward.addresses import Address
from signproxy.forward.answer import REQUEST_ID
from signproxy.forward.exchange import Broken, Exchange
from signproxy.forward.pool import Pool, Times
from signproxy.forward.relay import MAX_DOCUMENT, Charge, collected, in_turn
from signproxy.forward.store_request import StoreRequest, bucket_list
from signproxy.gate.forwarded import StoreBucket
from signproxy.gate.outcome import StoreOutcome
from signproxy.s3.canonical import encode_query_part
from signproxy.s3.storage import Storage
from signproxy.s3.xml_document import invalid, read_document
from signproxy.transfer.channel import Channel

PAGES = 100
"""Of at most ten thousand buckets each; a store could tell of the next one for ever."""

_AT_ONCE = 64
"""Buckets that are taken out of a page before others may have their turn."""


_OK, _FAILED = 200, 500
_LISTS_NONE = (403, 405, 501)
"""Its keys may not list buckets, or it knows no such list."""


class Signed(NamedTuple):
    """The head of a request, and where it is to be sent."""

    address: Address
    head: bytes


class BucketPages:
    """Asks a store for its buckets, page by page."""

    __slots__ = ("_client", "_event_id", "_outcome", "_pool", "_sign", "_storage", "_times")

    def __init__(
        self,
        storage: Storage,
        sign: Callable[[StoreRequest], Signed],
        pool: Pool,
        client: Channel,
        times: Times,
        outcome: StoreOutcome,
        event_id: str,
    ) -> None:
        """`outcome` gets what the store said last."""
        self._storage = storage
        self._sign = sign
        self._pool = pool
        self._client = client
        self._times = times
        self._outcome = outcome
        self._event_id = event_id

    async def page(self, token: str) -> bytes:
        """Return a page by its token; nothing where there is none. Raise Refused."""
        outcome, storage = self._outcome, self._storage
        request = bucket_list(storage, query_of(token))
        request.stamp(self._event_id)
        outcome.stamped = outcome.stamped or request.stamped
        signed = self._sign(request)
        # Only how often and how long the store was asked adds up over the pages.
        asked = StoreOutcome(status=0)
        exchange = Exchange(self._pool, signed.address, self._client, self._times, "GET", asked)
        started = perf_counter_ns()
        reusable = False
        try:
            heard = await exchange.ask(signed.head, repeatable=True)
            document = await collected(heard, MAX_DOCUMENT, self._times.idle)
            reusable = not heard.head.closes
        except Broken as broken:
            raise Refused(broken.reason, broken.detail) from None
        finally:
            exchange.end(reusable=reusable)
            outcome.requests += asked.requests
            outcome.upstream_us += (perf_counter_ns() - started) // 1000
        status = outcome.upstream_status = heard.head.status
        outcome.upstream_request_id = heard.head.fields.get(REQUEST_ID, "").partition(",")[0]
        if status in _LISTS_NONE:
            return b""
        if status != _OK:
            # An empty list would look like a store that lost everything.
            reason = Reason.STORE_UNAVAILABLE if status >= _FAILED else Reason.STORE_INVALID
            raise Refused(reason, f"storage {storage.name!r} answered ListBuckets with {status}")
        return document


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
