"""Guard a table's metadata: its files by name, or everything below its metadata path."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Deny
from signproxy.policy.rights import FULL_METADATA, Rights, mask_on
from signproxy.policy.table import MetadataLevel, Table
from signproxy.s3.operation import Access

PROTECTED_NAMES = (".metadata.json", ".metadata.json.gz", "/version-hint.text")
"""How a key of a protected file ends. `*.gz.metadata.json` ends like `*.metadata.json`; a key that lies in a table
always holds a slash."""


# Members of an enum are slow to look up by name, and these are looked up for every key.
_PROTECTED = MetadataLevel.PROTECTED
_DELETE = Access.DELETE


def refuse_key(rights: Rights, table: Table, bucket: str, key: str, access: Access) -> Deny | None:
    """Refuse a key of the table that its metadata level closes to the holder of these rights."""
    denial = _refuse_as_spelled(rights, table, bucket, key, access)
    if denial is None and (";" in key or " " in key or "./" in key or key.endswith(".")):
        return _refuse_as_spelled(rights, table, bucket, _as_lenient_stores_read(key), access)
    return denial


def _refuse_as_spelled(rights: Rights, table: Table, bucket: str, key: str, access: Access) -> Deny | None:
    level = table.settings.metadata
    if level is _PROTECTED:
        if not key.endswith(PROTECTED_NAMES) and not (access is _DELETE and _reaches(table, bucket, f"{key}/")):
            return None
    elif level is MetadataLevel.OPEN:
        return None
    elif _sealed(table, bucket, key) or (access is _DELETE and _reaches(table, bucket, f"{key}/")):
        return Deny(Reason.METADATA_SEALED, f"key {key!r}", table.id)
    elif not key.endswith(PROTECTED_NAMES):
        return None
    if mask_on(rights, table) & FULL_METADATA:
        return None
    return Deny(Reason.METADATA_PROTECTED, f"key {key!r} without TABLE_FULL_METADATA", table.id)


def refuse_prefix(_: Rights, table: Table, bucket: str, prefix: str, __: Access) -> Deny | None:
    """Refuse a list that shows what lies below a sealed metadata path; otherwise names alone are no secret."""
    if table.settings.metadata is not MetadataLevel.SEALED:
        return None
    if _sealed(table, bucket, prefix) or _reaches(table, bucket, prefix):
        return Deny(Reason.METADATA_SEALED, f"prefix {prefix!r}", table.id)
    return None


def _as_lenient_stores_read(key: str) -> str:
    """Return the key without path parameters and without dots and blanks at the end of segments.

    Servlet containers drop the former, Windows file systems the latter: to them it names the file without.
    """
    return "/".join([segment.partition(";")[0].rstrip(". ") for segment in key.split("/")])


def _sealed(table: Table, bucket: str, key: str) -> bool:
    """Whether a key or prefix lies below a metadata path."""
    return any(place.bucket == bucket and key.startswith(place.prefix) for place in table.metadata_places)


def _reaches(table: Table, bucket: str, prefix: str) -> bool:
    """Whether a metadata path begins with the prefix.

    What lists by prefix would show the metadata. And some stores delete a whole folder for one header that the
    client adds after signing (`x-minio-force-delete`), so deleting an ancestor may delete the metadata.
    """
    return any(place.bucket == bucket and place.prefix.startswith(prefix) for place in table.metadata_places)
