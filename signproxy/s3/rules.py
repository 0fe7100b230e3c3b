"""Say how much of S3 is open at a place: which operations, and which keys."""

from __future__ import annotations

from enum import Enum

import msgspec


class OperationsAllowed(Enum):
    """How much of S3 is open."""

    TABLE = "table"
    """What engines need for tables."""
    OBJECT = "object"
    """All that is done with objects: their tags, attributes and versions too."""
    ALL = "all"
    """Every operation that S3 has a name for, the bucket's own included."""


class KeyRules(Enum):
    """Which keys may be addressed."""

    STRICT = "strict"
    """Those that every store, proxy and client reads alike."""
    S3 = "s3"
    """Every key that the store keeps apart from all others."""


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What is open at the place that a request addresses."""

    operations: OperationsAllowed = OperationsAllowed.TABLE
    keys: KeyRules = KeyRules.STRICT
