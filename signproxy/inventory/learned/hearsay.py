"""Remember for a moment what an upstream denied, and to whom."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from signproxy.inventory.learned.alarms import SightingRefusal

AT_MOST = 20_000
"""Denials; some 300 bytes each. Made-up names push out made-up names."""

_ANYBODY = ""


class Denials:
    """Names under which an upstream had no table for one caller, or none that can be believed for any."""

    __slots__ = ("_held", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held: OrderedDict[tuple[str, str], dict[str, tuple[float, SightingRefusal | None]]] = OrderedDict()

    def absent(self, catalog: str, key: str, who: str, now: float) -> None:
        """Remember that there is no table of this name for one caller."""
        self._add(catalog, key, who, now, None)

    def refused(self, catalog: str, key: str, refusal: SightingRefusal, now: float) -> None:
        """Remember that the table of this name is not believed."""
        self._add(catalog, key, _ANYBODY, now, refusal)

    def found(self, catalog: str, key: str, who: str, now: float) -> tuple[float, SightingRefusal | None] | None:
        """Return until when, and why, the table is not to be asked for again."""
        held = self._held.get((catalog, key))
        if held is None:
            return None
        for name in (_ANYBODY, who):
            denial = held.get(name)
            if denial is not None and denial[0] > now:
                return denial
        return None

    def clear(self, catalog: str, key: str) -> None:
        """Forget what was denied of a name: it was seen to be a table."""
        self._held.pop((catalog, key), None)

    def forget(self, catalog: str) -> None:
        """Forget what was denied of a catalog's tables."""
        for key in [key for key in self._held if key[0] == catalog]:
            del self._held[key]

    def _add(self, catalog: str, key: str, who: str, now: float, refusal: SightingRefusal | None) -> None:
        held = self._held.setdefault((catalog, key), {})
        self._held.move_to_end((catalog, key))
        if len(held) >= _EACH_AT_MOST:
            held.clear()
        held[who] = (now + self._seconds, refusal)
        if len(self._held) > AT_MOST:
            self._held.popitem(last=False)


_EACH_AT_MOST = 64
"""Callers for whom one name is remembered as absent; more are asked for again."""


def digest_of(bearer: str) -> bytes:
    """Return what stands for a token where it must not be kept itself."""
    return hashlib.sha256(bearer.encode(errors="surrogateescape")).digest()
