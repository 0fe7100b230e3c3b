"""Find the tables that a request concerns, by the name in its path or by what it addresses."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from signproxy.errors import Reason, Refused
from signproxy.model import ByLocation, NamedTable
from signproxy.policy.catalog import Catalog, Overlap, TableBinding
from signproxy.policy.containment import addressed
from signproxy.policy.table import BEFORE_NAME, Table
from signproxy.s3.operation import Access
from signproxy.s3.request import S3Request


class TableResolver(Protocol):
    """Find the tables that own what a request addresses; all of them are asked for their consent."""

    def resolve(
        self, catalog: Catalog, target: NamedTable | ByLocation, request: S3Request
    ) -> tuple[Table, ...] | Awaitable[tuple[Table, ...]]:
        """Return at least one table. Raise Refused with TABLE_UNKNOWN or LOCATION_UNOWNED."""


class PolicyResolver:
    """Resolve over the tables that the policy declares, without ever waiting."""

    def resolve(self, catalog: Catalog, target: NamedTable | ByLocation, request: S3Request) -> tuple[Table, ...]:
        """Return the named table, or the owners of what is addressed; with overlapping locations, all of them."""
        if not isinstance(target, NamedTable):
            return self._by_location(catalog, request)
        # As `table_key` does it; the call alone would cost a request as much as the look-up.
        table = catalog.keyed(f"{target.namespace}{BEFORE_NAME}{target.name}")
        if table is None:
            # Where keys decide, too: a route of a table that was dropped, or never was, serves no caller.
            raise Refused(Reason.TABLE_UNKNOWN, f"no table {target.name!r} in namespace {target.namespace!r}")
        if catalog.binding is TableBinding.STRICT:
            if catalog.overlap is Overlap.FORBIDDEN:
                return (table,)
            owners = [table]
            for key in addressed(request):
                owners += catalog.locations.owners(request.bucket, key)
            return _with_reached(catalog, request, tuple({id(owner): owner for owner in owners}.values()))
        return self._by_location(catalog, request)

    def _by_location(self, catalog: Catalog, request: S3Request) -> tuple[Table, ...]:
        keys = addressed(request)
        owners = catalog.locations.owners(request.bucket, keys[0]) if keys else ()
        for key in keys[1:]:
            others = catalog.locations.owners(request.bucket, key)
            # By identity: two tables may be equal in every field.
            if {*map(id, others)} != {*map(id, owners)}:
                raise Refused(Reason.LOCATION_UNOWNED, f"bucket {request.bucket!r}, {keys[0]!r} and {key!r}")
        if not owners:
            raise Refused(Reason.LOCATION_UNOWNED, f"bucket {request.bucket!r}, key {keys[0] if keys else ''!r}")
        return owners if catalog.overlap is Overlap.FORBIDDEN else _with_reached(catalog, request, owners)


def _with_reached(catalog: Catalog, request: S3Request, owners: tuple[Table, ...]) -> tuple[Table, ...]:
    """Add a table nested further below that a list would show, or a folder's deletion would empty.

    It does not contain what is addressed, so its consent is never given: the request is refused.
    """
    listed = request.operation.by_prefix
    if not listed and request.operation.access is not Access.DELETE:
        return owners
    for addressee in addressed(request):
        reached = catalog.locations.reached(request.bucket, addressee if listed else f"{addressee}/", owners)
        if reached is not None:
            return (*owners, reached)
    return owners
