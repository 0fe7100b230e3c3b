"""Say whether a decoded key or list prefix lies in a table."""

from __future__ import annotations

from signproxy.policy.table import Table
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request

# Members of an enum are slow to look up by name, and these are looked up for every request.
_DELETE_OBJECTS = Operation.DELETE_OBJECTS


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
