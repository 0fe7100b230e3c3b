"""Refuse places that callers choose, before the upstream uses them: without a voucher, or another table's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from signproxy.catalog.call_body import Commit, Place
from signproxy.catalog.chosen_locations import NAMESPACE_LOCATION, ChosenLocations
from signproxy.catalog.json_object import JsonInvalid, member, read_object, read_string
from signproxy.catalog.names import encode_segment
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.errors import Reason, Refused
from signproxy.facade.asking import AdmittedCall, Believes
from signproxy.gate.turns import YieldTimer
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.asked import Asker
from signproxy.inventory.learned.chosen_places import ChosenPlaces, follows_layout, may_be_s3, of_namespace
from signproxy.inventory.learned.claims import Unbelieved, is_astray, place_of, unvouched_place, unvouched_refusal
from signproxy.inventory.learned.departures import Departures
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.learned_table import Doubt, LearnedTable
from signproxy.inventory.learned.sighting import Live, TableFacts
from signproxy.model import NAMESPACE_SEPARATOR, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.table import table_key

MAX_QUESTIONS = 50
"""To the upstream because of one call: a transaction may name ten thousand tables, each with a place of its own."""

MAX_NAMESPACE = 1024 * 1024
"""Bytes of what is said of a namespace."""

_REQUEST_ID = "signproxy-place"
_UNKNOWN = frozenset({403, 404})


class LocationChoices:
    """Judges what one process is asked to pass on."""

    __slots__ = ("_clock", "_learned", "_loader", "_places", "_sightings")

    def __init__(
        self, learned: LearnedTables, loader: TableLoader, sightings: Believes, clock: Callable[[], float] = time.time
    ) -> None:
        self._learned = learned
        self._places = ChosenPlaces(learned)
        self._loader = loader
        self._sightings = sightings
        self._clock = clock

    async def check(
        self, asking: AdmittedCall, chosen: Iterable[ChosenLocations], charge: Callable[[int], None]
    ) -> None:
        """Raise Refused (LOCATION_UNVOUCHED) for the first place of a call that has no voucher.

        Each question to the upstream is charged before it is asked.
        Raise Refused (UPSTREAM_…), too, where the upstream has to be asked for its layout and does not tell.
        """
        catalog = asking.catalog
        if catalog.learning is None:
            return
        reports = _Reports(asking, charge)
        for each in chosen:
            if each.name:
                place = each.namespace, each.name
                if not each.creates and catalog.table(*place) is None and self._known(asking, place) is None:
                    # It is about to be moved: it keeps the place that it has now.
                    await self._load(asking, place, reports)
                table = TableId(catalog.name, *place)
                self._check(await self._unvouched(asking, table, each.locations, reports))
            else:
                self._check(await _of_namespace(catalog, each, reports))

    async def believes(self, asking: AdmittedCall, facts: TableFacts) -> SightingRefusal | None:
        """Return why a table that the upstream answered with has a place that has no voucher.

        The call chose the place, and the upstream may have read the choice otherwise, or from a file.
        """
        if asking.catalog.learning is None:
            return None
        table = TableId(asking.catalog.name, facts.namespace, facts.name)
        try:
            return await self._unvouched(asking, table, (facts.location,), _Reports(asking))
        except Refused:
            # The change is made. What has no voucher now is not believed.
            return unvouched_refusal(table, facts.location)

    async def check_commits(
        self, asking: AdmittedCall, commits: Iterable[Commit], charge: Callable[[int], None]
    ) -> str | None:
        """Refuse commits to tables whose place has no voucher: the upstream would write into that place.

        It would write a metadata file there, and the table would look as if the place had always been its own. Return
        the location that the last of the tables has before its commit; None where there is no such table yet.
        Each question to the upstream is charged before it is asked. Raise Refused (LOCATION_UNVOUCHED, or UPSTREAM_…
        where a table has to be asked for and the upstream does not answer).
        """
        catalog = asking.catalog
        reports = _Reports(asking, charge)
        before: str | None = None
        turn = YieldTimer()
        for commit in commits:
            await turn.pause()
            before = None
            if catalog.learning is None or commit.creates or catalog.table(*commit.place) is not None:
                continue
            known = self._known(asking, commit.place)
            if known is not None and known.doubt is Doubt.NONE and self._clock() < known.hard:
                facts: TableFacts | None = known.facts
            else:
                facts = await self._load(asking, commit.place, reports)
            if facts is None:
                continue
            before = facts.location
            table = TableId(catalog.name, *commit.place)
            if is_astray(facts) or unvouched_place(table, before) in self._learned.registry.unvouched:
                self._check(await self._unvouched(asking, table, (before,), reports))
        return before

    def _check(self, refusal: SightingRefusal | None) -> None:
        if refusal is not None:
            self._learned.alarms.sound(refusal, self._clock())
            raise Refused(refusal.reason, refusal.detail)

    def _known(self, asking: AdmittedCall, place: Place) -> LearnedTable | None:
        return self._learned.ground.of(asking.catalog.name).by_name.get(table_key(*place))

    async def _load(self, asking: AdmittedCall, place: Place, reports: _Reports) -> TableFacts | None:
        """Return what the upstream says of a table, and take it in."""
        reports.count()
        asked, catalog = time.monotonic(), asking.catalog.name
        loaded = await self._loader.load(catalog, *place, asking.subject, asking.bearer)
        if loaded is None:
            return None
        await self._sightings.tell(Live(catalog, loaded.facts), asked=asked)
        return loaded.facts

    async def _unvouched(
        self, asking: AdmittedCall, table: TableId, texts: Iterable[str], reports: _Reports
    ) -> SightingRefusal | None:
        """Return the refusal of the first of these places that nothing vouches for as the table's."""
        catalog = asking.catalog
        for each in self._places.of_table(catalog, table, texts, asking.subject.owner, self._clock()):
            if each.location is None or not follows_layout(
                catalog.learns, await reports.of(table.namespace), each.location, table.name
            ):
                return unvouched_refusal(table, each.text)
        return None


