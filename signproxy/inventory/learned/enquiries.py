"""Ask an upstream for a table, and take in what it says.

There is one question for all who wait, and not more than a caller may cause.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.asked import Asked
from signproxy.inventory.learned.departures import Departures, answer_for, gains_nothing
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.learned_table import Doubt, LearnedTable, PersonalTable
from signproxy.inventory.learned.sighting import Live
from signproxy.inventory.learned.vouchers import EVERY_CALLER, Recipient, answered
from signproxy.model import Subject, TableId
from signproxy.policy.table import table_key
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.learned")

CALLERS_AT_MOST = 10_000
"""Callers whose questions are counted; one that is pushed out begins with a full allowance again."""

QuestionKey = tuple[str, str, str]
"""Catalog, table, and the caller where the answer is for that caller alone."""


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """How many tables may be asked for because of one principal.

    A client that loads a table through the facade before it signs asks for none this way. What is left is a start
    with many tables in use, and a caller that guesses names.
    """

    per_second: float = 10.0
    burst: float = 50.0


class Questions:
    """Questions that are under way, and what each caller may still ask."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._under_way: dict[QuestionKey, asyncio.Task[None]] = {}
        # Principal -> what is left, and when that was so.
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def is_under_way(self, key: QuestionKey) -> bool:
        """Whether the question has been asked and not been answered."""
        return key in self._under_way

    def may_ask(self, principal: str, now: float) -> bool:
        """Whether a question may be asked because of a principal; counts it."""
        left, since = self._spent.get(principal, (self._allowance.burst, now))
        left = min(self._allowance.burst, left + max(0.0, now - since) * self._allowance.per_second)
        allowed = left >= 1.0
        self._spent[principal] = (left - 1.0 if allowed else left, now)
        self._spent.move_to_end(principal)
        if len(self._spent) > CALLERS_AT_MOST:
            self._spent.popitem(last=False)
        return allowed

    def begin(self, key: QuestionKey, question: Coroutine[object, object, None]) -> None:
        """Ask what is not under way. The question goes on if the caller that asked goes away: others may wait too."""
        task = asyncio.get_running_loop().create_task(question)
        self._under_way[key] = task
        task.add_done_callback(partial(self._done, key))

    async def answer(self, key: QuestionKey) -> None:
        """Wait for what is under way; raise what asking raised."""
        await asyncio.shield(self._under_way[key])

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, key: QuestionKey, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        # Looked at here: the callers that waited may all be gone.
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not isinstance(fault, Refused):
            _log.error("upstream not asked", error=f"{type(fault).__name__}: {fault}")


# Only the token's owner gains from asking again.
_OF_ONE_CALLER = frozenset({Reason.UPSTREAM_UNAUTHORIZED, Reason.UPSTREAM_BUSY})

_NO_ANSWER = frozenset({Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_FAILED})


