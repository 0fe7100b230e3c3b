"""Say what a principal may do at a place of a catalog that is known by its name alone."""

from __future__ import annotations

from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.catalog import Catalog
from signproxy.policy.privileges import Privilege
from signproxy.policy.rights import Rights, granted
from signproxy.policy.table import NO_GRANTS, Grants, Namespace, table_key

NAMES_TABLES = int(Privilege.TABLE_LIST) | int(Privilege.VIEW_LIST)
"""Either of them shows a name; everything that lets a table or view be read or changed implies one of them."""

LISTS = NAMES_TABLES | int(Privilege.NAMESPACE_LIST)
"""What may be granted further below: the list then shows no more than what lies there."""


def mask_at(catalog: Catalog, rights: Rights, namespace: str | None, name: str | None = None) -> int:
    """Return everything that the holder may do on a table or view, a namespace, or (None) the catalog itself."""
    if namespace is None:
        return rights.mask
    return rights.mask | granted(grants_at(catalog, namespace, name), rights.roles)


def names_below(catalog: Catalog, rights: Rights, namespace: str | None) -> bool:
    """Whether something that lies in the namespace, or (None) in the catalog, may be shown to the holder."""
    below = catalog.below.get(namespace or "")
    return below is not None and bool(granted(below, rights.roles) & LISTS)


def may_list(catalog: Catalog, rights: Rights, namespace: str, name: str | None) -> bool:
    """Whether the name of a table or view, or (None) of a namespace, may be shown to the holder."""
    mask = mask_at(catalog, rights, namespace, name)
    if name is not None:
        return bool(mask & NAMES_TABLES)
    return bool(mask & LISTS) or names_below(catalog, rights, namespace)


def namespace_at(catalog: Catalog, namespace: str) -> Namespace | None:
    """Return the namespace, or the nearest one above it that the policy knows."""
    while namespace:
        known = catalog.namespaces.get(namespace)
        if known is not None:
            return known
        namespace = namespace.rpartition(NAMESPACE_SEPARATOR)[0]
    return None


def grants_at(catalog: Catalog, namespace: str, name: str | None) -> Grants:
    """Return what was granted on a table or view, or (None) a namespace, and above it, the catalog excepted."""
    if name is not None:
        key = table_key(namespace, name)
        table = catalog.keyed(key)
        if table is not None:
            return table.grants
        if catalog.learning is not None:
            grants = catalog.learning.grants.get(key)
            if grants is not None:
                return grants
    known = namespace_at(catalog, namespace)
    return NO_GRANTS if known is None else known.grants
