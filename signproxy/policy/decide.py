"""Decide whether a subject may do an S3 operation on the objects of a table. Everything that serves asks here."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, Subject, TableId
from signproxy.policy.catalog import Catalog, Overwrite, Table
from signproxy.policy.containment import addressed, contains_key, contains_prefix
from signproxy.policy.copy_source import sources
from signproxy.policy.laundering import AcceptedStorages, unlaundered
from signproxy.policy.metadata import refuse_key, refuse_prefix
from signproxy.policy.privileges import names_of
from signproxy.policy.rights import (
    NO_RIGHTS,
    REMOTE_SIGN,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    WRITE_DATA,
    PolicyAuthority,
    Rights,
    granted,
)
from signproxy.policy.standing import Standing
from signproxy.policy.state import PolicyState
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request


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
    rights = state.rights(subject.effective, catalog)
    vouched = 0
    if standing is not None:
        vouched = standing.mask
        rights = NO_RIGHTS if rights is None and vouched else rights
    if rights is None:
        return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}", owners[0].id)
    need = SIGN_S3_WRITE_REQUEST if request.operation.needs_write else SIGN_S3_READ_REQUEST
    keys = addressed(request)
    denial = _unprivileged(catalog, subject, rights, owners, need, vouched)
    if denial is None and standing is not None:
        denial = standing.refusal_of(owners)
    denial = denial or _outside(owners, request, keys)
    if denial is not None:
        return denial
    read_from: tuple[Table, ...] = ()
    if request.copy_source is not None:
        found = sources(catalog, rights, owners[0], request, request.copy_source, standing)
        if isinstance(found, Deny):
            return found
        read_from = found
    denial = _closed(rights, owners, request, keys)
    if denial is not None:
        return denial
    write_once = _write_once(owners, request)
    if isinstance(write_once, Deny):
        return write_once
    if standing is None:
        allow = Allow(owners[0].id, PolicyAuthority(catalog, rights, owners, need, read_from), write_once)
    else:
        allow = Allow(owners[0].id, standing.authority(catalog, rights, owners, need, read_from), write_once)
    storage = request.storage
    if signed is None or (storage.checks_unsigned_headers and storage.checks_payload_hash):
        return allow
    return unlaundered(allow, request, signed)


def _unprivileged(
    catalog: Catalog, subject: Subject, rights: Rights, owners: tuple[Table, ...], need: int, vouched: int
) -> Deny | None:
    """Refuse what is not granted on one of the tables or above it, and writes under a read-only ceiling."""
    for table in owners:
        if table.id.catalog != catalog.name:
            return Deny(Reason.TABLE_UNKNOWN, f"table {table.id} is none of catalog {catalog.name!r}", table.id)
        missing = need & ~(rights.mask | vouched)
        if missing:
            missing &= ~granted(table.grants, rights.roles)
            if missing:
                return lacking(subject, table.id, missing)
    if need == SIGN_S3_WRITE_REQUEST and (subject.ceiling is not Ceiling.NONE or subject.delegated):
        # A caller who acts on another's rights, or was clamped, only ever reads.
        return Deny(Reason.CEILING, f"delegated: {subject.delegated}, {subject.ceiling.value}", owners[0].id)
    return None


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


def _outside(owners: tuple[Table, ...], request: S3Request, keys: tuple[str, ...]) -> Deny | None:
    """Refuse a key, or a list's prefix, that is not below a location of each of the tables."""
    contains = contains_prefix if request.operation.by_prefix else contains_key
    storage = request.storage.name
    bucket = request.bucket
    for table in owners:
        for key in keys:
            if not contains(table, storage, bucket, key):
                return _outside_table(table, request, key)
    # Without a key nothing was checked, so nothing is allowed.
    return None if keys else _outside_table(owners[0], request, "")


def _outside_table(table: Table, request: S3Request, key: str) -> Deny:
    places = ", ".join(f"{str(place)!r}" for place in table.places)
    where = f"{f's3://{request.bucket}/{key}'!r} on storage {request.storage.name!r}"
    return Deny(Reason.OUTSIDE_TABLE, f"{where} is not below {places}", table.id)


def _closed(rights: Rights, owners: tuple[Table, ...], request: S3Request, keys: tuple[str, ...]) -> Deny | None:
    """Refuse what the metadata level of one of the tables closes."""
    refuse = refuse_prefix if request.operation.by_prefix else refuse_key
    access = request.operation.access
    bucket = request.bucket
    for table in owners:
        for key in keys:
            denial = refuse(rights, table, bucket, key, access)
            if denial is not None:
                return denial
    return None


_WRITE = Access.WRITE
# What makes an object appear. The parts of an upload do not, and a copy of parts ends in the same completion.
_GUARDED_WRITES = (Operation.PUT_OBJECT, Operation.COMPLETE_MULTIPART_UPLOAD)


def _write_once(owners: tuple[Table, ...], request: S3Request) -> Deny | bool:
    """Return whether the write must be guarded against overwriting; refuse what cannot be guarded."""
    operation = request.operation
    if operation.access is _WRITE:
        for table in owners:
            if table.settings.overwrite is Overwrite.FORBID:
                if operation is Operation.COPY_OBJECT or request.conditional:
                    return Deny(Reason.WRITE_ONCE, f"{operation.s3_name}, conditional: {request.conditional}", table.id)
                return operation in _GUARDED_WRITES
    return False
