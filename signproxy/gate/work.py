"""Say what work costs, in requests: every unit of it is charged before it is done."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from time import perf_counter_ns
from typing import NamedTuple

from signproxy.gate.limits import Limits
from signproxy.gate.turns import one_at_a_time
from signproxy.s3.bulk_delete import MAX_KEYS

BYTES_PER_REQUEST = 4096
"""A message counts once more for each of these: reading, hashing and sending it on takes as long as a request."""
KEYS_PER_REQUEST = 8
"""Of a bulk delete: each is read, judged, written and, where it is refused, told of."""
BUCKETS_PER_REQUEST = 16
"""Of a list of buckets: each is judged in every catalog that has it, whatever is shown of them."""
REQUESTS_PER_STORE = 8
"""A store that is asked for its buckets answers with a document that is read whole."""
PASSED_ON_PER_REQUEST = 64 * 1024
"""Bytes of a catalog call, or of its answer: they are looked through, and passed on as they are."""
NAMES_PER_REQUEST = 32
"""Of a list of namespaces, tables or views: each is judged, whatever is shown of them."""
READ_PER_REQUEST = 1024
"""Bytes of a store's list: its XML is read element by element."""
IDS_PER_REQUEST = 16
"""Of a list of uploads: each is marked for the key that it belongs to."""
TABLES_PER_REQUEST = 4
"""Of a transaction: each is read, judged and told of."""
JUDGED_PER_REQUEST = 16 * 1024
"""Bytes of a catalog call that is judged by its body: the parser passes over them up to five times."""
COMMAS_PER_REQUEST = 128
"""Of a catalog call that is judged by its body: the parser makes a value of what stands between two of them."""
PARTS_PER_REQUEST = 32
"""Members and elements in a catalog call that is judged by its body: each is looked at by itself."""
REQUESTS_PER_SESSION = 16
"""A session that a store's STS is asked for: its policy is written and proved, and the question signed."""
SHORT_CALL = 16 * 1024
"""Bytes of a catalog call that does not wait for the ones that are being read: a millisecond's work."""

SHORT_DELETE = 4 * 1024
"""Bytes of a bulk delete that is to be signed and does not wait for others either: less than a millisecond's work."""


def of_bytes(count: int) -> int:
    """Return what so many bytes cost."""
    return count // BYTES_PER_REQUEST


def of_bulk_delete(document: bytes | str) -> int:
    """Return what the keys of a bulk delete cost, which is known before it is read; its bytes are charged besides."""
    keys = document.count(b"<Key") if isinstance(document, bytes) else document.count("<Key")
    return min(keys, MAX_KEYS) // KEYS_PER_REQUEST


def of_buckets(count: int) -> int:
    """Return what it costs to judge so many buckets."""
    return count // BUCKETS_PER_REQUEST


def of_call(count: int) -> int:
    """Return what so many bytes of a catalog call or of its answer cost."""
    return count // PASSED_ON_PER_REQUEST


def of_list(document: bytes) -> int:
    """Return what the names of a list cost, before it is read: each is an object with a name, or an array of levels."""
    return max(document.count(b'"name"'), document.count(b"[")) // NAMES_PER_REQUEST


def of_store_list(document: bytes) -> int:
    """Return what a store's list of parts, uploads or buckets costs, before it is read."""
    ids, buckets = document.count(b"<UploadId"), document.count(b"<Bucket")
    return len(document) // READ_PER_REQUEST + ids // IDS_PER_REQUEST + buckets // BUCKETS_PER_REQUEST


def turn_of(size: int, short: int = SHORT_CALL) -> AbstractAsyncContextManager[None]:
    """Return what to hold while a body of so many bytes is read: one at a time.

    A short one does not wait for a long one: reading it is one short piece.
    """
    return nullcontext() if size <= short else one_at_a_time()


class Account(NamedTuple):
    """Where the work of one request is charged."""

    limits: Limits
    principal: str

    def charge(self, requests: int, *, own: int = 0) -> None:
        """Count work before it is done. Raise Refused; see `Limits.charge`."""
        self.limits.charge(self.principal, requests, perf_counter_ns(), own=own)

    def session(self) -> None:
        """Count a session of a store's STS before it is asked for. Raise Refused."""
        self.charge(REQUESTS_PER_SESSION)


class Bill:
    """What one request was charged besides itself: what it owes is no reason to refuse the rest of it."""

    __slots__ = ("_account", "_own")

    def __init__(self, account: Account, own: int = 0) -> None:
        self._account = account
        self._own = own

    def add(self, requests: int) -> None:
        """Count work before it is done. Raise Refused where others of the caller's requests owe too much."""
        self._account.charge(requests, own=self._own)
        self._own += requests

    def store_list(self, document: bytes) -> None:
        """Count the work that a store's list is, before it is read. Raise Refused."""
        self.add(of_store_list(document))

    def page(self, document: bytes) -> None:
        """Count the work that a page of buckets is, before it is read, and that it was asked for. Raise Refused."""
        self.add(1 + of_store_list(document))


class CallBill(Bill):
    """What the body of one catalog call costs, as that becomes known: `call_body.Charges`."""

    __slots__ = ("_parts",)

    def __init__(self, account: Account) -> None:
        super().__init__(account)
        self._parts = 0

    def body(self, size: int) -> None:
        """Count its bytes. Raise Refused, as every method does where the caller's other requests owe too much."""
        self.add(size // JUDGED_PER_REQUEST)

    def commas(self, count: int) -> None:
        """Count what the parser may find in it."""
        self.add(count // COMMAS_PER_REQUEST)

    def tables(self, count: int) -> None:
        """Count tables of a transaction."""
        self.add(count // TABLES_PER_REQUEST)

    def parts(self, count: int) -> None:
        """Count members and elements: however few they are at a time, all of them together are charged."""
        before, self._parts = self._parts, self._parts + count
        self.add(self._parts // PARTS_PER_REQUEST - before // PARTS_PER_REQUEST)
