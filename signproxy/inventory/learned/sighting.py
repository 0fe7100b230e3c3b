"""Name what was seen of a table in an upstream's answers, before it is believed."""

from __future__ import annotations

import msgspec


class TableFacts(msgspec.Struct, frozen=True, gc=False):
    """What an upstream's answer says of a table, not yet believed."""

    namespace: str
    """Levels joined by U+001F."""
    name: str
    uuid: str
    location: str
    """As the upstream spells it."""
    properties: dict[str, str]
    """Only those of `catalog_draft.LOCATION_PROPERTIES` that are set: each claims a place."""
    metadata_location: str = ""
    """Empty in a staged create."""


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """An upstream's answer to a caller that loaded a table."""

    facts: TableFacts
    restricted: bool = False
    """It keeps rows or columns from the one who asked (`read-restrictions`)."""


class Live(msgspec.Struct, frozen=True, gc=False, tag="live"):
    """The upstream answered with this table."""

    catalog: str
    facts: TableFacts
    etag: str = ""
    vouched: bool = True
    """False where a caller chose the place and it has no voucher: it is not believed unless it is known already."""
    placed: bool = False
    """The upstream's layout, or the table's history, gives it this place, wherever its metadata file lies."""


class Staged(msgspec.Struct, frozen=True, gc=False, tag="staged"):
    """The upstream handed out a location for a table that this principal has yet to commit."""

    catalog: str
    facts: TableFacts
    principal: str
    until: float
    """Unix time after which nothing is signed for it any more."""
    restricted: bool = False
    """The upstream keeps rows or columns of it from the principal."""


class Dropped(msgspec.Struct, frozen=True, gc=False, tag="dropped"):
    """The upstream dropped the table because this principal asked for it."""

    catalog: str
    namespace: str
    name: str
    principal: str
    at: float
    """Unix time."""
    uuid: str | None = None
    """Of the table that had the name when the drop was asked for; where unknown, no caller may clear up after it."""


class Gone(msgspec.Struct, frozen=True, gc=False, tag="gone"):
    """The upstream said that there is no such table."""

    catalog: str
    namespace: str
    name: str


class Renamed(msgspec.Struct, frozen=True, gc=False, tag="renamed"):
    """The upstream gave a table another name."""

    catalog: str
    namespace: str
    name: str
    to_namespace: str
    to_name: str


class Changed(msgspec.Struct, frozen=True, gc=False, tag="changed"):
    """The upstream took a commit whose answer told nothing of the table."""

    catalog: str
    namespace: str
    name: str


class Answered(msgspec.Struct, frozen=True, gc=False, tag="answered"):
    """The upstream let a principal load the table, and said whether it may read all of it."""

    catalog: str
    namespace: str
    name: str
    uuid: str
    principal: str
    """Empty where the upstream is asked as signproxy, so that the answer is for every caller."""
    token: bytes
    """The digest of the principal's token."""
    ends: float
    """Unix time at which that ends."""
    restricted: bool


Sighting = Live | Staged | Dropped | Gone | Renamed | Changed | Answered