class Enquiries:
    """Asks with the token of the caller whose request needs the answer."""

    def __init__(
        self, tables: LearnedTables, loader: TableLoader, clock: Callable[[], float], allowance: Allowance
    ) -> None:
        self._tables = tables
        self.tell: Callable[[Live, float], Awaitable[object]] | None = None
        """Lets the other workers know of a table that was not known; given `time.monotonic()` of the question."""
        self._loader = loader
        self._clock = clock
        self._questions = Questions(allowance)
        self.departures = Departures(tables, loader, clock, self._questions.may_ask)

    async def ask(self, asked: Asked, table: TableId) -> None:
        """Ask for a table and wait for the answer; raise Refused where nothing that is known can stand in for it."""
        key = self._key(asked, table)
        joined = self._questions.is_under_way(key)
        try:
            if not joined:
                self._begin(asked, table, key)
            await self._questions.answer(key)
        except Refused as refused:
            if joined and refused.reason in _OF_ONE_CALLER:
                # It was asked with another caller's token: the one that waited for it asks with its own.
                return
            if not self._stays(asked, table, refused.reason):
                raise

    def refresh(self, asked: Asked, table: TableId) -> None:
        """Ask for a table beside the requests that rely on what is known of it."""
        key = self._key(asked, table)
        if not self._questions.is_under_way(key) and self._may_ask(asked, table):
            self._questions.begin(key, self._load(asked, table))

    async def is_restricted(self, subject: Subject, bearer: str, recipient: Recipient, table: TableId) -> bool:
        """Ask whether a caller may read all of a table; where there is none for it, nothing is kept from it.

        Raise Refused (UPSTREAM_…) where the upstream does not answer, and has not done so for a long time.
        """
        sent, key = self._clock(), table_key(table.namespace, table.name)
        if not self._questions.may_ask(subject.caller.name, sent):
            raise Refused(Reason.UPSTREAM_BUSY, f"principal {subject.caller.name!r} asks for {str(table)!r}")
        try:
            loaded = await self._loader.load(table.catalog, table.namespace, table.name, subject, bearer)
        except Refused as refused:
            held = self._tables.vouchers.last(table.catalog, key, recipient)
            if (
                held is None
                or refused.reason not in _NO_ANSWER
                or sent >= held.sent + self._tables.freshness.unreachable
            ):
                raise
            return held.restricted
        if loaded is None:
            return False
        self._tables.answered(answered(table.catalog, loaded, recipient), self._clock(), sent)
        return loaded.restricted

    async def aclose(self) -> None:
        """End what is under way."""
        await self._questions.aclose()

    def _key(self, asked: Asked, table: TableId) -> QuestionKey:
        # An answer is of the token that was shown, and what is denied of one is not to wait for another's.
        for_all = asked.trusts_policy and (asked.recipient is None or asked.recipient is EVERY_CALLER)
        return table.catalog, table_key(table.namespace, table.name), "" if for_all else asked.who

    def _begin(self, asked: Asked, table: TableId, key: QuestionKey) -> None:
        if not self._may_ask(asked, table):
            raise Refused(Reason.UPSTREAM_BUSY, f"principal {asked.subject.caller.name!r} asks for {str(table)!r}")
        self._questions.begin(key, self._load(asked, table))

    def _may_ask(self, asked: Asked, table: TableId) -> bool:
        """Whether a caller may cause a question. What is asked of it again is no guess, and comes at its own pace."""
        recipient, key = asked.recipient, table_key(table.namespace, table.name)
        if recipient is not None and self._tables.vouchers.last(table.catalog, key, recipient) is not None:
            return True
        return self._questions.may_ask(asked.subject.caller.name, asked.now)

    def _stays(self, asked: Asked, table: TableId, reason: Reason) -> bool:
        """Whether what is known of table and caller stands in for the answer of an upstream that gives none."""
        if not asked.trusts_policy:
            return False
        now = self._clock()
        until = now + self._tables.freshness.retry
        live, staged = self._known(asked, table)
        if staged is None and not self._may_still_read(asked, table, reason, now):
            return False
        stays = False
        if live is not None and live.doubt is not Doubt.GONE:
            live.soft = live.hard = until
            stays = True
        # One that was only carried here was never asked about: its table may be live, or gone again.
        if staged is not None and staged.soft:
            staged.soft = until
            stays = True
        return stays

    def _may_still_read(self, asked: Asked, table: TableId, reason: Reason, now: float) -> bool:
        """Whether the upstream's last word on what this caller may read counts, or may count for a little longer."""
        recipient, freshness = asked.recipient, self._tables.freshness
        if recipient is None:
            return True
        held = self._tables.vouchers.last(table.catalog, table_key(table.namespace, table.name), recipient)
        live, _ = self._known(asked, table)
        if held is None or (live is not None and live.facts.uuid != held.uuid):
            return False
        if now < held.until:
            return True
        end = min(held.sent + freshness.unreachable, recipient.ends)
        # A token that is refused, or too many questions, would be a way to keep an answer that has become another.
        if reason not in _NO_ANSWER or now >= end:
            return False
        held.until = min(now + freshness.retry, end)
        return True

    async def _load(self, asked: Asked, table: TableId) -> None:
        holdings = self._tables.ground.of(table.catalog)
        sent, asked_at = self._clock(), time.monotonic()
        was_known = self._known(asked, table)[0] is not None
        loaded = await answer_for(self._loader, asked, table)
        if self._tables.ground.of(table.catalog) is not holdings:
            # Another upstream speaks for the catalog now; a caller that waits asks that one.
            return
        now = self._clock()
        if loaded is None:
            self._denied(asked, table, now, sent)
            return
        facts = loaded.facts
        sighting = Live(table.catalog, facts)
        refusal = self._tables.consider(sighting, now, sent)
        if refusal is not None and refusal.other is not None and await self.departures.has_left(asked, refusal.other):
            refusal = self._tables.consider(sighting, now, sent)
        if refusal is not None:
            self._tables.alarms.sound(refusal, now)
        _, staged = self._known(asked, table)
        if staged is not None and staged.facts.uuid and staged.facts.uuid == facts.uuid:
            # It was committed. Where its place is not believed, the stage does not stand in for that.
            holdings.staged.remove(staged)
            self._tables.personal.end(table.catalog, staged.facts, -math.inf)
        elif staged is not None:
            # Another table has its name, at another place: it was not committed there.
            staged.soft = now + self._tables.freshness.staged
        if asked.recipient is not None:
            self._tables.answered(answered(table.catalog, loaded, asked.recipient), now, sent)
        if refusal is None and not was_known and self.tell is not None:
            # A worker that does not know of the table would believe the next one that claims its place.
            await self.tell(sighting, asked_at)

    def _denied(self, asked: Asked, table: TableId, now: float, sent: float) -> None:
        """Take in that there is no such table, or that the caller may not know of it: the two look alike."""
        key = table_key(table.namespace, table.name)
        if asked.recipient is not None:
            self._tables.vouchers.withdraw(table.catalog, key, asked.recipient, sent)
        live, staged = self._known(asked, table)
        if live is not None and live.hard > sent + self._tables.freshness.hard:
            # It was made, or seen, after the question was sent.
            return
        self._tables.denials.absent(table.catalog, key, asked.who, now)
        if live is not None:
            if staged is not None and gains_nothing(asked, table):
                self._tables.leave(table, now)
            elif asked.trusts_policy and live.hard <= sent + self._tables.freshness.hard - self._tables.freshness.soft:
                # It was seen just now otherwise, and this caller was asked for to know what it may read of it.
                # Its place stays taken: others may be told something else, and no caller is to gain it by asking.
                self._tables.doubt(live, Doubt.GONE)
        if staged is not None:
            staged.soft = now + self._tables.freshness.staged

    def _known(self, asked: Asked, table: TableId) -> tuple[LearnedTable | None, PersonalTable | None]:
        """Return what is known under a name now, and what the caller has staged there."""
        holdings = self._tables.ground.of(table.catalog)
        staged = holdings.staged.of(table.namespace, table.name, asked.principal, asked.now)
        return holdings.by_name.get(table_key(table.namespace, table.name)), staged[0] if staged else None
