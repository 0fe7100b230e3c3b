"""Define where an issuer's keys come from, as the authenticator sees it."""

from __future__ import annotations

from typing import Protocol, assert_never

import msgspec

from signproxy.identity.issuer import Discovery, Issuer, JwksUrl, PublicKeys, SharedSecret
from signproxy.identity.keys import KeySet, public_key, shared_secret_key


class KeyHealth(msgspec.Struct, frozen=True, gc=False):
    """How an issuer's keys are, for readiness, status and metrics."""

    issuer: str
    keys: int
    age: float
    """Seconds since they were last fetched; 0 for keys of the settings, infinite where they never were."""
    fetches: int = 0
    """How many were begun; `successes` and `failures` how many ended so."""
    successes: int = 0
    failures: int = 0
    last_error: str = ""
    """Why the last fetch failed; empty after a good one."""
    ignored: tuple[str, ...] = ()
    """Why published keys were left out."""

    @property
    def usable(self) -> bool:
        """Tell whether any token of the issuer could be verified."""
        return self.keys > 0


class KeySource(Protocol):
    """The keys of one issuer; tokens are verified with what `current` returns, and nothing else."""

    def current(self) -> KeySet | None:
        """Return the keys now; None if there are none yet, or none anymore."""
        ...

    def may_change(self) -> bool:
        """Tell whether `renew` could bring other keys now."""
        ...

    async def renew(self) -> None:
        """Bring the keys up to date, unless that was tried lately; never raises for keys that cannot be had."""
        ...

    def start(self) -> None:
        """Begin to keep the keys fresh; needs a running loop."""
        ...

    async def warm(self) -> None:
        """Begin to keep the keys fresh, and wait for the first answer, whatever it is."""
        ...

    def stop(self) -> None:
        """End whatever was begun, without waiting for it; the keys stay as they are."""
        ...

    async def aclose(self) -> None:
        """End whatever was begun."""
        ...

    def health(self) -> KeyHealth:
        """Return how the keys are."""
        ...


class StaticKeys:
    """Keys of the settings; they change with the settings alone."""

    __slots__ = ("_issuer", "_keys")

    def __init__(self, issuer: str, keys: KeySet) -> None:
        self._issuer = issuer
        self._keys = keys

    def current(self) -> KeySet:
        """Return the keys."""
        return self._keys

    def may_change(self) -> bool:
        """Tell that they never do."""
        return False

    async def renew(self) -> None:
        """Do nothing: there is nowhere to ask."""

    def start(self) -> None:
        """Do nothing: there is nothing to keep fresh."""

    async def warm(self) -> None:
        """Do nothing: they are there."""

    def stop(self) -> None:
        """Do nothing: nothing was begun."""

    async def aclose(self) -> None:
        """Do nothing: nothing was begun."""

    def health(self) -> KeyHealth:
        """Return that they are there."""
        return KeyHealth(self._issuer, len(self._keys), 0.0)


def static_keys(issuer: Issuer) -> KeySet | None:
    """Return the keys that the settings hold, or None where they have to be fetched."""
    match issuer.keys:
        case SharedSecret():
            return KeySet((shared_secret_key(issuer.keys.reveal()),))
        case PublicKeys():
            return KeySet(public_key(key.pem, key.kid) for key in issuer.keys.keys)
        case JwksUrl() | Discovery():
            return None
        case _:
            assert_never(issuer.keys)
