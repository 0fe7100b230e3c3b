"""Find the tables that a request concerns where an upstream tells of them, asking it where that must be."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.asked import Asked, Found, FoundByName, Holder, Missing, SealedContext, table_in
from signproxy.inventory.learned.departures import Departures
from signproxy.inventory.learned.enquiries import Allowance, Enquiries
from signproxy.inventory.learned.holders import Holders
from signproxy.inventory.learned.learned import LearnedTables, TableLoader
from signproxy.inventory.learned.learned_table import LearnedTable, PersonalTable, Phase, is_name
from signproxy.inventory.learned.sighting import Live, Loaded
from signproxy.inventory.learned.unquestioned import Unquestioned
from signproxy.inventory.learned.vouchers import EVERY_CALLER, AsksAs, Recipient, Voucher, recipient_of
from signproxy.model import Deny, NamedTable, Subject, TableId, Target
from signproxy.policy.catalog import Authorizer, Catalog, Learning, Overlap, TableBinding
from signproxy.policy.decide import lacking
from signproxy.policy.privileges import Privilege
from signproxy.policy.reach import mask_at
from signproxy.policy.rights import (
    READ_DATA,
    REMOTE_SIGN,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    WRITE_DATA,
    Standing,
)
from signproxy.policy.table import BEFORE_NAME, Table, table_key
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request

DEFAULT_ALLOWANCE = Allowance()

_REMOVES = REMOTE_SIGN | int(Privilege.TABLE_DROP)
"""What the policy must still grant a principal that removes the files of a table that it dropped."""

# Members of an enum are slow to look up by name, and these are looked up for every request.
_STRICT = TableBinding.STRICT
_FORBIDDEN = Overlap.FORBIDDEN
_POLICY = Authorizer.POLICY


class NoUpstream:
    """A loader for where no upstream is asked, such as `explain`."""

    def asks_as(self, catalog: str) -> AsksAs:  # noqa: ARG002
        """Say that no upstream is asked."""
        return AsksAs.NONE

    async def load(self, catalog: str, namespace: str, name: str, subject: Subject, bearer: str) -> Loaded | None:  # noqa: ARG002
        """Refuse: the upstream knows the table, and is not asked here."""
        table = str(TableId(catalog, namespace, name))
        raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"the upstream tells where {table!r} lies, and is not asked here")


class LearnedResolver:
    """Serves catalogs with `tables: upstream`: at once on a hit, after a question to the upstream otherwise."""

    def __init__(
        self,
        tables: LearnedTables,
        loader: TableLoader,
        clock: Callable[[], float] = time.time,
        allowance: Allowance = DEFAULT_ALLOWANCE,
    ) -> None:
        self.tables = tables
        self._clock = clock
        self._loader = loader
        self._holders = Holders(tables)
        self._enquiries = Enquiries(tables, loader, clock, allowance)

    def resolve(
        self,
        catalog: Catalog,
        learning: Learning,
        subject: Subject,
        target: Target,
        request: S3Request,
        bearer: str,
        carried: SealedContext | None,
    ) -> Found | Deny | Awaitable[None]:
        """Return the tables; or the refusal of a caller who may not even cause a question; or what to wait for.

        The catalog is one of the policy in force, and `learning` its own.
        A caller that waited asks again, of the policy then in force. Raise Refused where there is no such table.
        """
        now = self._clock()
        state = self.tables.ground.current()
        holdings = self.tables.ground.of(catalog.name)
        known: LearnedTable | None = None
        # What nearly every request is: about one table that is known, and of which nothing has been heard since.
        if catalog.overlap is _FORBIDDEN:
            if type(target) is NamedTable and catalog.binding is _STRICT:
                key = f"{target.namespace}{BEFORE_NAME}{target.name}"
                if not holdings.dropped or (key, subject.caller.name) not in holdings.dropped:
                    known = holdings.by_name.get(key)
            elif request.copy_source is None and not request.delete_keys:
                owners = holdings.places.over(request.bucket, request.key or request.prefix)
                if len(owners) == 1 and (type(target) is not NamedTable or _is_named(owners[0], target)):
                    known = owners[0]
        # One whose name is declared since, or whose place, has not been judged since.
        if (
            known is not None
            and known.turn == self.tables.ground.turn
            and now < known.soft
            and self.tables.vouchers.is_clear(subject.caller, known, now)
        ):
            if learning.authorizer is _POLICY:
                known.used = True
                return Found((known.table,))
            if not subject.delegated:
                known.used = True
                return Found((known.table,), known.standing or _upstreams(known, learning))
        rights = state.rights(subject.effective, catalog)
        recipient = self._recipient(catalog, subject, bearer)
        return self._resolve(Asked(catalog, subject, rights, bearer, target, request, recipient, carried, now))

    def unquestioned(self, catalog: Catalog, subject: Subject, bucket: str, key: str) -> Unquestioned | None:
        """Return the one table that `resolve` finds for a key by its location, where that needs no question now."""
        owners = self.tables.ground.of(catalog.name).places.over(bucket, key)
        if len(owners) != 1 or catalog.overlap is not _FORBIDDEN:
            return None
        known = owners[0]
        if subject.delegated and catalog.authorizer is not _POLICY:
            return None
        found = Unquestioned(self.tables, known, known.table, subject.caller)
        return found if found.holds(bucket, key, self._clock()) else None

    def named(
        self, catalog: Catalog, subject: Subject, target: NamedTable, bearer: str
    ) -> FoundByName | Deny | Awaitable[None]:
        """Return the table of a name, as `resolve` returns those of a request. Raise Refused.

        One that was dropped is none, also to the principal that may still delete its files.
        """
        state, storage = self.tables.ground.current(), next(iter(catalog.storages.values()))
        # A read of no object: what is asked for is asked because of the name.
        request = S3Request(Operation.GET_OBJECT, "GET", "", storage, "", "", "", "", "", (), "")
        rights, recipient = state.rights(subject.effective, catalog), self._recipient(catalog, subject, bearer)
        asked = Asked(catalog, subject, rights, bearer, target, request, recipient, None, self._clock())
        holder = self._holders.named(asked, target)
        if isinstance(holder, PersonalTable) and holder.phase is Phase.DROPPED:
            raise Refused(Reason.TABLE_UNKNOWN, f"{str(holder.id)!r} was dropped")
        found = self._found(asked, holder if isinstance(holder, Missing) else (holder,))
        if not isinstance(found, Found):
            return found
        spelled = "" if isinstance(holder, Table | Missing) else holder.facts.location
        return FoundByName(found.owners[0], found.standing, spelled, isinstance(holder, PersonalTable))

    async def is_restricted(self, catalog: Catalog, subject: Subject, bearer: str, table: TableId) -> bool:
        """Whether the upstream keeps rows or columns of a table from a caller; it is asked where that is not known.

        A caller whom the policy lets read nothing there causes no question. Raise Refused (UPSTREAM_…).
        """
        learning = catalog.learning
        recipient = None if learning is None else self._recipient(catalog, subject, bearer)
        if learning is None or recipient is None or not is_name(table.namespace, table.name):
            return False
        held = self.tables.vouchers.find(
            catalog.name, table_key(table.namespace, table.name), None, recipient, self._clock()
        )
        if held is not None:
            return held.restricted
        rights = self.tables.ground.current().rights(subject.effective, catalog)
        mask = 0 if rights is None else mask_at(catalog, rights, table.namespace, table.name)
        if learning.authorizer is not Authorizer.CATALOG and SIGN_S3_READ_REQUEST & ~mask:
            return False
        return await self._enquiries.is_restricted(subject, bearer, recipient, table)

    @property
    def departures(self) -> Departures:
        """What finds out whether a table that stands in another's way is still there."""
        return self._enquiries.departures

    def share(self, tell: Callable[[Live, float], Awaitable[object]]) -> None:
        """Let others know of tables that a question made known here; `tell` is given when it was asked."""
        self._enquiries.tell = tell

    async def aclose(self) -> None:
        """End what is still being asked."""
        await self._enquiries.aclose()

    def _recipient(self, catalog: Catalog, subject: Subject, bearer: str) -> Recipient | None:
        """Return whom the upstream would answer; None where the policy alone counts, because no upstream is asked."""
        if catalog.authorizer is _POLICY:
            asks_as = self._loader.asks_as(catalog.name)
            if asks_as is not AsksAs.CALLER:
                return EVERY_CALLER if asks_as is AsksAs.SERVICE else None
        return recipient_of(subject.caller, bearer)

    def _resolve(self, asked: Asked) -> Found | Deny | Awaitable[None]:
        return self._found(asked, self._holders.find(asked))

    def _found(self, asked: Asked, owners: tuple[Holder, ...] | Missing) -> Found | Deny | Awaitable[None]:
        request = asked.request
        need = SIGN_S3_WRITE_REQUEST if request.operation.needs_write else SIGN_S3_READ_REQUEST
        if isinstance(owners, Missing):
            return self._ask_for(asked, owners, need)
        sources: tuple[Holder, ...] = ()
        # Where a copy stays in the table that is written, the table itself says so.
        elsewhere = asked.catalog.binding is not _STRICT or asked.catalog.overlap is not _FORBIDDEN
        if request.copy_source is not None and elsewhere:
            found = self._holders.sources(asked, request.copy_source)
            if isinstance(found, Missing):
                return self._ask_for(asked, found, SIGN_S3_READ_REQUEST)
            sources = found
        wanted: list[TableId] = []
        for holder, needed in (*_each(owners, need), *_each(sources, SIGN_S3_READ_REQUEST)):
            if self._must_ask(asked, holder):
                denial = self._refuse(asked, table_in(holder).id, Reason.TABLE_UNKNOWN, needed)
                if denial is not None:
                    return denial
                wanted.append(table_in(holder).id)
        if wanted:
            return self._ask(asked, wanted)
        if not asked.trusts_policy and asked.subject.delegated and asked.catalog.authorizer is Authorizer.BOTH:
            return Deny(Reason.NO_REMOTE_SIGN, "an upstream answers for its caller alone", table_in(owners[0]).id)
        read_from = tuple([table_in(holder) for holder in sources]) if request.copy_source and elsewhere else None
        restricted = tuple([table_in(holder).id for holder in (*owners, *sources) if self._restricts(asked, holder)])
        return Found(tuple([table_in(holder) for holder in owners]), _standing(asked, owners, read_from, restricted))

    def _voucher(self, asked: Asked, recipient: Recipient, holder: Table | LearnedTable) -> Voucher | None:
        """Return the upstream's answer to the caller for a table, while it counts."""
        table = table_in(holder)
        key = table_key(table.id.namespace, table.id.name)
        # A declared table is the one of its name unless the policy says which.
        uuid = table.uuid if isinstance(holder, LearnedTable) else table.uuid or None
        voucher = self.tables.vouchers.find(asked.catalog.name, key, uuid, recipient, asked.now)
        age = self.tables.freshness.answer
        if voucher is None or asked.trusts_policy or voucher.until <= voucher.sent + age:
            return voucher
        # It was given while the policy alone said what a caller may do, and what it restricts was all that counted.
        voucher.until = voucher.sent + age
        voucher.refresh = min(voucher.refresh, voucher.sent + age / 2)
        return voucher if asked.now < voucher.until else None

    def _restricts(self, asked: Asked, holder: Holder) -> bool:
        """Whether the upstream keeps rows or columns of a table from the caller."""
        if isinstance(holder, PersonalTable):
            return holder.restricted
        voucher = None if asked.recipient is None else self._voucher(asked, asked.recipient, holder)
        return voucher is not None and voucher.restricted

    def _ask_for(self, asked: Asked, missing: Missing, need: int) -> Deny | Awaitable[None]:
        if not is_name(missing.table.namespace, missing.table.name):
            raise Refused(missing.reason, "no name of a table")
        denial = self._refuse(asked, missing.table, missing.reason, need)
        return self._ask(asked, [missing.table]) if denial is None else denial

    async def _ask(self, asked: Asked, tables: Iterable[TableId]) -> None:
        for table in tables:
            await self._enquiries.ask(asked, table)

    def _refuse(self, asked: Asked, table: TableId, reason: Reason, need: int) -> Deny | None:
        """Refuse a question that was just answered, or whose answer the policy would not let the caller use."""
        if asked.catalog.authorizer is Authorizer.CATALOG:
            need &= ~SIGN_S3_READ_REQUEST
        missing = need & ~asked.mask(table)
        if missing:
            return lacking(asked.subject, table, missing)
        key = table_key(table.namespace, table.name)
        denial = self.tables.denials.found(table.catalog, key, asked.who, asked.now)
        if denial is None:
            return None
        refusal = denial[1]
        if refusal is not None:
            raise Refused(refusal.reason, refusal.detail)
        raise Refused(reason, f"the upstream has no table {str(table)!r} for this caller")

    def _must_ask(self, asked: Asked, holder: Holder) -> bool:
        """Whether a table must be asked for before it can be used; have it asked for beside, where it soon must be."""
        if isinstance(holder, PersonalTable):
            # The upstream accepted the stage or the drop; what is committed since, it tells.
            return holder.phase is Phase.STAGED and asked.now >= holder.soft
        must = beside = False
        if isinstance(holder, LearnedTable):
            holder.used = True
            must = asked.now >= holder.hard
            beside = asked.now >= holder.soft
            if beside and not must:
                holder.soft = asked.now + self.tables.freshness.retry
        if asked.recipient is not None:
            voucher = self._voucher(asked, asked.recipient, holder)
            if voucher is None:
                return True
            if asked.now >= voucher.refresh:
                voucher.refresh = asked.now + self.tables.freshness.retry
                beside = True
            elif isinstance(holder, LearnedTable) and not voucher.restricted:
                # An upstream that does not answer is asked again after the answer's end, too.
                until = min(voucher.refresh, voucher.until)
                self.tables.vouchers.clear(asked.subject.caller, holder, until)
        if beside and not must:
            self._enquiries.refresh(asked, table_in(holder).id)
        return must


