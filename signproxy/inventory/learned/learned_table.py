"""Hold what is known of one learned table, and how long it may be relied on.

staged (one principal's) ──committed──> live ──dropped through the facade──> dropped (one principal's) ──> forgotten
live:  fresh ──soft──> serves, asked beside ──hard──> asked first ──answered──> fresh
       any answer may leave a doubt: it changed (asked first), or it is gone (asked first; its place stays taken)
"""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import TableId
from signproxy.policy.catalog import Place, Table
from signproxy.policy.location import Location
from signproxy.policy.standing import Standing
from signproxy.policy.table import BEFORE_NAME

MAX_NAME = 1024
"""Characters of a namespace and a name together; no upstream is asked for a table whose name is longer."""

MAX_FACTS = 8192
"""Characters of everything that is said of a table. What is kept of tables is bounded by their number."""


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
