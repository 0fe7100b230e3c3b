"""List every table of an upstream and where it lies: page by page, in bounds, and again from where it was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from email.utils import parsedate_to_datetime
from time import time
from urllib.parse import quote

from multidict import CIMultiDictProxy

from signproxy.catalog.call import table_path
from signproxy.catalog.list_answer import ListPage, read_list_page
from signproxy.catalog.names import encode_segment, name_problem, namespace_problem
from signproxy.catalog.table_answer import read_table
from signproxy.catalog.upstream import own_question
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstream_spec import InventorySpec
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import TableFacts
from signproxy.model import NAMESPACE_SEPARATOR

ATTEMPTS = 6
"""At one page or table, a minute or so in all: an upstream that restarts or throttles is waited for."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between two attempts, doubling from the first to the last; no `Retry-After` is waited for longer."""

MAX_PAGES = 1_000_000
"""Of one list: an upstream whose page tokens never end is no list."""

UNREADABLE_AT_MOST = 100
UNREADABLE_SHARE = 100
"""Tables that the upstream fails to load, before it is the upstream that fails: so many, or one of so many if more.

A single broken table, which every writer of metadata files can make, must not hold up the others for good.
"""

_REQUEST_ID = "signproxy-inventory"
_AGAIN = frozenset({Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_FAILED, Reason.UPSTREAM_TIMEOUT})

TableName = tuple[str, str]
"""Levels of the namespace joined by U+001F, and the name."""