async def _of_namespace(catalog: Catalog, chosen: ChosenLocations, reports: _Reports) -> SightingRefusal | None:
    """Return the refusal of a place that is neither the namespace's own nor the one that its parent gives it."""
    namespace = chosen.namespace
    parent, _, level = namespace.rpartition(NAMESPACE_SEPARATOR)
    for each in of_namespace(catalog, chosen.locations):
        if each.location is not None:
            if not chosen.creates and _same(await reports.of(namespace), each.text):
                continue
            if parent and follows_layout(catalog.learns, await reports.of(parent), each.location, level):
                continue
        return unvouched_refusal(TableId(catalog.name, namespace, ""), each.text)
    return None


class _Reports:
    """What the upstream says of namespaces, asked with the caller's own token, once for each of them in a call."""

    def __init__(self, asking: AdmittedCall, charge: Callable[[int], None] = lambda _: None) -> None:
        self._asking = asking
        self._charge = charge
        self._told: dict[str, str] = {}
        self._asked = 0

    def count(self) -> None:
        """Count and charge a question. Raise Refused (LOCATION_UNVOUCHED) where a call needs too many of them."""
        self._asked += 1
        self._charge(1)
        if self._asked > MAX_QUESTIONS:
            raise Refused(
                Reason.LOCATION_UNVOUCHED, f"more than {MAX_QUESTIONS} places of one call have to be asked for"
            )

    async def of(self, namespace: str) -> str:
        """Return a namespace's location; empty where the caller is told none. Raise Refused."""
        if namespace not in self._told:
            self.count()
            self._told[namespace] = await self._ask(namespace)
        return self._told[namespace]

    async def _ask(self, namespace: str) -> str:
        asking, path = self._asking, f"namespaces/{encode_segment(namespace)}"
        expires_at = asking.subject.caller.expires_at
        async with await asking.bound.look_up(path, "", asking.bearer, expires_at, _REQUEST_ID) as answer:
            if answer.status in _UNKNOWN:
                return ""
            if answer.status != 200:
                raise Refused(reason_of_status(answer.status), f"status {answer.status} to a question for a namespace")
            content = await answer.whole(MAX_NAMESPACE)
        try:
            properties = member(read_object(content), "properties")
            location = None if properties is None else member(read_object(properties), NAMESPACE_LOCATION)
            return "" if location is None else read_string(location)
        except JsonInvalid:
            return ""


def _same(reported: str, text: str) -> bool:
    return bool(reported) and reported.rstrip("/") == text.rstrip("/")


class PlaceConflicts:
    """Compares places with those that known tables hold."""

    __slots__ = ("_clock", "_departures", "_learned")

    def __init__(self, learned: LearnedTables, departures: Departures, clock: Callable[[], float] = time.time) -> None:
        self._learned = learned
        self._departures = departures
        self._clock = clock

    async def check(self, asking: AdmittedCall, chosen: Iterable[ChosenLocations]) -> None:
        """Raise Refused (LOCATION_CONFLICT) for the first place of a call that cannot be its table's."""
        catalog = asking.catalog
        if catalog.learning is None:
            return
        for each in chosen:
            if not each.name or catalog.table(each.namespace, each.name) is not None:
                continue
            refusal = self._conflict(catalog, each)
            if refusal is not None and await self.has_left(asking, refusal):
                refusal = self._conflict(catalog, each)
            if refusal is not None:
                raise Refused(Reason.LOCATION_CONFLICT, f"{refusal.reason.code}: {refusal.detail}")

    async def has_left(self, asking: AdmittedCall, refusal: SightingRefusal) -> bool:
        """Whether it is worth to look again: the table that stood in the way may be gone."""
        if refusal.other is None:
            return False
        rights = self._learned.ground.current().rights(asking.subject.effective, asking.catalog)
        asker = Asker(asking.catalog, asking.subject, rights, asking.bearer)
        try:
            return await self._departures.has_left(asker, refusal.other)
        except Refused:
            # An upstream that does not answer now lets nothing go.
            return False

    def _conflict(self, catalog: Catalog, chosen: ChosenLocations) -> SightingRefusal | None:
        table = TableId(catalog.name, chosen.namespace, chosen.name)
        known = self._learned.named(catalog, chosen.namespace, chosen.name, self._clock())
        for text in filter(may_be_s3, chosen.locations):
            found = place_of(catalog, text)
            if isinstance(found, Unbelieved):
                return SightingRefusal(found.reason, found.detail, table)
            refusal = self._learned.ground.dispute(catalog, table, found[1], former=known)
            if refusal is not None:
                return refusal
        return None
