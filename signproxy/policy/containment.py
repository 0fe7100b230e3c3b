"""Say whether a decoded key or list prefix lies in a table, and in what the table's metadata level leaves open."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Deny
from signproxy.policy.rights import FULL_METADATA, Rights, mask_on
from signproxy.policy.table import MetadataLevel, Table
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request

PROTECTED_NAMES = (".metadata.json", ".metadata.json.gz", "/version-hint.text")
"""How a key of a protected file ends. `*.gz.metadata.json` ends like `*.metadata.json`; a key that lies in a table
always holds a slash."""

# Members of an enum are slow to look up by name, and these are looked up for every request, and every key.
_DELETE_OBJECTS = Operation.DELETE_OBJECTS
_SEALED, _OPEN = MetadataLevel.SEALED, MetadataLevel.OPEN
_DELETE = Access.DELETE


def contains_key(table: Table, storage: str, bucket: str, key: str) -> bool:
    """Whether the key lies strictly below a location of the table: whole segments, case-sensitive."""
    settings = table.settings
    location = table.location
    # A location ends with a slash, so that a sibling which merely shares its beginning stays outside.
    if (
        key.startswith(location)
        and len(key) > len(location)
        and bucket == settings.bucket
        and storage == settings.storage
    ):
        return True
    for place in settings.extra:
        if (
            key.startswith(place.prefix)
            and len(key) > len(place.prefix)
            and bucket == place.bucket
            and storage == place.storage
        ):
            return True
    return False


def contains_prefix(table: Table, storage: str, bucket: str, prefix: str) -> bool:
    """Whether every key that begins with the prefix lies in the table: it must reach past a location's slash."""
    return any(place.holds(bucket, prefix) and storage == place.storage for place in table.places)


def addressed(request: S3Request) -> tuple[str, ...]:
    """Return the keys that a request addresses, or the prefix of a list. The copy source is not among them."""
    operation = request.operation
    if operation is _DELETE_OBJECTS:
        return request.delete_keys
    if operation.by_prefix:
        return (request.prefix,)
    return (request.key,)


def refuse_key(rights: Rights, table: Table, bucket: str, key: str, access: Access) -> Deny | None:
    """Refuse a key of the table that its metadata level closes to the holder of these rights.

    Nor may it be closed as lenient stores read it.
    """
    level = table.settings.metadata
    if level is _OPEN:
        return None
    spellings: tuple[str, ...] = (key,)
    if ";" in key or " " in key or "./" in key or key.endswith("."):
        spellings += (_as_lenient_stores_read(key),)
    for spelled in spellings:
        reaches = access is _DELETE and _reaches(table, bucket, f"{spelled}/")
        if level is _SEALED and (reaches or _sealed(table, bucket, spelled)):
            return Deny(Reason.METADATA_SEALED, f"key {spelled!r}", table.id)
        if (reaches or spelled.endswith(PROTECTED_NAMES)) and not mask_on(rights, table) & FULL_METADATA:
            return Deny(Reason.METADATA_PROTECTED, f"key {spelled!r} without TABLE_FULL_METADATA", table.id)
    return None


def refuse_prefix(_: Rights, table: Table, bucket: str, prefix: str, __: Access) -> Deny | None:
    """Refuse a list that shows what lies below a sealed metadata path; otherwise names alone are no secret."""
    if table.settings.metadata is not _SEALED:
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
    return any(place.holds(bucket, key) for place in table.metadata_places)


def _reaches(table: Table, bucket: str, prefix: str) -> bool:
    """Whether a metadata path begins with the prefix.

    What lists by prefix would show the metadata. And some stores delete a whole folder for one header that the
    client adds after signing (`x-minio-force-delete`), so deleting an ancestor may delete the metadata.
    """
    return any(place.bucket == bucket and place.prefix.startswith(prefix) for place in table.metadata_places)
