"""Describe an upstream catalog: where it is, whom to trust, and which token it is shown."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

import msgspec

from signproxy.catalog.signer_grant import Offer
from signproxy.telemetry.log import never_log


@never_log
class Secret:
    """A token or password of the server's own; never shown, never pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")


class SameToken(msgspec.Struct, frozen=True):
    """The upstream is shown the caller's own token."""


class ServiceToken(msgspec.Struct, frozen=True):
    """The upstream is shown a token of the server's own, or none; it does not learn who asks."""

    token: Secret | None = None


class ExchangedToken(msgspec.Struct, frozen=True):
    """The upstream is shown what an authorization server gives for the caller's token (RFC 8693)."""

    url: str
    client_id: str
    client_secret: Secret
    audience: str = ""
    scope: str = ""
    resource: str = ""


Forwarding = SameToken | ServiceToken | ExchangedToken


class CallTimeouts(msgspec.Struct, frozen=True):
    """How long each phase of a call may take, in seconds."""

    connect: float = 3.0
    """Until a connection is there, waiting for a place in the pool included."""
    answer: float = 60.0
    """From the end of the request to the head of the answer."""
    read: float = 30.0
    """Between two parts of the answer."""
    load: float = 10.0
    """For all of a table that a sign request waits for."""


class InventorySpec(msgspec.Struct, frozen=True):
    """How all tables of an upstream are listed, by the operator's own right."""

    required: bool = False
    """Believe nothing new before an inventory is there, nor once it is too old."""
    refresh: float = 3600.0
    """Seconds after which another one is taken."""
    token: Secret | None = None
    connections: int = 8
    """Tables that are loaded at a time."""
    page_size: int = 1_000
    """Entries of a page; 0 leaves it to the upstream."""


class UpstreamSpec(msgspec.Struct, frozen=True):
    """All that there is to know of an upstream; two that are equal share their connections."""

    catalog: str
    """The catalog of the policy that it stands behind."""
    uri: str
    """Without a slash at its end."""
    warehouse: str = ""
    prefix: str = ""
    """As it stands in the path; empty where the upstream is asked for it."""
    separator: str = ""
    """Between levels of a namespace in its paths, encoded; empty where the upstream is asked for it."""
    ca: str = ""
    """Trust these certificate authorities (PEM) alone, instead of the system's."""
    forwarding: Forwarding = SameToken()
    offer: Offer = Offer.ON_REQUEST
    headers: frozenset[str] = frozenset()
    """Names, in lower case, of headers that are sent on beside those of the Iceberg protocol."""
    connections: int = 64
    times: CallTimeouts = CallTimeouts()
    max_answer: int = 64 * 1024 * 1024
    """Bytes of an answer that is held whole."""
    inventory: InventorySpec = InventorySpec()


class Effect(Enum):
    """What becomes of the catalog if a call was sent and its answer lost."""

    NONE = "none"
    """Nothing; the call may be made again."""
    CHANGE = "change"
    """Unknown; a client that is told that the call failed would delete files which a commit refers to."""
