"""Decide whether a subject may do an S3 operation on the objects of a table. Everything that serves asks here.

The source of a copy is read, so the caller must be allowed to read it.
"""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, Subject, TableId
from signproxy.policy.catalog import Catalog, Overlap, TableBinding
from signproxy.policy.containment import addressed, contains_key, contains_prefix, refuse_key, refuse_prefix
from signproxy.policy.privileges import names_of
from signproxy.policy.rights import (
    NO_RIGHTS,
    REMOTE_SIGN,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    WRITE_DATA,
    PolicyAuthority,
    Rights,
    Standing,
    authority_of,
    granted,
    mask_on,
)
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Overwrite, Table
from signproxy.s3.operation import GUARDED_WRITES, Access, Operation
from signproxy.s3.request import ObjectRef, S3Request


def sources(
    catalog: Catalog,
    rights: Rights,
    target: Table,
    request: S3Request,
    source: ObjectRef,
    standing: Standing | None = None,
) -> tuple[Table, ...] | Deny:
    """Return the tables that own the copy source, if the caller may read it on the rights of each of them.

    `binding: strict`: the source lies in the very table that is written; `by-location`: in any table of the same
    storage. Where locations may overlap, every owner must allow.
    """
    strict = catalog.binding is TableBinding.STRICT
    if strict and not _in(target, request, source):
        return _refusal(target, source)
    owners: tuple[Table, ...] = (target,)
    if not strict or catalog.overlap is Overlap.ALLOWED:
        known = None if standing is None else standing.sources
        owners = catalog.locations.owners(source.bucket, source.key) if known is None else known
    if not owners:
        return _refusal(target, source)
    need = SIGN_S3_READ_REQUEST if standing is None else SIGN_S3_READ_REQUEST & ~standing.mask
    for table in owners:
        if not _in(table, request, source) or need & ~mask_on(rights, table):
            return _refusal(target, source)
    restricted = None if standing is None else standing.refusal_of(owners)
    if restricted is not None:
        return restricted
    for table in owners:
        denial = refuse_key(rights, table, source.bucket, source.key, Access.READ)
        if denial is not None:
            return denial
    return owners


def _in(table: Table, request: S3Request, source: ObjectRef) -> bool:
    """Whether the source lies in a table, on the storage that the request is sent to."""
    return contains_key(table, request.storage.name, source.bucket, source.key)


def _refusal(target: Table, source: ObjectRef) -> Deny:
    return Deny(Reason.COPY_SOURCE_OUTSIDE, f"source {f's3://{source.bucket}/{source.key}'!r}", target.id)


# Members of an enum are slow to look up by name, and these are looked up for every request.
_WRITE = Access.WRITE
_NO_CEILING = Ceiling.NONE


def decide(
    state: PolicyState,
    catalog: Catalog,
    subject: Subject,
    owners: tuple[Table, ...],
    request: S3Request,
    standing: Standing | None = None,
    signed: AcceptedStorages | None = None,
) -> Allow | Deny:
    """Judge a request for the tables that own what it addresses; each of them must allow it.

    The order is privileges, ceiling, restrictions of the upstream, location, copy source, metadata, write-once, what
    the store checks, so that a caller that may not touch a table learns nothing of where it lies. `signed` is for a
    request that the client sends by itself: the storages that are accepted although it may be changed on its way.
    """
    if not owners:
        return Deny(Reason.TABLE_UNKNOWN, "no table was resolved for the request")
    table = owners[0]
    rights = state.rights(subject.effective, catalog)
    if rights is None:
        if standing is None or not standing.mask:
            return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}", table.id)
        rights = NO_RIGHTS
    operation, storage = request.operation, request.storage
    need = SIGN_S3_WRITE_REQUEST if operation.needs_write else SIGN_S3_READ_REQUEST
    denial = unprivileged(catalog, subject, rights, owners, need, standing)
    if denial is not None:
        return denial
    read_from = _reach(catalog, rights, owners, request, standing)
    if isinstance(read_from, Deny):
        return read_from
    write_once = operation.access is _WRITE and _write_once(owners, request)
    if isinstance(write_once, Deny):
        return write_once
    authority: PolicyAuthority | None = None
    if standing is not None:
        authority = standing.authority(catalog, rights, owners, need, read_from)
    elif len(owners) == 1 and not read_from:
        # Of nearly all requests it is known, and is looked up without a call.
        key = (id(table.namespace), id(table.grants), need)
        authority = rights.authorities.get(key) or rights.authorities.get((*key, table.id))
    if authority is None:
        authority = authority_of(catalog, rights, owners, need, read_from)
    allow = Allow(table.id, authority, write_once)
    if signed is None or (storage.checks_unsigned_headers and storage.checks_payload_hash):
        return allow
    return unlaundered(allow, request, signed)