class UpstreamInventory:
    """One inventory of one upstream; `run` it once."""

    def __init__(
        self,
        bound: Bound,
        spec: InventorySpec,
        found: Callable[[TableFacts], None],
        *,
        known: Collection[TableName] = (),
        at_most: int = 1_000_000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`found` is told of each table; those in `known` were told of before the inventory was cut off."""
        self.tables = len(known)
        self.namespaces = 0
        self.unreadable: list[TableName] = []
        """Tables that the upstream lists and cannot load: where they lie is not known."""
        self._bound = bound
        self._spec = spec
        self._found = found
        self._known = known
        self._at_most = at_most
        self._sleep = sleep
        self._resume = asyncio.Event()
        self._resume.set()

    async def run(self) -> None:
        """List all of it. Raise Refused (UPSTREAM_…, CALL_NOT_PERMITTED): then it is not complete."""
        waiting: asyncio.Queue[TableName | None] = asyncio.Queue(4 * self._spec.connections)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._spec.connections):
                    tasks.create_task(self._load_all(waiting))
                async for name in self._names():
                    await waiting.put(name)
                for _ in range(self._spec.connections):
                    await waiting.put(None)
        except* Refused as group:
            raise _first(group) from None

    async def _names(self) -> AsyncIterator[TableName]:
        """Yield every table's name, namespace by namespace, none twice."""
        parents: list[tuple[str, ...]] = [()]
        seen: set[tuple[str, ...]] = set()
        while parents:
            parent = parents.pop()
            query = f"parent={quote(NAMESPACE_SEPARATOR.join(parent), safe='')}" if parent else ""
            async for page in self._pages("namespaces", query):
                for levels in page.namespaces or ():
                    # A catalog that knows no parents lists those at the top again and again.
                    if levels in seen or len(levels) <= len(parent) or levels[: len(parent)] != parent:
                        continue
                    seen.add(levels)
                    parents.append(levels)
            if parent:
                self.namespaces += 1
                async for name in self._tables_in(parent):
                    yield name

    async def _tables_in(self, levels: tuple[str, ...]) -> AsyncIterator[TableName]:
        namespace = _joined(levels)
        names: set[str] = set()
        async for page in self._pages(f"namespaces/{encode_segment(namespace)}/tables", ""):
            for identifier in page.identifiers or ():
                if identifier.namespace != levels or identifier.name in names:
                    continue
                if problem := name_problem(identifier.name):
                    raise _unnamed(f"table {identifier.name!r} in {'.'.join(levels)!r}", problem)
                names.add(identifier.name)
                if (namespace, identifier.name) not in self._known:
                    yield namespace, identifier.name

    async def _pages(self, path: str, query: str) -> AsyncIterator[ListPage]:
        token: str | None = "" if self._spec.page_size else None
        told: set[str] = set()
        while True:
            parts = [query] if query else []
            if token is not None:
                parts.append(f"pageToken={quote(token, safe='')}")
            if self._spec.page_size:
                parts.append(f"pageSize={self._spec.page_size}")
            content = await self._get(path, "&".join(parts), self._bound.upstream.spec.times.answer)
            if content is None:
                # The namespace was dropped meanwhile.
                return
            page = read_list_page(content, f"a list of {path!r}")
            yield page
            token = page.next_page_token or None
            if token is None:
                return
            if token in told or len(told) >= MAX_PAGES:
                raise Refused(Reason.UPSTREAM_INVALID, f"a list of {path!r} repeats its pages")
            told.add(token)

    async def _load_all(self, waiting: asyncio.Queue[TableName | None]) -> None:
        while (name := await waiting.get()) is not None:
            await self._load(*name)

    async def _load(self, namespace: str, name: str) -> None:
        try:
            content = await self._get(
                table_path(namespace, name), "snapshots=refs", self._bound.upstream.spec.times.load
            )
            if content is None:
                return
            facts = read_table(content, namespace, name).facts
        except Refused as refused:
            if refused.reason not in (*_AGAIN, Reason.UPSTREAM_INVALID):
                raise
            self.unreadable.append((namespace, name))
            if len(self.unreadable) > max(UNREADABLE_AT_MOST, self.tables // UNREADABLE_SHARE):
                raise
            return
        self.tables += 1
        if self.tables > self._at_most:
            raise Refused(Reason.UPSTREAM_INVALID, f"more than {self._at_most:,} tables (`sightings.max_tables`)")
        self._found(facts)

    async def _get(self, path: str, query: str, within: float) -> bytes | None:
        """Return what is there, None for 404. Raise Refused once there is nothing to be hoped for."""
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            await self._resume.wait()
            try:
                return await self._ask(path, query, within)
            except _Again as again:
                if attempt == ATTEMPTS:
                    raise again.refused from None
                wait = pause if again.after is None else min(max(again.after, 0.0), LONGEST_PAUSE)
                await self._wait(wait, throttled=again.after is not None)
                pause = min(2 * pause, LONGEST_PAUSE)
        return None

    async def _wait(self, seconds: float, *, throttled: bool) -> None:
        """Wait; where the upstream asks for less, let no other question go out meanwhile."""
        if not throttled:
            await self._sleep(seconds)
            return
        self._resume.clear()
        try:
            await self._sleep(seconds)
        finally:
            self._resume.set()

    async def _ask(self, path: str, query: str, within: float) -> bytes | None:
        upstream = self._bound.upstream
        authorization = None if self._spec.token is None else f"Bearer {self._spec.token.reveal()}"
        try:
            target = await self._bound.paths.target(path, query, authorization, _REQUEST_ID)
            async with await upstream.ask(own_question(target, authorization, _REQUEST_ID, within)) as answer:
                match answer.status:
                    case 200:
                        return await answer.whole()
                    case 404:
                        return None
                    case status:
                        refused = Refused(reason_of_status(status), f"status {status} to GET {path!r}")
                        if status == 429 or status >= 500:
                            raise _Again(refused, _retry_after(answer.headers) if status in (429, 503) else None)
                        raise refused
        except Refused as refused:
            if refused.reason in _AGAIN:
                raise _Again(refused, None) from None
            raise


class _Again(Exception):
    """The question may be asked again, after so many seconds where the upstream says it."""

    def __init__(self, refused: Refused, after: float | None) -> None:
        super().__init__(refused)
        self.refused = refused
        self.after = after


def _retry_after(headers: CIMultiDictProxy[str]) -> float | None:
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return parsedate_to_datetime(text).timestamp() - time() if text else None
    except ValueError:
        return None


def _first(group: ExceptionGroup[Refused]) -> Refused:
    for each in group.exceptions:
        return _first(each) if isinstance(each, ExceptionGroup) else each
    raise ValueError("an empty group")


def _joined(levels: tuple[str, ...]) -> str:
    namespace = NAMESPACE_SEPARATOR.join(levels)
    problem = namespace_problem(namespace)
    if problem or namespace.count(NAMESPACE_SEPARATOR) >= len(levels):
        raise _unnamed(f"namespace {'.'.join(levels)!r}", problem or "has a level that would be two")
    return namespace


def _unnamed(what: str, problem: str) -> Refused:
    return Refused(Reason.UPSTREAM_INVALID, f"{what} {problem}: no call could name it, so its place cannot be known")
