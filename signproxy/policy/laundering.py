"""Refuse what a client could turn into something else after it was signed.

A store that takes unsigned headers makes a copy of a signed write, and one that does not compare a body with its hash
deletes other keys than those that were judged. What signproxy sends itself is sent as it was judged.
"""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.model import Allow, Deny
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request

_CHANGES = frozenset({Access.WRITE, Access.DELETE})


class AcceptedStorages(msgspec.Struct, frozen=True, gc=False):
    """The storages for which the operator takes that risk, by name."""

    unchecked_headers: frozenset[str] = frozenset()
    unchecked_payload: frozenset[str] = frozenset()


def unlaundered(allow: Allow, request: S3Request, accepted: AcceptedStorages) -> Allow | Deny:
    """Return the `Allow` of a request that is to be signed, marked where it is accepted, or its refusal."""
    storage, operation = request.storage, request.operation
    problem = ""
    if not storage.checks_unsigned_headers and operation.access in _CHANGES:
        # A copy source added to a signed PUT reads any object that the signing key can read.
        allow = msgspec.structs.replace(allow, unsafe_storage=True)
        if storage.name not in accepted.unchecked_headers:
            problem = f"storage {storage.name!r} takes headers that are not signed"
    if not storage.checks_payload_hash and operation is Operation.DELETE_OBJECTS:
        # Other keys sent in place of the checked ones delete any object that the signing key can delete.
        allow = msgspec.structs.replace(allow, unsafe_storage=True)
        if storage.name not in accepted.unchecked_payload:
            problem = f"storage {storage.name!r} does not compare a body with its hash"
    return Deny(Reason.UNSAFE_STORAGE, problem, allow.table) if problem else allow
