"""Refuse places that callers choose without a voucher, before the upstream is asked to use them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from signproxy.catalog.chosen_locations import NAMESPACE_LOCATION, ChosenLocations
from signproxy.catalog.json_object import JsonInvalid, read_object, read_string
from signproxy.catalog.names import encode_namespace
from signproxy.catalog.upstream import Question
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.inventory.alarms import Refusal
from signproxy.inventory.chosen_places import ChosenPlaces, Unvouched, follows_layout, of_namespace
from signproxy.inventory.claims import unvouched_refusal
from signproxy.inventory.learned import LearnedTables, TableLoader
from signproxy.inventory.sighting import Live, TableFacts
from signproxy.model import NAMESPACE_SEPARATOR, Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Learning
from signproxy.policy.table import table_key
from signproxy.server.sightings import Sightings

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
        sightings: Sightings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._learned = learned
        self._places = ChosenPlaces(learned)
        self._loader = loader
        self._sightings = sightings
        self._clock = clock

    async def check(
        self, catalog: Catalog, bound: Bound, subject: Subject, bearer: str, chosen: Iterable[ChosenLocations]
    ) -> None:
        """Raise Refused (LOCATION_UNVOUCHED) for the first place of a call that has no voucher.

        Raise Refused (UPSTREAM_…), too, where the upstream has to be asked for its layout and does not tell.
        """
        learning = catalog.learning
        if learning is None:
            return
        reports = _Reports(catalog, bound, subject, bearer)
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
    ) -> Refusal | None:
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
        self, learning: Learning, table: TableId, open_: Iterable[Unvouched], reports: _Reports
    ) -> Refusal | None:
        for each in open_:
            if each.location is None:
                return unvouched_refusal(table, each.text)
            reported = await reports.of(table.namespace)
            if not follows_layout(learning, reported, each.location, table.name):
                return unvouched_refusal(table, each.text)
        return None


async def _of_namespace(
    learning: Learning, table: TableId, chosen: ChosenLocations, open_: Iterable[Unvouched], reports: _Reports
) -> Refusal | None:
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

    def __init__(self, catalog: Catalog, bound: Bound, subject: Subject, bearer: str) -> None:
        self._catalog = catalog
        self._bound = bound
        self._subject = subject
        self._bearer = bearer
        self._told: dict[str, str] = {}
        self._asked = 0

    def count(self) -> None:
        """Count a question. Raise Refused (LOCATION_UNVOUCHED) where a call needs too many of them."""
        self._asked += 1
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