def unprivileged(
    catalog: Catalog, subject: Subject, rights: Rights, owners: tuple[Table, ...], need: int, standing: Standing | None
) -> Deny | None:
    """Refuse what is not granted on one of the tables or above it, writes under a ceiling, and what is restricted."""
    lacks = need & ~rights.mask if standing is None else need & ~(rights.mask | standing.mask)
    for table in owners:
        if table.id.catalog != catalog.name:
            return Deny(Reason.TABLE_UNKNOWN, f"table {table.id} is none of catalog {catalog.name!r}", table.id)
        missing = lacks and lacks & ~granted(table.grants, rights.roles)
        if missing:
            return lacking(subject, table.id, missing)
    if need == SIGN_S3_WRITE_REQUEST and (subject.ceiling is not _NO_CEILING or subject.delegated):
        # A caller who acts on another's rights, or was clamped, only ever reads.
        return Deny(Reason.CEILING, f"delegated: {subject.delegated}, {subject.ceiling.value}", owners[0].id)
    return None if standing is None else standing.refusal_of(owners)


def lacking(subject: Subject, table: TableId, missing: int) -> Deny:
    """Return the refusal of a subject that lacks these privileges on a table."""
    if missing & REMOTE_SIGN:
        reason = Reason.NO_REMOTE_SIGN
    elif missing & WRITE_DATA:
        reason = Reason.NO_WRITE_DATA
    else:
        reason = Reason.NO_READ_DATA
    names = ", ".join(names_of(missing))
    return Deny(reason, f"principal {subject.effective.name!r} lacks {names} on {table}", table)


def _reach(
    catalog: Catalog, rights: Rights, owners: tuple[Table, ...], request: S3Request, standing: Standing | None
) -> tuple[Table, ...] | Deny:
    """Return the tables that a copy reads; refuse what does not lie in each of the tables, or what is closed there."""
    operation, bucket, storage = request.operation, request.bucket, request.storage.name
    keys = addressed(request)
    contains, refuse = (contains_prefix, refuse_prefix) if operation.by_prefix else (contains_key, refuse_key)
    for table in owners:
        for key in keys:
            if not contains(table, storage, bucket, key):
                return _outside_table(table, request, key)
    if not keys:
        # Without a key nothing was checked, so nothing is allowed.
        return _outside_table(owners[0], request, "")
    read_from: tuple[Table, ...] | Deny = ()
    if request.copy_source is not None:
        read_from = sources(catalog, rights, owners[0], request, request.copy_source, standing)
        if isinstance(read_from, Deny):
            return read_from
    for table in owners:
        for key in keys:
            denial = refuse(rights, table, bucket, key, operation.access)
            if denial is not None:
                return denial
    return read_from


def _outside_table(table: Table, request: S3Request, key: str) -> Deny:
    places = ", ".join(f"{str(place)!r}" for place in table.places)
    where = f"{f's3://{request.bucket}/{key}'!r} on storage {request.storage.name!r}"
    return Deny(Reason.OUTSIDE_TABLE, f"{where} is not below {places}", table.id)


# What makes an object appear. The parts of an upload do not, and a copy of parts ends in the same completion.
_CHANGES = frozenset({Access.WRITE, Access.DELETE})


def _write_once(owners: tuple[Table, ...], request: S3Request) -> Deny | bool:
    """Return whether a write must be guarded against overwriting; refuse what cannot be guarded."""
    operation = request.operation
    for table in owners:
        if table.settings.overwrite is Overwrite.FORBID:
            if operation is Operation.COPY_OBJECT or request.conditional:
                return Deny(Reason.WRITE_ONCE, f"{operation.s3_name}, conditional: {request.conditional}", table.id)
            return operation in GUARDED_WRITES
    return False


class AcceptedStorages(msgspec.Struct, frozen=True, gc=False):
    """The storages whose clients may turn what was signed into another: a risk that the operator takes by name."""

    unchecked_headers: frozenset[str] = frozenset()
    unchecked_payload: frozenset[str] = frozenset()


def unlaundered(allow: Allow, request: S3Request, accepted: AcceptedStorages) -> Allow | Deny:
    """Return the `Allow` of a request that is to be signed, marked where it is accepted, or its refusal.

    What signproxy sends itself is sent as it was judged.
    """
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
