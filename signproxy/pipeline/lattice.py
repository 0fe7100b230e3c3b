"""Know which privileges satisfy which, and which a served request or catalog call needs.

The server's own tables say the same (`signproxy.policy.privileges`, `signproxy.catalog.needs`); a test compares them,
so that this room need not import a server.
"""

from __future__ import annotations

import msgspec

MANAGE_CONTENT = "CATALOG_MANAGE_CONTENT"
MANAGE_METADATA = "CATALOG_MANAGE_METADATA"
FULL_METADATA = "TABLE_FULL_METADATA"
REMOTE_SIGN = "TABLE_REMOTE_SIGN"
READ_DATA = "TABLE_READ_DATA"
WRITE_DATA = "TABLE_WRITE_DATA"
VOLUME_READ = "VOLUME_READ_DATA"
VOLUME_WRITE = "VOLUME_WRITE_DATA"
VOLUME_MANAGE = "VOLUME_MANAGE"

_MANAGERS = (MANAGE_CONTENT, MANAGE_METADATA)
_TABLES = (*_MANAGERS, FULL_METADATA)
_NAMESPACES = (*_MANAGERS, "NAMESPACE_FULL_METADATA")
_VIEWS = (*_MANAGERS, "VIEW_FULL_METADATA")
_TABLE_WRITERS = (*_TABLES, WRITE_DATA)
_TABLE_READERS = (*_TABLE_WRITERS, "TABLE_WRITE_PROPERTIES", READ_DATA)
_NAMESPACE_READERS = (*_NAMESPACES, "NAMESPACE_WRITE_PROPERTIES")
_VIEW_READERS = (*_VIEWS, "VIEW_WRITE_PROPERTIES")

SATISFIED_BY: dict[str, tuple[str, ...]] = {
    REMOTE_SIGN: _MANAGERS,
    READ_DATA: (MANAGE_CONTENT, WRITE_DATA),
    WRITE_DATA: (MANAGE_CONTENT,),
    FULL_METADATA: _MANAGERS,
    "TABLE_READ_PROPERTIES": _TABLE_READERS,
    "TABLE_WRITE_PROPERTIES": _TABLE_WRITERS,
    "TABLE_CREATE": _TABLES,
    "TABLE_DROP": _TABLES,
    "TABLE_LIST": (*_TABLE_READERS, "TABLE_READ_PROPERTIES", "TABLE_CREATE"),
    "NAMESPACE_CREATE": _NAMESPACES,
    "NAMESPACE_DROP": _NAMESPACES,
    "NAMESPACE_LIST": (*_NAMESPACE_READERS, "NAMESPACE_READ_PROPERTIES", "NAMESPACE_CREATE"),
    "NAMESPACE_READ_PROPERTIES": _NAMESPACE_READERS,
    "NAMESPACE_WRITE_PROPERTIES": _NAMESPACES,
    "NAMESPACE_FULL_METADATA": _MANAGERS,
    "VIEW_CREATE": _VIEWS,
    "VIEW_DROP": _VIEWS,
    "VIEW_LIST": (*_VIEW_READERS, "VIEW_READ_PROPERTIES", "VIEW_CREATE"),
    "VIEW_READ_PROPERTIES": _VIEW_READERS,
    "VIEW_WRITE_PROPERTIES": _VIEWS,
    "VIEW_FULL_METADATA": _MANAGERS,
    VOLUME_READ: (MANAGE_CONTENT, VOLUME_WRITE, VOLUME_MANAGE),
    VOLUME_WRITE: (MANAGE_CONTENT, VOLUME_MANAGE),
    VOLUME_MANAGE: (MANAGE_CONTENT,),
    MANAGE_METADATA: (MANAGE_CONTENT,),
    MANAGE_CONTENT: (),
}
"""Needed privilege -> what satisfies it besides itself."""

