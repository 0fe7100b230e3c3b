"""Hold a classified S3 request: what it addresses, what it does, and the canonical form that is signed."""

from __future__ import annotations

import msgspec

from signproxy.errors import Refused
from signproxy.s3.bulk_delete import BulkDelete
from signproxy.s3.operation import Operation
from signproxy.s3.storage import Storage


class WireRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An S3 request as a client describes it to the signer, not yet believed."""

    method: str
    uri: str
    headers: dict[str, list[str]]
    region: str
    body: str | None = None


class BulkRequest(WireRequest, frozen=True, gc=False, kw_only=True):
    """A request for a bulk delete whose body was read before: a long one is read piece by piece."""

    deletes: BulkDelete | Refused


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """An object by bucket and decoded key."""

    bucket: str
    key: str


class S3Request(msgspec.Struct, frozen=True, gc=False):
    """A request that passed the grammar. Keys are decoded exactly once, as the store decodes them."""

    operation: Operation
    method: str
    uri: str
    """The client's own URI, byte for byte."""
    storage: Storage
    bucket: str
    key: str
    """The addressed key; empty for lists and bulk deletes."""
    host: str
    canonical_path: str
    canonical_query: str
    headers: tuple[tuple[str, str], ...]
    """The client's headers that must be signed: lower-case names, trimmed values, sorted; without Host, date,
    payload hash and credentials, which the signer sets."""
    payload: str
    """The value of x-amz-content-sha256."""
    prefix: str = ""
    """The prefix of a list."""
    delete_keys: tuple[str, ...] = ()
    """The keys of a bulk delete."""
    copy_source: ObjectRef | None = None
    conditional: bool = False
    """The client sent If-Match or If-None-Match with anything but `If-None-Match: *`."""
    named: str = ""
    """S3's own name of an operation that is one of the `OTHER_` ones."""

    @property
    def s3_name(self) -> str:
        """Return what AWS calls the operation."""
        return self.named or self.operation.s3_name
