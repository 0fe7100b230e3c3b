"""Define where an issuer's keys come from, as the authenticator sees it."""

from __future__ import annotations

import math
from typing import assert_never

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


class KeySource:
    """The keys of one issuer; tokens are verified with what `current` returns, and nothing else.

    By itself it has none, and nothing to keep fresh.
    """

    def __init__(self, name: str) -> None:
        """`name` is the issuer's."""
        self._name = name

    def current(self) -> KeySet | None:
        """Return the keys now; None if there are none yet, or none anymore."""
        return None

    def health(self) -> KeyHealth:
        """Return how the keys are."""
        return KeyHealth(self._name, 0, math.inf)

    def may_change(self) -> bool:
        """Tell whether `renew` could bring other keys now."""
        return False

    async def renew(self) -> None:
        """Bring the keys up to date, unless that was tried lately; never raises for keys that cannot be had."""

    def start(self) -> None:
        """Begin to keep the keys fresh; needs a running loop."""

    async def warm(self) -> None:
        """Begin to keep the keys fresh, and wait for the first answer, whatever it is."""

    def stop(self) -> None:
        """End whatever was begun, without waiting for it; the keys stay as they are."""

    async def aclose(self) -> None:
        """End whatever was begun."""


class StaticKeys(KeySource):
    """Keys of the settings; they change with the settings alone."""

    def __init__(self, name: str, keys: KeySet) -> None:
        super().__init__(name)
        self._keys = keys

    def current(self) -> KeySet:
        """Return the keys."""
        return self._keys

    def health(self) -> KeyHealth:
        """Return that they are there."""
        return KeyHealth(self._name, len(self._keys), 0.0)


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
