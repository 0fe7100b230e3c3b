"""Believe what an upstream says of its tables, as far as no other table loses by it."""

from __future__ import annotations

from typing import Protocol, assert_never

import msgspec

from signproxy.errors import Reason
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.claims import (
    Unbelieved,
    is_astray,
    is_listed,
    is_operators,
    listing_of,
    location_in,
    place_of,
    unbelieved,
    unvouched_place,
    unvouched_refusal,
)
from signproxy.inventory.learned.ground import UNJUDGED
from signproxy.inventory.learned.known_tables import KnownTables
from signproxy.inventory.learned.learned_table import Doubt, LearnedTable, is_name, is_sound
from signproxy.inventory.learned.registry import Completeness, is_same
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
from signproxy.inventory.learned.vouchers import AsksAs
from signproxy.model import Subject, TableId
from signproxy.policy.catalog import Authorizer, Catalog, Learning
from signproxy.policy.table import table_key

__all__ = ["LearnedTables", "SightingRefusal", "TableLoader"]


class TableLoader(Protocol):
    """Asks an upstream for a table."""

    def asks_as(self, catalog: str) -> AsksAs:
        """Return as whom the upstream of a catalog is asked."""

    async def load(self, catalog: str, namespace: str, name: str, subject: Subject, bearer: str) -> Loaded | None:
        """Ask the upstream with the caller's own token. None: there is no such table, or the caller may not see it.

        Raise Refused: UPSTREAM_UNAUTHORIZED where the token is refused, another UPSTREAM_… where it gives no answer.
        """


