"""Know which privileges satisfy which, and which a served request or catalog call needs.

The server's own tables say the same (`signproxy.policy.privileges`, `signproxy.catalog.needs`); a test compares them
with `privileges.toml`, so that this room need not import a server.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec

FULL_METADATA = "TABLE_FULL_METADATA"
REMOTE_SIGN = "TABLE_REMOTE_SIGN"
READ_DATA = "TABLE_READ_DATA"
WRITE_DATA = "TABLE_WRITE_DATA"
VOLUME_READ = "VOLUME_READ_DATA"
VOLUME_WRITE = "VOLUME_WRITE_DATA"
VOLUME_MANAGE = "VOLUME_MANAGE"


class PrivilegeTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    satisfied_by: dict[str, tuple[str, ...]]
    calls: dict[str, tuple[str, ...]]
    calls_anywhere: dict[str, tuple[str, ...]]


_TABLES = msgspec.toml.decode(
    files("signproxy.pipeline").joinpath("privileges.toml").read_bytes(), type=PrivilegeTables
)
SATISFIED_BY = _TABLES.satisfied_by
CALLS = _TABLES.calls | _TABLES.calls_anywhere
CALLS_ANYWHERE = tuple(_TABLES.calls_anywhere)

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
