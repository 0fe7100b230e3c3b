"""Refuse places that callers choose without a voucher, before the upstream is asked to use them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from signproxy.catalog.call_body import Commit
from signproxy.catalog.chosen_locations import NAMESPACE_LOCATION, ChosenLocations
from signproxy.catalog.json_object import JsonInvalid, read_object, read_string
from signproxy.catalog.names import encode_namespace
from signproxy.catalog.upstream import Question
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.facade.believing import Believes
from signproxy.gate.turns import YieldTimer
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.chosen_places import ChosenPlaces, UnvouchedChoice, follows_layout, of_namespace
from signproxy.inventory.learned.claims import is_astray, unvouched_refusal
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.learned_table import Doubt
from signproxy.inventory.learned.sighting import Live, TableFacts
from signproxy.inventory.learned.unvouched import unvouched_place
from signproxy.model import NAMESPACE_SEPARATOR, Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Learning
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
        self,
        learned: LearnedTables,
        loader: TableLoader,
        sightings: Believes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._learned = learned
        self._places = ChosenPlaces(learned)
        self._loader = loader
        self._sightings = sightings
        self._clock = clock

    async def check(
        self,
        catalog: Catalog,
        bound: Bound,
        subject: Subject,
        bearer: str,
        chosen: Iterable[ChosenLocations],
        charge: Callable[[int], None],
    ) -> None:
        """Raise Refused (LOCATION_UNVOUCHED) for the first place of a call that has no voucher.

        Each question to the upstream is charged before it is asked.
        Raise Refused (UPSTREAM_…), too, where the upstream has to be asked for its layout and does not tell.
        """
        learning = catalog.learning
        if learning is None:
            return
        reports = _Reports(catalog, bound, subject, bearer, charge)
        for each in chosen:
            table = TableId(catalog.name, each.namespace, each.name)
            if each.name:
                if not each.creates:
                    await self._know(catalog, subject, bearer, each, reports)
                open_ = self._places.of_table(catalog, learning, table, each.locations, _actor(subject), self._clock())
                refusal = await self._of_table(learning, table, open_, reports)
            else:
                refusal = await _of_namespace(
                    learning, table, each, of_namespace(catalog, learning, each.locations), reports
                )
            if refusal is not None:
                self._learned.alarms.sound(refusal, self._clock())
                raise Refused(refusal.reason, refusal.detail)

    async def believes(
        self, catalog: Catalog, bound: Bound, subject: Subject, bearer: str, facts: TableFacts
    ) -> SightingRefusal | None:
        """Return why a table that the upstream answered with has a place that has no voucher.

        The call chose the place, and the upstream may have read the choice otherwise, or from a file.
        """
        learning = catalog.learning
        if learning is None:
            return None
        table = TableId(catalog.name, facts.namespace, facts.name)
        open_ = self._places.of_table(catalog, learning, table, (facts.location,), _actor(subject), self._clock())
        try:
            return await self._of_table(learning, table, open_, _Reports(catalog, bound, subject, bearer))
        except Refused:
            # The change is made. What has no voucher now is not believed.
            return unvouched_refusal(table, facts.location)

    async def check_commits(
        self,
        catalog: Catalog,
        bound: Bound,
        subject: Subject,
        bearer: str,
        commits: Iterable[Commit],
        charge: Callable[[int], None],
    ) -> str | None:
        """Refuse commits to tables whose place has no voucher: the upstream would write into that place.

        It would write a metadata file there, and the table would look as if the place had always been its own. Return
        the location that the last of the tables has before its commit; None where there is no such table yet.
        Each question to the upstream is charged before it is asked. Raise Refused (LOCATION_UNVOUCHED, or UPSTREAM_…
        where a table has to be asked for and the upstream does not answer).
        """
        learning = catalog.learning
        reports = _Reports(catalog, bound, subject, bearer, charge)
        before: str | None = None
        turn = YieldTimer()
        for commit in commits:
            await turn.pause()
            before = None
            if learning is None or commit.creates or catalog.table(*commit.place) is not None:
                continue
            facts = await self._facts_now(catalog, subject, bearer, commit.place, reports)
            if facts is None:
                continue
            before = facts.location
            table = TableId(catalog.name, *commit.place)
            if is_astray(facts) or unvouched_place(table, before) in self._learned.registry.unvouched:
                open_ = self._places.of_table(catalog, learning, table, (before,), _actor(subject), self._clock())
                refusal = await self._of_table(learning, table, open_, reports)
                if refusal is not None:
                    self._learned.alarms.sound(refusal, self._clock())
                    raise Refused(refusal.reason, refusal.detail)
        return before

    async def _facts_now(
        self, catalog: Catalog, subject: Subject, bearer: str, place: tuple[str, str], reports: _Reports
    ) -> TableFacts | None:
        """Return what the upstream says of a table, asked anew where that may have changed."""
        known = self._learned.ground.of(catalog.name).by_name.get(table_key(*place))
        if known is not None and known.doubt is Doubt.NONE and self._clock() < known.hard:
            return known.facts
        reports.count()
        asked = time.monotonic()
        loaded = await self._loader.load(catalog.name, *place, subject, bearer)
        if loaded is None:
            return None
        await self._sightings.tell(Live(catalog.name, loaded.facts), asked=asked)
        return loaded.facts

    async def _know(
        self, catalog: Catalog, subject: Subject, bearer: str, chosen: ChosenLocations, reports: _Reports
    ) -> None:
        """Get to know a table that is about to be moved: it keeps the place that it has now."""
        key = table_key(chosen.namespace, chosen.name)
        if (
            catalog.table(chosen.namespace, chosen.name) is not None
            or key in self._learned.ground.of(catalog.name).by_name
        ):
            return
        reports.count()
        asked = time.monotonic()
        loaded = await self._loader.load(catalog.name, chosen.namespace, chosen.name, subject, bearer)
        if loaded is not None:
            await self._sightings.tell(Live(catalog.name, loaded.facts), asked=asked)

    async def _of_table(
        self, learning: Learning, table: TableId, open_: Iterable[UnvouchedChoice], reports: _Reports
    ) -> SightingRefusal | None:
        for each in open_:
            if each.location is None:
                return unvouched_refusal(table, each.text)
            reported = await reports.of(table.namespace)
            if not follows_layout(learning, reported, each.location, table.name):
                return unvouched_refusal(table, each.text)
        return None


async def _of_namespace(
    learning: Learning, table: TableId, chosen: ChosenLocations, open_: Iterable[UnvouchedChoice], reports: _Reports
) -> SightingRefusal | None:
    """Return the refusal of a place that is neither the namespace's own nor the one that its parent gives it."""
    parent, _, level = table.namespace.rpartition(NAMESPACE_SEPARATOR)
    for each in open_:
        if each.location is None:
            return unvouched_refusal(table, each.text)
        if not chosen.creates and _same(await reports.of(table.namespace), each.text):
            continue
        if not parent or not follows_layout(learning, await reports.of(parent), each.location, level):
            return unvouched_refusal(table, each.text)
    return None


