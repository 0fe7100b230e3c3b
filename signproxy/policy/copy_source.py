"""Judge the source of a copy: it is read, so the caller must be allowed to read it."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Deny
from signproxy.policy.catalog import Catalog, Overlap, Table, TableBinding
from signproxy.policy.containment import contains_key
from signproxy.policy.metadata import refuse_key
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, Rights, mask_on
from signproxy.policy.standing import Standing
from signproxy.s3.operation import Access
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
