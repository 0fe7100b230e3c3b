"""Decide for how long a staged table may be written, and a dropped one be cleared away, by its principal alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from signproxy.errors import Reason
from signproxy.inventory.learned.alarms import Alarms, SightingRefusal
from signproxy.inventory.learned.claims import Unbelieved, open_for_removal, place_of
from signproxy.inventory.learned.ground import UNJUDGED, Ground
from signproxy.inventory.learned.learned_table import Freshness, LearnedTable, PersonalTable, Phase, is_sound
from signproxy.inventory.learned.sighting import Dropped, Staged, TableFacts
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.table import Place, table_key

ENDED_AT_MOST = 10_000
"""Tables that ended and are remembered, so that what a client carries from before does not bring one back."""

LONGEST_STAGE = 24 * 3600.0
"""Seconds; a job that stages a table and commits it later than that has to begin anew."""


class PersonalGround:
    """Staged and dropped tables over the ground that live tables hold, which always comes first."""

    def __init__(self, ground: Ground, freshness: Freshness, alarms: Alarms) -> None:
        self._ground = ground
        self._freshness = freshness
        self._alarms = alarms
        self._ended: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def stage(self, catalog: Catalog, staged: Staged, now: float, *, checked_until: float) -> SightingRefusal | None:
        """Believe a staged create. Whether it was committed elsewhere is not checked before `checked_until`."""
        facts = staged.facts
        identity = TableId(catalog.name, facts.namespace, facts.name)
        if not is_sound(facts) or not staged.principal or staged.until <= now:
            return SightingRefusal(Reason.TABLE_UNKNOWN, "staged for no principal, or no longer", identity)
        if catalog.table(facts.namespace, facts.name) is not None:
            return None
        found = place_of(catalog, facts.location)
        if isinstance(found, Unbelieved):
            return SightingRefusal(found.reason, found.detail, identity)
        location, place = found
        refusal = self._staged_by_another(catalog, identity, place, staged.principal, now)
        if refusal is not None:
            return refusal
        namesake = self._ground.of(catalog.name).by_name.get(table_key(facts.namespace, facts.name))
        refusal = self._ground.dispute(catalog, identity, place, former=namesake)
        if refusal is not None:
            return refusal
        waits = self._ground.dispute(catalog, identity, place) is not None
        self.end_drops(catalog, facts, now)
        holdings = self._ground.of(catalog.name)
        for former in holdings.staged.of(facts.namespace, facts.name, staged.principal, now):
            holdings.staged.remove(former)
        holdings.staged.add(
            PersonalTable(
                Phase.STAGED,
                id=identity,
                principal=staged.principal,
                until=min(staged.until, now + LONGEST_STAGE),
                facts=facts,
                location=location,
                place=place,
                table=self._ground.made(catalog, identity, facts, place),
                turn=UNJUDGED if waits else self._ground.turn,
                restricted=staged.restricted,
                soft=checked_until,
            )
        )
        if not waits:
            return None
        return SightingRefusal(
            Reason.TABLE_UNKNOWN, "a table of this name is known at its place; it is asked for", identity
        )

    def drop(self, catalog: Catalog, known: LearnedTable, dropped: Dropped, now: float) -> None:
        """Let the principal that dropped a table, which is held no longer, clear its files away."""
        self.end(catalog.name, known.facts, dropped.at)
        record = PersonalTable(
            Phase.DROPPED,
            id=known.id,
            principal=dropped.principal,
            until=dropped.at + self._freshness.dropped,
            facts=known.facts,
            location=known.first,
            place=known.place,
            table=known.table,
            turn=UNJUDGED,
        )
        if record.until > now and dropped.principal and dropped.uuid is not None:
            self._ground.of(catalog.name).dropped.add(record)
            # Another table may have shared the place all along; then there is nothing to clear away.
            self.usable_dropped(catalog, (record,))

    def usable_staged(
        self, catalog: Catalog, records: Iterable[PersonalTable], now: float
    ) -> tuple[PersonalTable, ...]:
        """Return which of a principal's staged tables stand; those that never will are forgotten."""
        usable = []
        for record in records:
            if record.turn != self._ground.turn:
                refusal = self._ground.judge_personal(catalog, record, exclusive=False)
                if refusal is not None and refusal.other == record.id:
                    # The table that had the name before; whether it is gone will be found out.
                    record.turn = UNJUDGED
                    continue
                if refusal is not None:
                    self._ground.of(catalog.name).staged.remove(record)
                    self._alarms.sound(refusal, now)
                    continue
            usable.append(record)
        return tuple(usable)

    def usable_dropped(self, catalog: Catalog, records: Iterable[PersonalTable]) -> tuple[PersonalTable, ...]:
        """Return which of a principal's dropped tables no other table claims; the others are forgotten."""
        usable = []
        for record in records:
            if record.turn != self._ground.turn:
                if self._ground.judge_personal(catalog, record, exclusive=True) is not None:
                    self._ground.of(catalog.name).dropped.remove(record)
                    continue
                record.table = open_for_removal(record.table)
            usable.append(record)
        return tuple(usable)

    def end(self, catalog: str, facts: TableFacts, at: float) -> None:
        """Remember that a table ended, against answers and carried facts of before."""
        key = (catalog, table_key(facts.namespace, facts.name), facts.uuid)
        self._ended[key] = at
        self._ended.move_to_end(key)
        if len(self._ended) > ENDED_AT_MOST:
            self._ended.popitem(last=False)

    def ended_at(self, catalog: str, key: str, uuid: str) -> float | None:
        """Return when this very table ended; None where that is not known, or it has no UUID to know it by."""
        return self._ended.get((catalog, key, uuid)) if uuid else None

    def end_drops(self, catalog: Catalog, facts: TableFacts, now: float) -> None:
        """End the rights of those who dropped a table at a place that is claimed again, whether or not with success."""
        for text in (facts.location, *facts.properties.values()):
            found = place_of(catalog, text)
            if not isinstance(found, Unbelieved):
                for other in self._ground.around(catalog, found[1].bucket):
                    dropped = self._ground.of(other.name).dropped
                    for record in dropped.meeting(found[1], now):
                        dropped.remove(record)

    def end_stages(self, catalog: Catalog, place: Place, now: float) -> None:
        """End what was staged at a place that a live table holds from now on: its own commit, or another's."""
        for other in self._ground.around(catalog, place.bucket):
            staged = self._ground.of(other.name).staged
            for record in staged.meeting(place, now):
                staged.remove(record)

    def _staged_by_another(
        self, catalog: Catalog, identity: TableId, place: Place, principal: str, now: float
    ) -> SightingRefusal | None:
        for other in self._ground.around(catalog, place.bucket):
            for record in self._ground.of(other.name).staged.meeting(place, now):
                if record.principal != principal:
                    detail = f"{str(place)!r} meets {str(record.place)!r}, which another principal has staged"
                    return SightingRefusal(Reason.LOCATION_DISPUTED, detail, identity)
        return None
