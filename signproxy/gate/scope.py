"""Keep a token or key that is good for a part of a catalog away from every other."""

from __future__ import annotations

from signproxy.errors import Reason, Refused
from signproxy.model import NAMESPACE_SEPARATOR, KeyScope, NamedTable, Principal, TableId, TableScope, Target, VolumeId
from signproxy.policy.catalog import Catalog
from signproxy.policy.containment import contains_key
from signproxy.policy.table import Table
from signproxy.s3.request import S3Request


def check_target(scope: TableScope, catalog: Catalog, target: Target) -> None:
    """Refuse a route that names another table, before any upstream is asked for it."""
    if isinstance(target, NamedTable):
        check_name(scope, catalog, target.namespace, target.name)


def check_name(scope: TableScope, catalog: Catalog, namespace: str | None, name: str | None) -> None:
    """Refuse a place that is not the table itself."""
    if (catalog.name, namespace, name) != (scope.catalog, scope.namespace, scope.name):
        raise Refused(Reason.NOT_IN_SCOPE, f"{_shown(scope)}, not {namespace!r} and {name!r} of {catalog.name!r}")


def check_tables(scope: TableScope, tables: tuple[Table, ...], request: S3Request) -> None:
    """Refuse what is not about this table alone: another one, another one of the same name, a copy from elsewhere."""
    source, storage = request.copy_source, request.storage.name
    for table in tables:
        named = table.id.catalog, table.id.namespace, table.id.name
        if named != (scope.catalog, scope.namespace, scope.name):
            raise Refused(Reason.NOT_IN_SCOPE, f"{_shown(scope)}, not {str(table.id)!r}")
        if scope.uuid and table.uuid and scope.uuid != table.uuid:
            raise Refused(Reason.NOT_IN_SCOPE, f"{_shown(scope)}, and the table is {table.uuid!r} now")
        if source is not None and not contains_key(table, storage, source.bucket, source.key):
            raise Refused(Reason.NOT_IN_SCOPE, f"{_shown(scope)}, not {f's3://{source.bucket}/{source.key}'!r}")


def shows(scope: TableScope, catalog: Catalog, namespace: str, name: str | None) -> bool:
    """Whether a namespace (`name` is None) leads to the table, or this is the table."""
    if catalog.name != scope.catalog:
        return False
    if name is not None:
        return (namespace, name) == (scope.namespace, scope.name)
    return f"{scope.namespace}{NAMESPACE_SEPARATOR}".startswith(f"{namespace}{NAMESPACE_SEPARATOR}")


def check_carried(principal: Principal, judged: TableId | VolumeId, uuid: str = "") -> None:
    """Refuse a table, or a volume, that what the principal carries is not good for."""
    for scope in principal.scopes:
        if isinstance(judged, VolumeId):
            # A volume lies in no namespace.
            holds = judged.catalog == scope.catalog and not scope.namespace
        else:
            holds = holds_table(scope, judged) and not (scope.uuid and uuid and scope.uuid != uuid)
        if not holds:
            raise Refused(Reason.NOT_IN_SCOPE, f"good for {scope!r}, not {str(judged)!r} ({uuid or 'any'})")


def holds_table(scope: KeyScope, table: TableId) -> bool:
    """Whether a table lies in the scope of a key, whichever of its name it is."""
    if scope.catalog != table.catalog:
        return False
    if scope.table:
        return (table.namespace, table.name) == (scope.namespace, scope.table)
    within = f"{scope.namespace}{NAMESPACE_SEPARATOR}"
    return not scope.namespace or f"{table.namespace}{NAMESPACE_SEPARATOR}".startswith(within)


def _shown(scope: TableScope) -> str:
    return f"the token is good for {scope.name!r} in {scope.namespace!r} of {scope.catalog!r} ({scope.uuid or 'any'})"
