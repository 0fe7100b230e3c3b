"""Find who owns what a request addresses, among declared, learned, staged and dropped tables."""

from __future__ import annotations

from collections.abc import Iterable

from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.asked import Asked, Holder, Missing, table_in
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_table import LearnedTable, PersonalTable
from signproxy.model import NamedTable, TableId
from signproxy.policy.catalog import Overlap, TableBinding
from signproxy.policy.containment import addressed, contains_key, contains_prefix
from signproxy.policy.table import Table, table_key
from signproxy.s3.operation import Access
from signproxy.s3.request import ObjectRef


class Holders:
    """The search itself. It asks no upstream: where a table is not known it says which one."""

    def __init__(self, tables: LearnedTables) -> None:
        self._tables = tables

    def find(self, asked: Asked) -> tuple[Holder, ...] | Missing:
        """Return the holders that must consent: the named table, or the keys' owners; with overlap, all of them."""
        target = asked.target
        keys = addressed(asked.request)
        if isinstance(target, NamedTable) and asked.catalog.binding is TableBinding.STRICT:
            return self._named(asked, target, keys)
        if isinstance(target, NamedTable) and not self._exists(asked, target):
            # A route of a table that was dropped, or never was, serves no caller, even where keys decide.
            return Missing(TableId(asked.catalog.name, target.namespace, target.name), Reason.TABLE_UNKNOWN)
        return self._by_location(asked, keys)

    def named(self, asked: Asked, target: NamedTable) -> Holder | Missing:
        """Return the table of a name, whichever of its keys are addressed; a staged one to its principal alone."""
        found = self._named(asked, target, ())
        return found if isinstance(found, Missing) else found[0]

    def sources(self, asked: Asked, source: ObjectRef) -> tuple[Holder, ...] | Missing:
        """Return the holders of the source of a copy; there may be none."""
        found = self._at(asked, source.bucket, source.key)
        if found:
            return found
        records = self._tables.ground.of(asked.catalog.name).staged.over(
            source.bucket, source.key, asked.principal, asked.now
        )
        return self._tables.personal.usable_staged(asked.catalog, records, asked.now)[:1]

    def _named(self, asked: Asked, target: NamedTable, keys: tuple[str, ...]) -> tuple[Holder, ...] | Missing:
        catalog = asked.catalog
        holder: Holder | None = catalog.table(target.namespace, target.name)
        if holder is None:
            live = self._tables.named(catalog, target.namespace, target.name, asked.now)
            holder = self._personal_named(asked, target, live, keys) or live
            if holder is None:
                return Missing(TableId(catalog.name, target.namespace, target.name), Reason.TABLE_UNKNOWN)
        if catalog.overlap is Overlap.FORBIDDEN:
            return (holder,)
        holders = {id(holder): holder}
        for key in keys:
            others = self._at(asked, asked.request.bucket, key)
            if isinstance(others, Missing):
                return others
            holders |= {id(other): other for other in others}
        return self._with_reached(asked, tuple(holders.values()), keys)

    def _by_location(self, asked: Asked, keys: tuple[str, ...]) -> tuple[Holder, ...] | Missing:
        bucket = asked.request.bucket
        holders: tuple[Holder, ...] = ()
        for number, key in enumerate(keys):
            found = self._at(asked, bucket, key)
            if isinstance(found, Missing):
                return found
            if number and {*map(id, found)} != {*map(id, holders)}:
                raise Refused(Reason.LOCATION_UNOWNED, f"bucket {bucket!r}, {keys[0]!r} and {key!r}")
            holders = found
        if holders:
            return holders if asked.catalog.overlap is Overlap.FORBIDDEN else self._with_reached(asked, holders, keys)
        personal = self._personal_at(asked, keys) if keys else None
        if personal is not None:
            return (personal,)
        # An upstream is asked for names, never for keys.
        detail = f"bucket {bucket!r}, key {keys[0] if keys else ''!r}, of the tables that are known"
        raise Refused(Reason.LOCATION_UNOWNED, detail)

    def _exists(self, asked: Asked, target: NamedTable) -> bool:
        """Whether the table is known, or is one that the caller has staged or dropped."""
        if self._is_known(asked, target):
            return True
        holdings = self._tables.ground.of(asked.catalog.name)
        name = target.namespace, target.name
        carried = asked.carried() if asked.carried is not None and asked.principal else None
        return bool(
            holdings.staged.of(*name, asked.principal, asked.now)
            or holdings.dropped.of(*name, asked.principal, asked.now)
            or (carried is not None and (carried.facts.namespace, carried.facts.name) == name)
        )

    def _is_known(self, asked: Asked, target: NamedTable) -> bool:
        catalog = asked.catalog
        return (
            catalog.table(target.namespace, target.name) is not None
            or self._tables.named(catalog, target.namespace, target.name, asked.now) is not None
        )

    def _at(self, asked: Asked, bucket: str, key: str) -> tuple[Holder, ...] | Missing:
        """Return the declared and learned tables that a key or list prefix lies in."""
        catalog, learning = asked.catalog, asked.catalog.learns
        found: dict[int, Holder] = {id(table): table for table in catalog.locations.owners(bucket, key)}
        found |= {id(table): table for table in self._tables.owners(catalog, bucket, key, asked.now)}
        for listing in learning.reserved.over(bucket, key):
            table = self._tables.named(catalog, listing.id.namespace, listing.id.name, asked.now)
            if table is not None:
                if listing.uuid in ("", table.facts.uuid):
                    found[id(table)] = table
            elif not self._is_denied(asked, listing.id):
                return Missing(listing.id, Reason.LOCATION_UNOWNED)
        return tuple(found.values())

    def _is_denied(self, asked: Asked, table: TableId) -> bool:
        key = table_key(table.namespace, table.name)
        return self._tables.denials.found(table.catalog, key, asked.who, asked.now) is not None

    def _with_reached(self, asked: Asked, holders: tuple[Holder, ...], keys: tuple[str, ...]) -> tuple[Holder, ...]:
        """Add a table nested further below that a list would show, or a folder's deletion would empty.

        It does not contain what is addressed, so its consent is never given: the request is refused.
        """
        request, catalog, learning = asked.request, asked.catalog, asked.catalog.learns
        listed = request.operation.by_prefix
        if not listed and request.operation.access is not Access.DELETE:
            return holders
        declared = tuple(holder for holder in holders if isinstance(holder, Table))
        for addressee in keys:
            prefix = addressee if listed else f"{addressee}/"
            reached = catalog.locations.reached(request.bucket, prefix, declared)
            if reached is not None:
                return (*holders, reached)
            for table in self._tables.reached(catalog, request.bucket, prefix, asked.now):
                if not any(table is holder for holder in holders):
                    return (*holders, table)
            names = {table_in(holder).id for holder in holders}
            for listing in learning.reserved.below(request.bucket, prefix):
                if listing.id not in names:
                    detail = f"prefix {prefix!r} reaches into a location that the policy lists for {str(listing.id)!r}"
                    raise Refused(Reason.LOCATION_UNOWNED, detail)
        return holders

    def _personal_named(
        self, asked: Asked, target: NamedTable, live: LearnedTable | None, keys: tuple[str, ...]
    ) -> PersonalTable | None:
        """Return the caller's staged or dropped table of this name, where it is what the request is about."""
        holdings = self._tables.ground.of(asked.catalog.name)
        name = target.namespace, target.name
        staged: tuple[PersonalTable, ...] = ()
        if live is None:
            staged = self._usable_staged(asked, holdings.staged.of(*name, asked.principal, asked.now), name)
        elif not holdings.dropped or _all_in(asked, live.table, keys):
            return None
        dropped = self._usable_dropped(asked, holdings.dropped.of(*name, asked.principal, asked.now))
        for record in (*staged, *dropped):
            if _all_in(asked, record.table, keys):
                return record
        # Outside of what was staged: the decision says so.
        return staged[0] if staged else None

    def _personal_at(self, asked: Asked, keys: tuple[str, ...]) -> PersonalTable | None:
        """Return the caller's staged or dropped table that every key lies in."""
        holdings = self._tables.ground.of(asked.catalog.name)
        bucket, principal, now = asked.request.bucket, asked.principal, asked.now
        staged = self._usable_staged(asked, holdings.staged.over(bucket, keys[0], principal, now), None)
        dropped = self._usable_dropped(asked, holdings.dropped.over(bucket, keys[0], principal, now))
        for record in (*staged, *dropped):
            if _all_in(asked, record.table, keys):
                return record
        return None

    def _usable_staged(
        self, asked: Asked, records: Iterable[PersonalTable], name: tuple[str, str] | None
    ) -> tuple[PersonalTable, ...]:
        """Return the staged tables that stand, with the one that the caller carries."""
        usable = self._tables.personal.usable_staged(asked.catalog, records, asked.now)
        carried = asked.carried() if asked.carried is not None and asked.principal else None
        if carried is None or carried.until <= asked.now:
            return usable
        if carried.catalog != asked.catalog.name or carried.principal != asked.principal:
            # One that was handed to another caller, or for another catalog, is here by no accident.
            raise Refused(Reason.CONTEXT_INVALID, f"staged by {carried.principal!r} in {carried.catalog!r}")
        facts = carried.facts
        key = table_key(facts.namespace, facts.name)
        if (
            (name is not None and name != (facts.namespace, facts.name))
            or any(record.facts.uuid == facts.uuid for record in usable)
            or self._is_known(asked, NamedTable(facts.namespace, facts.name))
            or self._tables.personal.ended_at(carried.catalog, key, facts.uuid) is not None
        ):
            return usable
        refusal = self._tables.adopt(carried, asked.now)
        if refusal is not None:
            self._tables.alarms.sound(refusal, asked.now)
            raise Refused(refusal.reason, refusal.detail)
        kept = self._tables.ground.of(asked.catalog.name).staged
        return kept.of(facts.namespace, facts.name, asked.principal, asked.now)[:1] + usable

    def _usable_dropped(self, asked: Asked, records: Iterable[PersonalTable]) -> tuple[PersonalTable, ...]:
        """Return the dropped tables that stand; nothing is ever written into them again."""
        if asked.request.operation.access is Access.WRITE:
            return ()
        return self._tables.personal.usable_dropped(asked.catalog, records)


def _all_in(asked: Asked, table: Table, keys: tuple[str, ...]) -> bool:
    contains = contains_prefix if asked.request.operation.by_prefix else contains_key
    storage, bucket = asked.request.storage.name, asked.request.bucket
    return all(contains(table, storage, bucket, key) for key in keys)
