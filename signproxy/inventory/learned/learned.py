"""Believe what an upstream says of its tables, as far as no other table loses by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Protocol, assert_never

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.learned.alarms import Alarms, SightingRefusal
from signproxy.inventory.learned.claims import (
    Unbelieved,
    is_astray,
    is_listed,
    is_operators,
    listing_of,
    location_in,
    place_of,
    unbelieved,
    unvouched_refusal,
)
from signproxy.inventory.learned.ground import AT_MOST, Ground
from signproxy.inventory.learned.hearsay import Denials
from signproxy.inventory.learned.learned_table import (
    Doubt,
    Freshness,
    LearnedTable,
    is_name,
    is_sound,
)
from signproxy.inventory.learned.personal_ground import PersonalGround
from signproxy.inventory.learned.registry import Completeness, LocationRegistry, is_same
from signproxy.inventory.learned.sighting import (
    Answered,
    Changed,
    Dropped,
    Gone,
    Live,
    Loaded,
    Renamed,
    Sighting,
    Staged,
    TableFacts,
)
from signproxy.inventory.learned.unvouched import unvouched_place
from signproxy.inventory.learned.vouchers import AsksAs, Vouchers
from signproxy.model import Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Authorizer, Learning
from signproxy.policy.state import PolicyState
from signproxy.policy.table import table_key

__all__ = ["LearnedTables", "SightingRefusal", "TableLoader"]

DEFAULT_FRESHNESS = Freshness()


class TableLoader(Protocol):
    """Asks an upstream for a table."""

    def asks_as(self, catalog: str) -> AsksAs:
        """Return as whom the upstream of a catalog is asked."""
        ...

    async def load(self, catalog: str, namespace: str, name: str, subject: Subject, bearer: str) -> Loaded | None:
        """Ask the upstream with the caller's own token. None: there is no such table, or the caller may not see it.

        Raise Refused: UPSTREAM_UNAUTHORIZED where the token is refused, another UPSTREAM_… where it gives no answer.
        """
        ...


class LearnedTables:
    """The learned tables of all catalogs: one per process, on the event loop's thread. Policy reloads leave it alone.

    A table holds the place where it was first seen, and the first one there keeps it. Older means: known here for
    longer under its name and UUID. A UUID alone proves nothing, since the client that registers a table with an
    upstream writes the metadata that holds it; so no table inherits another's place by it.
    """

    def __init__(
        self,
        state: Callable[[], PolicyState],
        freshness: Freshness = DEFAULT_FRESHNESS,
        at_most: int = AT_MOST,
        registry: LocationRegistry | None = None,
    ) -> None:
        self.freshness = freshness
        self.ground = Ground(state, at_most, registry)
        self.registry = self.ground.registry
        self.alarms = Alarms()
        self.denials = Denials(freshness.absent)
        self.vouchers = Vouchers()
        self._serials = count(1)
        self.personal = PersonalGround(self.ground, freshness, self.alarms)

    def take(self, sighting: Sighting, now: float, sent: float | None = None) -> SightingRefusal | None:
        """Believe a sighting, and return what of it is not believed; `now` is Unix time.

        `sent` is when the call was sent that it answers: what it tells may be as old. None stands for `now`.
        What is refused is refused with an alarm. A table may be believed at its first place and no other.
        """
        refusal = self.consider(sighting, now, sent)
        if refusal is not None:
            self.alarms.sound(refusal, now)
        return refusal

    def consider(self, sighting: Sighting, now: float, sent: float | None = None) -> SightingRefusal | None:
        """Do as `take` does, but without an alarm: for a caller that first finds out whether another table stands."""
        catalog = self.ground.current().catalogs.get(sighting.catalog)
        learning = None if catalog is None else catalog.learning
        if catalog is None or learning is None:
            # Nothing is learned for a catalog that does not want it.
            return SightingRefusal(
                Reason.CATALOG_UNKNOWN, f"catalog {sighting.catalog!r} learns no tables", _id_of(sighting)
            )
        match sighting:
            case Live():
                return self._live(catalog, learning, sighting, now, now if sent is None else sent)
            case Staged():
                return self._staged(catalog, learning, sighting, now, checked_until=now + self.freshness.staged)
            case Dropped():
                self._dropped(catalog, learning, sighting, now)
            case Renamed():
                self._renamed(catalog, sighting, now)
            case Gone():
                self._doubt_named(catalog, sighting.namespace, sighting.name, Doubt.GONE)
            case Changed():
                self._doubt_named(catalog, sighting.namespace, sighting.name, Doubt.CHANGED)
            case Answered():
                self._answered(learning, sighting, now, now if sent is None else sent)
            case _:
                assert_never(sighting)
        return None

    def adopt(self, staged: Staged, now: float) -> SightingRefusal | None:
        """Believe a staged create that its principal carried here, once the upstream was asked for the table."""
        catalog = self.ground.current().catalogs[staged.catalog]
        if catalog.learning is None or self.personal.ended_at(staged.catalog, staged.facts) is not None:
            return SightingRefusal(Reason.TABLE_UNKNOWN, "the staged table has ended", _id(catalog, staged.facts))
        return self._staged(catalog, catalog.learning, staged, now, checked_until=0.0)

    def answered(self, answered: Answered, now: float, sent: float) -> bool:
        """Remember what the upstream answered a caller; return whether the other workers have yet to hear of it."""
        catalog = self.ground.current().catalogs.get(answered.catalog)
        learning = None if catalog is None else catalog.learning
        return learning is not None and self._answered(learning, answered, now, sent)

    def forget(self, catalog: str) -> None:
        """Forget what the upstream of a catalog said, because another one speaks for it from now on."""
        self.ground.drop_catalog(catalog)
        self.registry.forget(catalog)
        self.denials.forget(catalog)
        self.vouchers.forget(catalog)

    def named(self, catalog: Catalog, learning: Learning, namespace: str, name: str, now: float) -> LearnedTable | None:
        """Return the table of this name, judged by the policy in force."""
        table = self.ground.of(catalog.name).by_name.get(table_key(namespace, name))
        return table if table is not None and self._holds(catalog, learning, table, now) else None

    def owners(
        self, catalog: Catalog, learning: Learning, bucket: str, key: str, now: float
    ) -> tuple[LearnedTable, ...]:
        """Return the tables whose own place a key lies in, judged by the policy in force."""
        found = self.ground.of(catalog.name).places.over(bucket, key)
        return tuple([table for table in found if self._holds(catalog, learning, table, now)])

    def reached(
        self, catalog: Catalog, learning: Learning, bucket: str, prefix: str, now: float
    ) -> tuple[LearnedTable, ...]:
        """Return the tables whose own place begins with a prefix and is longer."""
        found = tuple(self.ground.of(catalog.name).places.below(bucket, prefix))
        return tuple([table for table in found if self._holds(catalog, learning, table, now)])

    def doubt(self, table: LearnedTable, doubt: Doubt) -> None:
        """Have a table asked for before it is used again; it keeps its place."""
        table.soft = table.hard = 0.0
        if table.doubt is not Doubt.GONE:
            table.doubt = doubt

    def leave(self, table: TableId, now: float) -> None:
        """Let a table go that its upstream denied to a caller that may write it anyway, and so gains nothing."""
        self.registry.remove(table, now)
        known = self.ground.of(table.catalog).by_name.get(table_key(table.namespace, table.name))
        if known is not None:
            self.ground.forget(known)
            self.personal.end(table.catalog, known.facts, -math.inf)

    def _holds(self, catalog: Catalog, learning: Learning, table: LearnedTable, now: float) -> bool:
        if table.turn == self.ground.turn:
            return True
        refusal = self.ground.judge(catalog, learning, table)
        if refusal is None:
            return True
        self.alarms.sound(refusal, now)
        return False

    def _live(
        self, catalog: Catalog, learning: Learning, live: Live, now: float, sent: float
    ) -> SightingRefusal | None:
        facts = live.facts
        identity = _id(catalog, facts)
        if not is_sound(facts):
            return SightingRefusal(Reason.TABLE_UNKNOWN, "without a name, or too long to be kept", identity)
        key = table_key(facts.namespace, facts.name)
        ended = self.personal.ended_at(catalog.name, facts)
        if ended is not None and sent <= ended:
            # The upstream may have answered before the drop. It is not denied for that: a caller that asks now is told.
            return SightingRefusal(Reason.TABLE_UNKNOWN, "the call was under way when the table was dropped", identity)
        declared = catalog.table(facts.namespace, facts.name)
        if declared is not None:
            if declared.uuid in ("", facts.uuid):
                return None
            other = SightingRefusal(
                Reason.TABLE_UNKNOWN, f"the upstream's is {facts.uuid!r}, not {declared.uuid!r}", identity
            )
            self.denials.refused(catalog.name, key, other, now)
            return other
        known = self.named(catalog, learning, facts.namespace, facts.name, now)
        if known is not None and not _is_same(known.facts, facts):
            # The upstream says itself that the table which had the name has it no longer.
            self.ground.forget(known)
            self.personal.end(catalog.name, known.facts, now)
            known = None
        registered = self.registry.find(identity)
        if registered is not None and not is_same(registered, facts):
            self.registry.remove(identity, now)
        if known is None or known.doubt is Doubt.GONE:
            # What was denied to some may only have been seen too early.
            self.denials.clear(catalog.name, key)
        if known is None:
            refusal = self._vouched(learning, live, identity) or self._learn(catalog, learning, identity, facts, now)
            if refusal is not None:
                self.denials.refused(catalog.name, key, refusal, now)
                return refusal
            known = self.ground.of(catalog.name).by_name[key]
        elif known.facts != facts:
            self.personal.end_drops(catalog, learning, facts, now)
            known.facts = facts
            known.table = self.ground.made(catalog, learning, identity, facts, known.place)
        known.soft = now + self.freshness.soft
        known.hard = now + self.freshness.hard
        known.doubt = Doubt.NONE
        known.used = True
        doubtful = unbelieved(catalog, learning, facts, known.place, listing_of(learning, identity, facts.uuid))
        return None if doubtful is None else SightingRefusal(doubtful.reason, doubtful.detail, identity)

    def _vouched(self, learning: Learning, live: Live, identity: TableId) -> SightingRefusal | None:
        """Refuse a place that a caller chose without a voucher, now and whenever the upstream repeats it.

        That no other table is known to have the place vouches for nothing, not even where an inventory was taken: it
        cannot know of a table that was made past this process since.
        """
        facts = live.facts
        place = unvouched_place(identity, facts.location)
        chosen = not live.vouched or place in self.registry.unvouched
        if not chosen and (live.placed or not is_astray(facts)):
            return None
        location = location_in(facts.location)
        listing = listing_of(learning, identity, facts.uuid)
        if location is not None and (is_operators(learning, location) or is_listed(listing, location)):
            return None
        if chosen:
            self.registry.unvouched.add(place)
        return unvouched_refusal(identity, facts.location)

    def _learn(
        self, catalog: Catalog, learning: Learning, identity: TableId, facts: TableFacts, now: float
    ) -> SightingRefusal | None:
        """Let a table that was not known hold its place, if no other holds it."""
        if self.registry.completeness(catalog.name, now) is Completeness.MISSING:
            return SightingRefusal(
                Reason.INVENTORY_MISSING, "no inventory of the upstream tells whose the place is", identity
            )
        self.personal.end_drops(catalog, learning, facts, now)
        registered = self.registry.find(identity)
        first = facts.location
        if registered is not None and registered.holdings:
            # It may have moved since it was first seen, before this process began or while it was forgotten.
            first = str(registered.holdings[0])
        found = place_of(catalog, learning, first)
        if isinstance(found, Unbelieved):
            return SightingRefusal(found.reason, found.detail, identity)
        location, place = found
        refusal = self.ground.dispute(catalog, identity, place)
        if refusal is not None:
            return refusal
        self.personal.end_stages(catalog, place, now)
        table = self.ground.made(catalog, learning, identity, facts, place)
        self.ground.hold(LearnedTable(next(self._serials), identity, facts, location, place, table, self.ground.turn))
        self.registry.register(identity, facts, first, now)
        return None

    def _staged(
        self, catalog: Catalog, learning: Learning, staged: Staged, now: float, *, checked_until: float
    ) -> SightingRefusal | None:
        facts = staged.facts
        if self.registry.completeness(catalog.name, now) is Completeness.MISSING:
            detail = "no inventory of the upstream tells whose the place is"
            return SightingRefusal(Reason.INVENTORY_MISSING, detail, _id(catalog, facts))
        # An upstream that looks lets no name be staged that a table has; whether this one did is found out before use.
        self._doubt_named(catalog, facts.namespace, facts.name, Doubt.CHANGED)
        self.denials.clear(catalog.name, table_key(facts.namespace, facts.name))
        return self.personal.stage(catalog, learning, staged, now, checked_until=checked_until)

    def _answered(self, learning: Learning, answered: Answered, now: float, sent: float) -> bool:
        freshness = self.freshness
        seconds = freshness.restrictions if learning.authorizer is Authorizer.POLICY else freshness.answer
        return self.vouchers.add(answered, now, seconds=seconds, sent=sent)

    def _dropped(self, catalog: Catalog, learning: Learning, dropped: Dropped, now: float) -> None:
        known = self.named(catalog, learning, dropped.namespace, dropped.name, now)
        identity = TableId(catalog.name, dropped.namespace, dropped.name)
        registered = self.registry.find(identity)
        if registered is not None and dropped.uuid in (None, registered.uuid):
            self.registry.remove(identity, now)
        if known is None:
            return
        if dropped.uuid is not None and dropped.uuid != known.facts.uuid:
            # Another table took the name while the drop was under way: it is not the one that is gone.
            self._doubt_named(catalog, dropped.namespace, dropped.name, Doubt.CHANGED)
        else:
            self.ground.forget(known)
            self.personal.drop(catalog, learning, known, dropped, now)

    def _renamed(self, catalog: Catalog, renamed: Renamed, now: float) -> None:
        by_name = self.ground.of(catalog.name).by_name
        source, target = table_key(renamed.namespace, renamed.name), table_key(renamed.to_namespace, renamed.to_name)
        if not is_name(renamed.to_namespace, renamed.to_name) or source == target:
            return
        replaced = by_name.get(target)
        if replaced is not None:
            # A table can only be given a name that no table has.
            self.ground.forget(replaced)
        self.denials.clear(catalog.name, target)
        to = TableId(catalog.name, renamed.to_namespace, renamed.to_name)
        self.registry.rename(TableId(catalog.name, renamed.namespace, renamed.name), to, now)
        known = by_name.get(source)
        if known is not None:
            known.facts = msgspec.structs.replace(known.facts, namespace=to.namespace, name=to.name)
            self.ground.rename(known, to)

    def _doubt_named(self, catalog: Catalog, namespace: str, name: str, doubt: Doubt) -> None:
        known = self.ground.of(catalog.name).by_name.get(table_key(namespace, name))
        if known is not None:
            self.doubt(known, doubt)


def _is_same(known: TableFacts, facts: TableFacts) -> bool:
    """Whether two answers under one name are of one table; without a UUID only its place can tell."""
    return known.uuid == facts.uuid and (bool(facts.uuid) or known.location == facts.location)


def _id(catalog: Catalog, facts: TableFacts) -> TableId:
    return TableId(catalog.name, facts.namespace, facts.name)


def _id_of(sighting: Sighting) -> TableId:
    named = sighting.facts if isinstance(sighting, Live | Staged) else sighting
    return TableId(sighting.catalog, named.namespace, named.name)