class _Reports:
    """What the upstream says of namespaces, asked with the caller's own token, once for each of them in a call."""

    def __init__(
        self,
        catalog: Catalog,
        bound: Bound,
        subject: Subject,
        bearer: str,
        charge: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._charge = charge
        self._catalog = catalog
        self._bound = bound
        self._subject = subject
        self._bearer = bearer
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
        upstream = self._bound.upstream
        authorization = await upstream.authorization(self._bearer, self._subject.caller.expires_at)
        path = f"namespaces/{encode_namespace(namespace)}"
        target = await self._bound.paths.target(path, "", authorization, _REQUEST_ID)
        headers = [("Accept", "application/json"), ("Accept-Encoding", "identity")]
        if authorization is not None:
            headers.append(("Authorization", authorization))
        async with await upstream.ask(Question("GET", target, headers, within=upstream.spec.times.load)) as answer:
            if answer.status in _UNKNOWN:
                return ""
            if answer.status != 200:
                raise Refused(reason_of_status(answer.status), f"status {answer.status} to a question for a namespace")
            content = await answer.whole(MAX_NAMESPACE)
        try:
            properties = read_object(content).get("properties")
            location = (
                None if properties is None or properties == b"null" else read_object(properties).get(NAMESPACE_LOCATION)
            )
            return "" if location is None or location == b"null" else read_string(location)
        except JsonInvalid:
            return ""


def _actor(subject: Subject) -> str:
    return "" if subject.delegated else subject.caller.name


def _same(reported: str, text: str) -> bool:
    return bool(reported) and reported.rstrip("/") == text.rstrip("/")
