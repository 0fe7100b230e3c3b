"""Remember for a moment what an upstream answered a caller: that it may load a table, or all of it, or neither."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from enum import Enum
from typing import NamedTuple

import msgspec

from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.learned_table import LearnedTable
from signproxy.inventory.learned.sighting import Answered, Loaded
from signproxy.model import Principal
from signproxy.policy.table import Table, table_key

AT_MOST = 50_000
"""Answers; some 400 bytes each. A caller whose answer was pushed out is asked for again."""

AT_ONCE_AT_MOST = 20_000
"""Callers and tables that need no look at the answers; some 200 bytes each."""

_TOLD_AGAIN = 4
"""The part of an answer's life after which other workers hear of the same answer again."""


class AsksAs(Enum):
    """As whom an upstream is asked."""

    CALLER = "caller"
    SERVICE = "service"
    """With a token of signproxy's own, or none: what it restricts, it restricts for all callers."""
    NONE = "none"
    """It is not asked here at all, as in an explanation without a server."""


class Recipient(NamedTuple):
    """Whom an upstream answers: a principal by one token, or every caller where it is asked as signproxy."""

    name: str
    token: bytes
    """Its digest."""
    ends: float
    """Unix time at which the token ends."""


EVERY_CALLER = Recipient("", b"", math.inf)


class Voucher(msgspec.Struct, gc=False):
    """An upstream's answer to a caller that loaded a table."""

    uuid: str
    restricted: bool
    """It may not: some rows or columns are kept from it, and whole files must not reach it."""
    sent: float
    """Unix time at which the question was sent; of two answers the one that was asked later counts."""
    until: float
    refresh: float
    """From when on the upstream is asked again beside the requests that still rely on it."""
    told: float
    """When the other workers last heard of it."""


class Vouchers:
    """What upstreams answered: by catalog, table, principal and the whole token, and never for another of them."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str, str, bytes], Voucher] = OrderedDict()
        # By the identities of two values that are kept with the entry, so that no other value has them meanwhile. Each
        # stands on an answer that is held and restricts nothing. With the table as it was judged: under another name,
        # or another policy, it is another answer that counts.
        self._at_once: dict[tuple[int, int], tuple[Principal, LearnedTable, Table, float]] = {}

    def add(self, answered: Answered, now: float, *, seconds: float, sent: float) -> bool:
        """Remember an answer for so many seconds after it was asked for, at `sent`, and no longer than the token lives.

        Return whether the other workers have yet to hear of it.
        """
        key = table_key(answered.namespace, answered.name)
        held = (answered.catalog, key, answered.principal, answered.token)
        uuid, restricted = answered.uuid, answered.restricted
        former = self._held.get(held)
        if former is not None and former.sent > sent:
            return False
        until = min(sent + seconds, answered.ends)
        same = former is not None and (former.uuid, former.restricted) == (uuid, restricted)
        told = former.told if former is not None and same and now < former.told + seconds / _TOLD_AGAIN else now
        self._held[held] = Voucher(uuid, restricted, sent, until, sent + (until - sent) / 2, told)
        self._held.move_to_end(held)
        if len(self._held) > AT_MOST:
            self._held.popitem(last=False)
            self._at_once.clear()
        if not same and (former is not None or restricted):
            self._at_once.clear()
        return told == now

    def find(self, catalog: str, key: str, uuid: str | None, recipient: Recipient, now: float) -> Voucher | None:
        """Return the upstream's answer to this caller for the table of this UUID, or of any (None), while it counts."""
        held = self._held.get((catalog, key, recipient.name, recipient.token))
        return held if held is not None and uuid in (None, held.uuid) and now < held.until else None

    def restricts(self, catalog: str, key: str, principal: str, now: float) -> bool:
        """Whether the upstream keeps a table's rows or columns from a principal by any of its tokens."""
        return any(
            held.restricted and now < held.until
            for (of, name, who, _), held in self._held.items()
            if who == principal and name == key and of == catalog
        )

    def last(self, catalog: str, key: str, recipient: Recipient) -> Voucher | None:
        """Return the upstream's last answer to this caller, whether or not it still counts."""
        return self._held.get((catalog, key, recipient.name, recipient.token))

    def clear(self, caller: Principal, table: LearnedTable, until: float) -> None:
        """Have a caller's requests for a table found unrestricted at once, until a moment."""
        if len(self._at_once) >= AT_ONCE_AT_MOST:
            self._at_once.clear()
        self._at_once[id(caller), id(table)] = (caller, table, table.table, until)

    def is_clear(self, caller: Principal, table: LearnedTable, now: float) -> bool:
        """Whether the upstream's answer to this very caller needs no look, and no question beside the request."""
        cleared = self._at_once.get((id(caller), id(table)))
        return (
            cleared is not None
            and cleared[0] is caller
            and cleared[1] is table
            and cleared[2] is table.table
            and now < cleared[3]
        )

    def withdraw(self, catalog: str, key: str, recipient: Recipient, sent: float) -> None:
        """Forget an answer: the upstream denied the same caller the table, when it was asked at `sent` or later."""
        held = self.last(catalog, key, recipient)
        if held is not None and held.sent <= sent:
            del self._held[catalog, key, recipient.name, recipient.token]
            self._at_once.clear()

    def forget(self, catalog: str) -> None:
        """Forget what the upstream of a catalog answered."""
        self._at_once.clear()
        for held in [held for held in self._held if held[0] == catalog]:
            del self._held[held]


def answered(catalog: str, loaded: Loaded, recipient: Recipient) -> Answered:
    """Return what an answer says of the caller that asked."""
    facts = loaded.facts
    return Answered(catalog, facts.namespace, facts.name, facts.uuid, *recipient, loaded.restricted)


def recipient_of(principal: Principal, bearer: str) -> Recipient:
    """Return whom an upstream answers that is shown the caller's own token."""
    return Recipient(principal.name, digest_of(bearer), principal.expires_at)


DENIALS_AT_MOST = 20_000
"""Denials; some 300 bytes each. Made-up names push out made-up names."""

_EACH_AT_MOST = 64
"""Callers for whom one name is remembered as absent; more are asked for again."""

_ANY_CALLER = ""


class Denials:
    """Names under which an upstream had no table for one caller, or none that can be believed for any."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held: OrderedDict[tuple[str, str], dict[str, tuple[float, SightingRefusal | None]]] = OrderedDict()

    def absent(self, catalog: str, key: str, who: str, now: float) -> None:
        """Remember that there is no table of this name for one caller."""
        self._add(catalog, key, who, now, None)

    def refused(self, catalog: str, key: str, refusal: SightingRefusal, now: float) -> None:
        """Remember that the table of this name is not believed."""
        self._add(catalog, key, _ANY_CALLER, now, refusal)

    def found(self, catalog: str, key: str, who: str, now: float) -> tuple[float, SightingRefusal | None] | None:
        """Return until when, and why, the table is not to be asked for again."""
        held = self._held.get((catalog, key))
        if held is None:
            return None
        for name in (_ANY_CALLER, who):
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
        if len(self._held) > DENIALS_AT_MOST:
            self._held.popitem(last=False)


def digest_of(bearer: str) -> bytes:
    """Return what stands for a token where it must not be kept itself."""
    return hashlib.sha256(bearer.encode(errors="surrogateescape")).digest()