BREADTH = {
    privilege: sum(privilege == needed or privilege in others for needed, others in SATISFIED_BY.items())
    for privilege in SATISFIED_BY
}
"""How many privileges one satisfies: of several that a request could stand on, the narrowest is the one in use."""

SEEN_ON_OBJECTS = (REMOTE_SIGN, READ_DATA, WRITE_DATA, VOLUME_READ, VOLUME_WRITE)
"""What every served request shows the use of."""

NEVER_SEEN = (FULL_METADATA, VOLUME_MANAGE)
"""What single keys or operations need, which a summary of requests does not show: their disuse is not claimed."""

SATISFY_DATA = {needed: (needed, *SATISFIED_BY[needed]) for needed in (REMOTE_SIGN, READ_DATA, WRITE_DATA)}

WRITING_LISTS = ("ListParts", "ListMultipartUploads")
"""Lists that only writers have business with."""

COPIES = ("CopyObject", "UploadPartCopy")
"""Operations that read besides what they write; the event's rule names what allowed both."""


class CallNeed(msgspec.Struct, frozen=True):
    """What a catalog call needs. `anywhere`: where the body or the query names places that the event lacks."""

    privileges: tuple[str, ...]
    anywhere: bool = False


CALLS = {
    "list_namespaces": CallNeed(("NAMESPACE_LIST",), anywhere=True),
    "create_namespace": CallNeed(("NAMESPACE_CREATE",), anywhere=True),
    "load_namespace": CallNeed(("NAMESPACE_READ_PROPERTIES",)),
    "namespace_exists": CallNeed(("NAMESPACE_LIST",)),
    "drop_namespace": CallNeed(("NAMESPACE_DROP",)),
    "update_namespace": CallNeed(("NAMESPACE_WRITE_PROPERTIES",)),
    "list_tables": CallNeed(("TABLE_LIST",)),
    "create_table": CallNeed(("TABLE_CREATE",)),
    # One that replaces a table's metadata needs more.
    "register_table": CallNeed(("TABLE_CREATE", FULL_METADATA), anywhere=True),
    "load_table": CallNeed(("TABLE_READ_PROPERTIES",)),
    "table_exists": CallNeed(("TABLE_LIST",)),
    # A commit that makes the table needs TABLE_CREATE of its namespace instead.
    "update_table": CallNeed(("TABLE_WRITE_PROPERTIES", "TABLE_CREATE"), anywhere=True),
    # With the files' deletion it needs TABLE_WRITE_DATA, too.
    "drop_table": CallNeed(("TABLE_DROP", WRITE_DATA)),
    "rename_table": CallNeed(("TABLE_DROP", "TABLE_LIST", "TABLE_CREATE"), anywhere=True),
    "commit_transaction": CallNeed(("TABLE_WRITE_PROPERTIES", "TABLE_CREATE"), anywhere=True),
    "report_metrics": CallNeed(("TABLE_READ_PROPERTIES",)),
    "load_credentials": CallNeed((READ_DATA,)),
    "plan_table": CallNeed((READ_DATA,)),
    "fetch_plan": CallNeed((READ_DATA,)),
    "cancel_plan": CallNeed((READ_DATA,)),
    "fetch_tasks": CallNeed((READ_DATA,)),
    "list_views": CallNeed(("VIEW_LIST",)),
    "create_view": CallNeed(("VIEW_CREATE",)),
    "load_view": CallNeed(("VIEW_READ_PROPERTIES",)),
    "view_exists": CallNeed(("VIEW_LIST",)),
    "replace_view": CallNeed(("VIEW_WRITE_PROPERTIES",)),
    "drop_view": CallNeed(("VIEW_DROP",)),
    "rename_view": CallNeed(("VIEW_DROP", "VIEW_LIST", "VIEW_CREATE"), anywhere=True),
    "register_view": CallNeed(("VIEW_CREATE",)),
}
"""Catalog call -> what it needs, a little more rather than less: whatever it may need counts as used."""
