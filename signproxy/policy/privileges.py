"""Name the privileges of Polaris that concern tables, namespaces and views, those of volumes, and what each implies."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag

from signproxy.errors import nearest


class Privilege(IntFlag):
    """One bit per privilege; a grant is held as the mask of everything that it implies.

    Below thirty bits: Python computes with larger numbers more slowly, and every decision computes with these.
    """

    TABLE_REMOTE_SIGN = 1
    TABLE_READ_DATA = 2
    TABLE_WRITE_DATA = 4
    TABLE_FULL_METADATA = 8
    TABLE_READ_PROPERTIES = 16
    TABLE_WRITE_PROPERTIES = 32
    TABLE_CREATE = 64
    CATALOG_MANAGE_METADATA = 128
    CATALOG_MANAGE_CONTENT = 256
    TABLE_DROP = 1 << 9
    TABLE_LIST = 1 << 10
    NAMESPACE_CREATE = 1 << 11
    NAMESPACE_DROP = 1 << 12
    NAMESPACE_LIST = 1 << 13
    NAMESPACE_READ_PROPERTIES = 1 << 14
    NAMESPACE_WRITE_PROPERTIES = 1 << 15
    NAMESPACE_FULL_METADATA = 1 << 16
    VIEW_CREATE = 1 << 17
    VIEW_DROP = 1 << 18
    VIEW_LIST = 1 << 19
    VIEW_READ_PROPERTIES = 1 << 20
    VIEW_WRITE_PROPERTIES = 1 << 21
    VIEW_FULL_METADATA = 1 << 22
    # Of our own: Polaris has no volumes.
    VOLUME_READ_DATA = 1 << 23
    VOLUME_WRITE_DATA = 1 << 24
    VOLUME_MANAGE = 1 << 25


class PrivilegeUnknown(ValueError):
    """A grant names a privilege that does not exist."""


# What satisfies a required privilege besides itself. TABLE_FULL_METADATA and TABLE_CREATE deliberately give
# no TABLE_REMOTE_SIGN (apache/polaris#3995 dropped them), and CATALOG_MANAGE_METADATA gives no data.
_CONTENT = Privilege.CATALOG_MANAGE_CONTENT
_METADATA = _CONTENT | Privilege.CATALOG_MANAGE_METADATA
_TABLES = _METADATA | Privilege.TABLE_FULL_METADATA
_NAMESPACES = _METADATA | Privilege.NAMESPACE_FULL_METADATA
_VIEWS = _METADATA | Privilege.VIEW_FULL_METADATA
_TABLE_WRITERS = _TABLES | Privilege.TABLE_WRITE_DATA
_TABLE_READERS = _TABLE_WRITERS | Privilege.TABLE_WRITE_PROPERTIES | Privilege.TABLE_READ_DATA
_NAMESPACE_READERS = _NAMESPACES | Privilege.NAMESPACE_WRITE_PROPERTIES
_VIEW_READERS = _VIEWS | Privilege.VIEW_WRITE_PROPERTIES
_SATISFIED_BY = {
    Privilege.TABLE_REMOTE_SIGN: _METADATA,
    Privilege.TABLE_READ_DATA: _CONTENT | Privilege.TABLE_WRITE_DATA,
    Privilege.TABLE_WRITE_DATA: _CONTENT,
    Privilege.TABLE_FULL_METADATA: _METADATA,
    Privilege.TABLE_READ_PROPERTIES: _TABLE_READERS,
    Privilege.TABLE_WRITE_PROPERTIES: _TABLE_WRITERS,
    Privilege.TABLE_CREATE: _TABLES,
    Privilege.TABLE_DROP: _TABLES,
    Privilege.TABLE_LIST: _TABLE_READERS | Privilege.TABLE_READ_PROPERTIES | Privilege.TABLE_CREATE,
    Privilege.NAMESPACE_CREATE: _NAMESPACES,
    Privilege.NAMESPACE_DROP: _NAMESPACES,
    Privilege.NAMESPACE_LIST: _NAMESPACE_READERS | Privilege.NAMESPACE_READ_PROPERTIES | Privilege.NAMESPACE_CREATE,
    Privilege.NAMESPACE_READ_PROPERTIES: _NAMESPACE_READERS,
    Privilege.NAMESPACE_WRITE_PROPERTIES: _NAMESPACES,
    Privilege.NAMESPACE_FULL_METADATA: _METADATA,
    Privilege.VIEW_CREATE: _VIEWS,
    Privilege.VIEW_DROP: _VIEWS,
    Privilege.VIEW_LIST: _VIEW_READERS | Privilege.VIEW_READ_PROPERTIES | Privilege.VIEW_CREATE,
    Privilege.VIEW_READ_PROPERTIES: _VIEW_READERS,
    Privilege.VIEW_WRITE_PROPERTIES: _VIEWS,
    Privilege.VIEW_FULL_METADATA: _METADATA,
    Privilege.VOLUME_READ_DATA: _CONTENT | Privilege.VOLUME_WRITE_DATA | Privilege.VOLUME_MANAGE,
    Privilege.VOLUME_WRITE_DATA: _CONTENT | Privilege.VOLUME_MANAGE,
    Privilege.VOLUME_MANAGE: _CONTENT,
    Privilege.CATALOG_MANAGE_METADATA: _CONTENT,
    Privilege.CATALOG_MANAGE_CONTENT: _CONTENT,
}


def implied(privilege: Privilege) -> int:
    """Return the mask of every required privilege that a grant of this one satisfies, itself included."""
    mask = int(privilege)
    for required, others in _SATISFIED_BY.items():
        if others & privilege:
            # Plain numbers: the operators of IntFlag cost a decision ten times as much.
            mask |= int(required)
    return mask


OF_VOLUMES = Privilege.VOLUME_READ_DATA | Privilege.VOLUME_WRITE_DATA | Privilege.VOLUME_MANAGE
"""What can be granted on a volume; on a catalog it reaches every volume of it."""

PRIVILEGES: dict[str, int] = {str(privilege.name): implied(privilege) for privilege in Privilege}
"""Privilege name -> the mask of what it implies."""


def mask_of(names: Iterable[str]) -> int:
    """Return the mask that a grant of these privileges gives. Raise PrivilegeUnknown."""
    mask = 0
    for name in names:
        granted = PRIVILEGES.get(name)
        if granted is None:
            raise PrivilegeUnknown(f"unknown privilege {name!r}{nearest(name, PRIVILEGES)}")
        mask |= granted
    return mask


def names_of(mask: int) -> tuple[str, ...]:
    """Return the names of the privileges in a mask, leaving out those that another one of it implies."""
    held = [privilege for privilege in Privilege if mask & privilege]
    return tuple(
        str(privilege.name)
        for privilege in held
        if not any(other is not privilege and implied(other) & privilege for other in held)
    )
