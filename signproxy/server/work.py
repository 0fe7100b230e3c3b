"""Say what work costs, in requests: every unit of it is charged before it is done."""

from __future__ import annotations

from time import perf_counter_ns
from typing import NamedTuple

from signproxy.s3.bulk_delete import MAX_KEYS
from signproxy.server.limits import Limits

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
TABLES_PER_REQUEST = 4
"""Of a transaction: each is read, judged and told of."""


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


def of_tables(count: int) -> int:
    """Return what it costs to judge so many tables."""
    return count // TABLES_PER_REQUEST


class Account(NamedTuple):
    """Where the work of one request is charged."""

    limits: Limits
    principal: str

    def charge(self, requests: int, *, own: int = 0) -> None:
        """Count work before it is done. Raise Refused; see `Limits.charge`."""
        self.limits.charge(self.principal, requests, perf_counter_ns(), own=own)