def _is_named(table: LearnedTable, target: NamedTable) -> bool:
    return table.id.name == target.name and table.id.namespace == target.namespace


def _each(holders: Iterable[Holder], need: int) -> Iterator[tuple[Holder, int]]:
    for holder in holders:
        yield holder, need


def _upstreams(table: LearnedTable, learning: Learning) -> Standing:
    """Return what the upstream's word for a table amounts to, and keep it there."""
    mask = SIGN_S3_READ_REQUEST if learning.authorizer is Authorizer.CATALOG else 0
    table.standing = Standing(f"upstream@table:{table.id}", mask)
    return table.standing


def _standing(
    asked: Asked, owners: tuple[Holder, ...], sources: tuple[Table, ...] | None, restricted: tuple[TableId, ...]
) -> Standing | None:
    """Return what stands beside the grants of the policy: the upstream's word, a stage, or a drop."""
    first = owners[0]
    authorizer = asked.catalog.authorizer
    vouched = SIGN_S3_READ_REQUEST if authorizer is Authorizer.CATALOG else 0
    if isinstance(first, PersonalTable):
        table = first.id
        if first.phase is Phase.DROPPED and authorizer is not Authorizer.CATALOG:
            if _REMOVES & ~asked.mask(table) or len(owners) > 1:
                # The principal may no longer remove what it dropped, or never held it alone.
                raise Refused(Reason.TABLE_UNKNOWN, f"{str(table)!r} was dropped by a principal that may not remove it")
            vouched = READ_DATA | WRITE_DATA
        return Standing(f"{first.phase.value}@table:{table}", vouched, sources, restricted)
    if authorizer is Authorizer.POLICY or asked.subject.delegated:
        return Standing(sources=sources, restricted=restricted) if restricted or sources is not None else None
    return Standing(f"upstream@table:{table_in(first).id}", vouched, sources, restricted)
