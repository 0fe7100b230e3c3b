"""Hold what is known of one learned table, and how long it may be relied on; and the tables of single principals.

staged (one principal's) ──committed──> live ──dropped through the facade──> dropped (one principal's) ──> forgotten
live:  fresh ──soft──> serves, asked beside ──hard──> asked first ──answered──> fresh
       any answer may leave a doubt: it changed (asked first), or it is gone (asked first; its place stays taken)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum

import msgspec

from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.location import Location
from signproxy.policy.places import PlaceTree
from signproxy.policy.rights import Standing
from signproxy.policy.table import BEFORE_NAME, Place, Table, table_key

MAX_NAME = 1024
"""Characters of a namespace and a name together; no upstream is asked for a table whose name is longer."""

MAX_FACTS = 8192
"""Characters of everything that is said of a table. What is kept of tables is bounded by their number."""


PERSONAL_AT_MOST = 10_000
"""Tables of all principals; some 2 KiB each."""

EACH_AT_MOST = 500
"""Tables of one principal, so that none can push out what others staged or dropped."""


class Freshness(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Seconds for which something that an upstream said is relied on."""

    soft: float = 60.0
    """Older facts still serve, while they are asked for anew."""
    hard: float = 600.0
    """Older facts serve only where the upstream cannot be asked."""
    retry: float = 10.0
    """Between two questions to an upstream that does not answer."""
    absent: float = 5.0
    """No longer than a user who has just created the table takes to look again."""
    answer: float = 60.0
    """An upstream's word on what a caller may do: at most so long after it was given."""
    restrictions: float = 600.0
    """An upstream's word on what it keeps from a caller, where the policy alone says what a caller may do."""
    unreachable: float = 3600.0
    """The same word while the upstream cannot be reached: at most so long after it was asked for."""
    dropped: float = 3600.0
    """For the deletion of a dropped table's files: a purge of a million objects takes some ten minutes."""
    staged: float = 60.0
    """Before the upstream is asked whether a staged table was committed elsewhere."""


class Doubt(Enum):
    """What was heard of a known table since its facts were learned."""

    NONE = "none"
    CHANGED = "changed"
    """It may have moved; until the upstream can be asked, it is where it was."""
    GONE = "gone"
    """The upstream denied that there is such a table, to a caller who may not be allowed to know."""


class LearnedTable(msgspec.Struct, gc=False):
    """A table that an upstream told of and that is believed. It changes as more is heard of it.

    It holds its place alone: whatever else the upstream lets it claim is inside that place, or listed in the policy.
    Nothing in it refers to the policy as a whole, so an old policy is freed however many tables were learned under it.
    """

    serial: int
    """Lower means older, in the whole process: of two claims on a place the older one stands."""
    id: TableId
    facts: TableFacts
    first: Location
    """Where it was when it was first seen."""
    place: Place
    """`first`, as the policy in force reads it."""
    table: Table
    """What a decision is made of."""
    turn: int
    """The policy that place and table were made for, as `LearnedTables` counts them."""
    soft: float = 0.0
    hard: float = 0.0
    doubt: Doubt = Doubt.NONE
    used: bool = True
    """Since it was last looked at for being forgotten."""
    confirmed: int = -1
    """The policy under which the upstream told these facts and all of them was believed, counted as `turn` is."""
    standing: Standing | None = None
    """What an upstream's word for this table amounts to, made when it is first needed under a policy."""


class Phase(Enum):
    """Where a table is that is not live."""

    STAGED = "staged"
    DROPPED = "dropped"


class PersonalTable(msgspec.Struct, gc=False):
    """A table that is not live, and that one principal alone has business with."""

    phase: Phase
    id: TableId
    principal: str
    until: float
    facts: TableFacts
    location: Location
    place: Place
    table: Table
    turn: int
    restricted: bool = False
    """Staged: the upstream keeps rows or columns of it from the principal."""
    soft: float = 0.0
    """Staged: when the upstream is to be asked whether it was committed elsewhere; 0 where it never was."""


def is_name(namespace: str, name: str) -> bool:
    """Whether this can be the name of a table: neither empty, nor endless, nor one that another could pose as."""
    return (
        bool(namespace and name)
        and len(namespace) + len(name) <= MAX_NAME
        and BEFORE_NAME not in namespace
        and BEFORE_NAME not in name
    )


def is_sound(facts: TableFacts) -> bool:
    """Whether the facts are about a table with a name, and not too long to be kept."""
    texts = (facts.uuid, facts.location, facts.metadata_location, *facts.properties, *facts.properties.values())
    return is_name(facts.namespace, facts.name) and sum(map(len, texts)) <= MAX_FACTS


class PersonalTables:
    """Personal tables of one catalog, by name and by place. Where there are too many, the oldest is forgotten."""

    def __init__(self) -> None:
        self._records: OrderedDict[int, PersonalTable] = OrderedDict()
        self._by_name: dict[tuple[str, str], tuple[PersonalTable, ...]] = {}
        self._by_principal: dict[str, OrderedDict[int, PersonalTable]] = {}
        self._places: PlaceTree[PersonalTable] = PlaceTree()

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[PersonalTable]:
        return iter(tuple(self._records.values()))

    def __contains__(self, name: tuple[str, str]) -> bool:
        """Whether a principal may have a table of a name: the table's key, and the principal."""
        return name in self._by_name

    def add(self, record: PersonalTable) -> None:
        """Keep a table."""
        of_principal = self._by_principal.get(record.principal)
        if of_principal is not None and len(of_principal) >= EACH_AT_MOST:
            self.remove(next(iter(of_principal.values())))
        elif len(self._records) >= PERSONAL_AT_MOST:
            self.remove(next(iter(self._records.values())))
        key = _key(record)
        self._records[id(record)] = record
        self._by_principal.setdefault(record.principal, OrderedDict())[id(record)] = record
        self._by_name[key] = (record, *self._by_name.get(key, ()))
        self._places.add(record.place.bucket, record.place.prefix, record)

    def remove(self, record: PersonalTable) -> None:
        """Forget a table that is kept."""
        key = _key(record)
        del self._records[id(record)]
        of_principal = self._by_principal[record.principal]
        del of_principal[id(record)]
        if not of_principal:
            del self._by_principal[record.principal]
        rest = tuple(other for other in self._by_name[key] if other is not record)
        if rest:
            self._by_name[key] = rest
        else:
            del self._by_name[key]
        self._places.remove(record.place.bucket, record.place.prefix, record)

    def of(self, namespace: str, name: str, principal: str, now: float) -> tuple[PersonalTable, ...]:
        """Return the principal's tables of a name, the newest first."""
        found = self._by_name.get((table_key(namespace, name), principal), ())
        return self._in_time(found, now) if found else ()

    def over(self, bucket: str, key: str, principal: str, now: float) -> tuple[PersonalTable, ...]:
        """Return the principal's tables that a key or list prefix lies in."""
        found = self._places.over(bucket, key)
        return tuple(record for record in self._in_time(found, now) if record.principal == principal) if found else ()

    def meeting(self, place: Place, now: float) -> tuple[PersonalTable, ...]:
        """Return every table whose place nests in this one, equals or contains it."""
        found = {id(record): record for record in self._places.meeting(place.bucket, place.prefix)}
        return self._in_time(tuple(found.values()), now)

    def _in_time(self, found: tuple[PersonalTable, ...], now: float) -> tuple[PersonalTable, ...]:
        for record in found:
            if record.until <= now:
                self.remove(record)
        return tuple(record for record in found if record.until > now)


def _key(record: PersonalTable) -> tuple[str, str]:
    return table_key(record.id.namespace, record.id.name), record.principal