class LearnedTables(KnownTables):
    """The learned tables of all catalogs, which believe sightings.

    A table holds the place where it was first seen, and the first one there keeps it. Older means: known here for
    longer under its name and UUID. A UUID alone proves nothing, since the client that registers a table with an
    upstream writes the metadata that holds it; so no table inherits another's place by it.
    """

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
        if catalog is None or catalog.learning is None:
            # Nothing is learned for a catalog that does not want it.
            return SightingRefusal(
                Reason.CATALOG_UNKNOWN, f"catalog {sighting.catalog!r} learns no tables", _id_of(sighting)
            )
        match sighting:
            case Live():
                return self._live(catalog, sighting, now, now if sent is None else sent)
            case Staged():
                return self._staged(catalog, sighting, now, checked_until=now + self.freshness.staged)
            case Dropped():
                self._dropped(catalog, sighting, now)
            case Renamed():
                self._renamed(catalog, sighting, now)
            case Gone():
                self._doubt_named(catalog, sighting.namespace, sighting.name, Doubt.GONE)
            case Changed():
                self._doubt_named(catalog, sighting.namespace, sighting.name, Doubt.CHANGED)
            case Answered():
                self._answered(catalog, sighting, now, now if sent is None else sent)
            case _:
                assert_never(sighting)
        return None

    def adopt(self, staged: Staged, now: float) -> SightingRefusal | None:
        """Believe a staged create that its principal carried here, once the upstream was asked for the table."""
        catalog = self.ground.current().catalogs[staged.catalog]
        facts = staged.facts
        ended = self.personal.ended_at(catalog.name, table_key(facts.namespace, facts.name), facts.uuid)
        if catalog.learning is None or ended is not None:
            return SightingRefusal(Reason.TABLE_UNKNOWN, "the staged table has ended", _id(catalog, facts))
        return self._staged(catalog, staged, now, checked_until=0.0)

    def answered(self, answered: Answered, now: float, sent: float) -> bool:
        """Remember what the upstream answered a caller; return whether the other workers have yet to hear of it."""
        catalog = self.ground.current().catalogs.get(answered.catalog)
        return catalog is not None and catalog.learning is not None and self._answered(catalog, answered, now, sent)

    def _live(self, catalog: Catalog, live: Live, now: float, sent: float) -> SightingRefusal | None:
        facts = live.facts
        key = table_key(facts.namespace, facts.name)
        ended = self.personal.ended_at(catalog.name, key, facts.uuid)
        is_over = ended is not None and sent <= ended
        held = None if is_over else self._unchanged(catalog, key, facts)
        if held is not None:
            self.confirm(held, now)
            return None
        identity = _id(catalog, facts)
        if not is_sound(facts):
            return SightingRefusal(Reason.TABLE_UNKNOWN, "without a name, or too long to be kept", identity)
        if is_over:
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
        known = self.named(catalog, facts.namespace, facts.name, now)
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
            refusal = self._vouched(catalog.learns, live, identity) or self._learn(catalog, identity, facts, now)
            if refusal is not None:
                self.denials.refused(catalog.name, key, refusal, now)
                return refusal
            known = self.ground.of(catalog.name).by_name[key]
        elif known.facts != facts:
            self.personal.end_drops(catalog, facts, now)
            known.facts = facts
            known.table = self.ground.made(catalog, identity, facts, known.place)
        self.confirm(known, now)
        doubtful = unbelieved(catalog, facts, known.place, listing_of(catalog.learns, identity, facts.uuid))
        known.confirmed = known.turn if doubtful is None else UNJUDGED
        return None if doubtful is None else SightingRefusal(doubtful.reason, doubtful.detail, identity)

    def _unchanged(self, catalog: Catalog, key: str, facts: TableFacts) -> LearnedTable | None:
        """Return the table of these facts where nothing that depends on them, or on the policy, can have changed."""
        known = self.ground.of(catalog.name).by_name.get(key)
        if known is None or known.confirmed != self.ground.turn:
            return None
        if known.doubt is not Doubt.NONE or known.facts != facts:
            return None
        registered = self.registry.of(catalog.name).named(key)
        return known if registered is None or is_same(registered, facts) else None

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

    def _learn(self, catalog: Catalog, identity: TableId, facts: TableFacts, now: float) -> SightingRefusal | None:
        """Let a table that was not known hold its place, if no other holds it."""
        if self.registry.completeness(catalog.name, now) is Completeness.MISSING:
            return SightingRefusal(
                Reason.INVENTORY_MISSING, "no inventory of the upstream tells whose the place is", identity
            )
        self.personal.end_drops(catalog, facts, now)
        registered = self.registry.find(identity)
        first = facts.location
        if registered is not None and registered.holdings:
            # It may have moved since it was first seen, before this process began or while it was forgotten.
            first = str(registered.holdings[0])
        found = place_of(catalog, first)
        if isinstance(found, Unbelieved):
            return SightingRefusal(found.reason, found.detail, identity)
        location, place = found
        refusal = self.ground.dispute(catalog, identity, place)
        if refusal is not None:
            return refusal
        self.personal.end_stages(catalog, place, now)
        table = self.ground.made(catalog, identity, facts, place)
        self.ground.hold(LearnedTable(next(self._serials), identity, facts, location, place, table, self.ground.turn))
        self.registry.register(identity, facts, first, now)
        return None

    def _staged(self, catalog: Catalog, staged: Staged, now: float, *, checked_until: float) -> SightingRefusal | None:
        facts = staged.facts
        if self.registry.completeness(catalog.name, now) is Completeness.MISSING:
            detail = "no inventory of the upstream tells whose the place is"
            return SightingRefusal(Reason.INVENTORY_MISSING, detail, _id(catalog, facts))
        # An upstream that looks lets no name be staged that a table has; whether this one did is found out before use.
        self._doubt_named(catalog, facts.namespace, facts.name, Doubt.CHANGED)
        self.denials.clear(catalog.name, table_key(facts.namespace, facts.name))
        return self.personal.stage(catalog, staged, now, checked_until=checked_until)

    def _answered(self, catalog: Catalog, answered: Answered, now: float, sent: float) -> bool:
        freshness = self.freshness
        seconds = freshness.restrictions if catalog.authorizer is Authorizer.POLICY else freshness.answer
        return self.vouchers.add(answered, now, seconds=seconds, sent=sent)

    def _dropped(self, catalog: Catalog, dropped: Dropped, now: float) -> None:
        known = self.named(catalog, dropped.namespace, dropped.name, now)
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
            self.personal.drop(catalog, known, dropped, now)

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


def _is_same(known: TableFacts, facts: TableFacts) -> bool:
    """Whether two answers under one name are of one table; without a UUID only its place can tell."""
    return known.uuid == facts.uuid and (bool(facts.uuid) or known.location == facts.location)


def _id(catalog: Catalog, facts: TableFacts) -> TableId:
    return TableId(catalog.name, facts.namespace, facts.name)


def _id_of(sighting: Sighting) -> TableId:
    named = sighting.facts if isinstance(sighting, Live | Staged) else sighting
    return TableId(sighting.catalog, named.namespace, named.name)
