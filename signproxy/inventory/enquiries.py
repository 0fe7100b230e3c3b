"""Ask an upstream for a table, and take in what it says."""

from __future__ import annotations

from collections.abc import Callable

from signproxy.errors import Reason, Refused
from signproxy.inventory.asked import Asked
from signproxy.inventory.learned import LearnedTables, TableLoader
from signproxy.inventory.learned_table import Doubt, LearnedTable, PersonalTable
from signproxy.inventory.questions import Allowance, QuestionKey, Questions
from signproxy.inventory.sighting import Live, TableFacts
from signproxy.model import TableId
from signproxy.policy.reach import mask_at
from signproxy.policy.rights import READ_DATA, SIGN_S3_WRITE_REQUEST
from signproxy.policy.table import table_key

# Only the token's owner gains from asking again.
_HIS_OWN = frozenset({Reason.UPSTREAM_UNAUTHORIZED, Reason.UPSTREAM_BUSY})
# A sign call is answered with no other status of trouble than this one, so that clients repeat it.
_TROUBLE = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})


class Enquiries:
    """Asks with the token of the caller whose request needs the answer."""

    __slots__ = ("_clock", "_loader", "_questions", "_tables")

    def __init__(
        self, tables: LearnedTables, loader: TableLoader, clock: Callable[[], float], allowance: Allowance
    ) -> None:
        self._tables = tables
        self._loader = loader
        self._clock = clock
        self._questions = Questions(allowance)

    async def ask(self, asked: Asked, table: TableId) -> None:
        """Ask for a table and wait for the answer; raise Refused where nothing that is known can stand in for it."""
        key = self._key(asked, table)
        joined = self._questions.is_under_way(key)
        try:
            if not joined:
                self._begin(asked, table, key)
            await self._questions.answer(key)
        except Refused as refused:
            if joined and refused.reason in _HIS_OWN:
                # It was asked with another caller's token: whoever waited for it asks with his own.
                return
            if not self._stays(asked, table):
                raise

    def refresh(self, asked: Asked, table: TableId) -> None:
        """Ask for a table beside the requests that rely on what is known of it."""
        key = self._key(asked, table)
        if not self._questions.is_under_way(key) and self._questions.may_ask(asked.subject.caller.name, asked.now):
            self._questions.begin(key, self._load(asked, table))

    async def aclose(self) -> None:
        """End what is under way."""
        await self._questions.aclose()

    def _key(self, asked: Asked, table: TableId) -> QuestionKey:
        who = "" if asked.trusts_policy else asked.who
        return table.catalog, table_key(table.namespace, table.name), who

    def _begin(self, asked: Asked, table: TableId, key: QuestionKey) -> None:
        if not self._questions.may_ask(asked.subject.caller.name, asked.now):
            raise Refused(Reason.UPSTREAM_BUSY, f"principal {asked.subject.caller.name!r} asks for {str(table)!r}")
        self._questions.begin(key, self._load(asked, table))

    def _stays(self, asked: Asked, table: TableId) -> bool:
        """Whether what is known of a table stands in for the answer of an upstream that gives none."""
        if not asked.trusts_policy:
            return False
        now = self._clock()
        until = now + self._tables.freshness.retry
        live, staged = self._known(asked, table)
        if live is not None and live.doubt is not Doubt.GONE:
            live.soft = live.hard = until
            return True
        # One that was only carried here was never asked about: its table may be live, or gone again.
        if staged is not None and staged.soft:
            staged.soft = until
            return True
        return False

    async def _load(self, asked: Asked, table: TableId) -> None:
        holdings = self._tables.ground.of(table.catalog)
        facts = await self._answer(asked, table)
        if self._tables.ground.of(table.catalog) is not holdings:
            # Another upstream speaks for the catalog now; whoever waits asks that one.
            return
        now = self._clock()
        if facts is None:
            self._denied(asked, table, now)
            return
        sighting = Live(table.catalog, facts)
        refusal = self._tables.consider(sighting, now)
        if refusal is not None and refusal.other is not None and await self._has_left(asked, refusal.other, now):
            refusal = self._tables.consider(sighting, now)
        if refusal is not None:
            self._tables.alarms.sound(refusal, now)
        if not asked.trusts_policy:
            self._tables.answered(table.catalog, facts, asked.subject.caller, asked.bearer, now)

    async def _answer(self, asked: Asked, table: TableId) -> TableFacts | None:
        try:
            facts = await self._loader.load(table.catalog, table.namespace, table.name, asked.subject, asked.bearer)
        except Refused as refused:
            if refused.reason in _TROUBLE:
                raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"{refused.reason.code}: {refused.detail}") from refused
            raise
        if facts is not None and (facts.namespace, facts.name) != (table.namespace, table.name):
            raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"the answer for {str(table)!r} is about another table")
        return facts

    def _denied(self, asked: Asked, table: TableId, now: float) -> None:
        """Take in that there is no such table, or that the caller may not know of it: nobody can tell which."""
        key = table_key(table.namespace, table.name)
        self._tables.denials.absent(table.catalog, key, asked.who, now)
        self._tables.vouchers.withdraw(table.catalog, key, asked.subject.caller, asked.digest)
        live, staged = self._known(asked, table)
        if live is not None:
            if staged is not None and _gains_nothing(asked, table):
                self._tables.release(live)
            elif asked.trusts_policy:
                # Its place stays taken: others may be told something else, and nobody is to gain it by asking.
                self._tables.doubt(live, Doubt.GONE)
        if staged is not None:
            staged.soft = now + self._tables.freshness.staged

    async def _has_left(self, asked: Asked, other: TableId, now: float) -> bool:
        """Find out whether a table that stands in another's way is still there; it was seen before."""
        if other.catalog != asked.catalog.name:
            return False
        known, _ = self._known(asked, other)
        freshness = self._tables.freshness
        if known is not None and known.hard > now + freshness.hard - freshness.absent:
            # It was seen just now.
            return False
        may_know = not asked.trusts_policy or _may_read(asked, other)
        if not may_know or not self._questions.may_ask(asked.subject.caller.name, now):
            return False
        facts = await self._answer(asked, other)
        known, _ = self._known(asked, other)
        if facts is not None:
            self._tables.take(Live(other.catalog, facts), self._clock())
        elif known is not None and _gains_nothing(asked, other):
            self._tables.release(known)
        return True

    def _known(self, asked: Asked, table: TableId) -> tuple[LearnedTable | None, PersonalTable | None]:
        """Return what is known under a name now, and what the caller has staged there."""
        holdings = self._tables.ground.of(table.catalog)
        staged = holdings.staged.of(table.namespace, table.name, asked.principal, asked.now)
        return holdings.by_name.get(table_key(table.namespace, table.name)), staged[0] if staged else None


def _gains_nothing(asked: Asked, table: TableId) -> bool:
    """Whether the policy lets the caller write the table anyway, so that its place is no gain if he is wrong."""
    rights = asked.rights
    return rights is not None and not SIGN_S3_WRITE_REQUEST & ~mask_at(
        asked.catalog, rights, table.namespace, table.name
    )


def _may_read(asked: Asked, table: TableId) -> bool:
    rights = asked.rights
    return rights is not None and bool(mask_at(asked.catalog, rights, table.namespace, table.name) & READ_DATA)
