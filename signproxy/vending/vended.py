"""State what keys are asked for, what is handed out, and who hands it out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import NoReturn, Protocol

import msgspec

from signproxy.credentials.credentials import redacted_id
from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.telemetry.log import never_log


def _nothing() -> None:
    """Count nothing."""


class VendAccess(Enum):
    """What vended keys may do to the objects of a table."""

    READ = "read"
    READ_WRITE = "read-write"


class OtherPlaces(Protocol):
    """Every place of the inventory that is not the table's own."""

    def meets(self, location: Location) -> str:
        """Return the name of another table or volume with a place inside a location or around it, or nothing."""

    def resembles(self, location: Location) -> Generator[None, None, str]:
        """Return the name of one with such a place to a store that takes `t1` and `T1` for the same, or nothing.

        Looking for it may take long: others may have their turn wherever it yields.
        """


class VendScope(msgspec.Struct, frozen=True, kw_only=True):
    """How far vended keys reach, as it was decided; `vending.scope.scope_of` makes it of a table."""

    storage: str
    locations: tuple[Location, ...]
    """Every place of the table."""
    access: VendAccess
    metadata: MetadataLevel
    """The level that holds for this caller: open for a protected table where TABLE_FULL_METADATA is granted."""
    metadata_locations: tuple[Location, ...]
    """Where metadata files lie or once lay."""
    others: OtherPlaces
    """Asked before each answer: locations that are shared have more owners than one, and all of them must allow."""
    principal: str
    policy_epoch: int
    event_id: str
    """Of the request that asks; the session carries that of the request for which it was made."""
    overwrite: Overwrite = Overwrite.ALLOWED
    latest: float | None = None
    """Unix time beyond which the keys may not live, such as the end of the caller's token; None where there is none."""
    charge: Callable[[], None] = _nothing
    """Counts a session that has to be asked for, before it is. Raises Refused for a caller who owes too much."""


@never_log
class VendedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """A key pair with its session, for one caller and one table."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: float
    """Unix time from which the store refuses them."""
    session_name: str
    """How the store's own log calls them."""
    policy_digest: str
    """SHA-256 of the session policy, in hexadecimal digits."""

    def __repr__(self) -> str:
        shown = f"expires_at={self.expires_at!r}, session_name={self.session_name!r}"
        return f"VendedKeys({redacted_id(self.access_key_id)!r}, <secret>, {shown})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("vended keys are not pickled or copied: they go to the caller alone")


class Vendor(Protocol):
    """Hand out keys for a scope that was allowed."""

    async def vend(self, scope: VendScope) -> VendedKeys:
        """Return keys that reach no further and live no longer than the scope, or raise Refused."""
