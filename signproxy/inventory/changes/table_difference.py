"""Compare the tables of two policies, of which there may be a million, by looking at what they share once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from signproxy.inventory.changes.notes import Notes
from signproxy.policy.catalog import Catalog
from signproxy.policy.location import Location
from signproxy.policy.privileges import names_of
from signproxy.policy.table import Grants, Table, TableSettings

_MAX_REMEMBERED = 10_000
"""Pairs of settings, and of grants, whose difference is kept; some hundred bytes each."""


def compare_tables(old: Catalog, new: Catalog, notes: Notes) -> None:
    """Note every table that was added, removed or changed; not what its namespaces were granted."""
    comparison = _Comparison(old, new, notes)
    # Most policies change little, and in place: while the order is the same, no table has to be looked up.
    alike = 0
    for before, after in zip(old.tables(), new.tables(), strict=False):
        if before.id != after.id:
            break
        alike += 1
        comparison.compare(before, after)
    for before in islice(old.tables(), alike, None):
        found = new.table(before.id.namespace, before.id.name)
        if found is None:
            notes.add("table", before.id, "removed", partial(_location, before))
        else:
            comparison.compare(before, found)
    for after in islice(new.tables(), alike, None):
        if old.table(after.id.namespace, after.id.name) is None:
            notes.add("table", after.id, "added", partial(_location, after))


class GrantChanges:
    """What was granted and revoked between two states of a catalog, whose roles may have other ids in each."""

    def __init__(self, old: Catalog, new: Catalog) -> None:
        self._old = old.roles
        self._new = new.roles
        self._same_ids = old.roles == new.roles

    def alike(self, old: Grants, new: Grants) -> bool:
        """Whether nothing was granted or revoked."""
        if self._same_ids:
            return old == new
        return _by_name(old, self._old) == _by_name(new, self._new)

    def between(
        self, old: Grants, new: Grants, old_above: Grants | None = None, new_above: Grants | None = None
    ) -> Iterator[str]:
        """Yield each change in words, except for what was granted above and therefore is told there."""
        if self.alike(old, new):
            return
        before, after = _by_name(old, self._old), _by_name(new, self._new)
        above_before, above_after = _by_name(old_above or {}, self._old), _by_name(new_above or {}, self._new)
        for role in {**before, **after}:
            had, has = before.get(role, 0), after.get(role, 0)
            gained = has & ~had & ~above_after.get(role, 0)
            lost = had & ~has & ~above_before.get(role, 0)
            if lost:
                yield f": {', '.join(names_of(lost))} revoked from role '{role}'"
            if gained:
                yield f": {', '.join(names_of(gained))} granted to role '{role}'"


class _Comparison:
    """Compares tables of two states. Values that tables share are compared once, and known by identity then."""

    def __init__(self, old: Catalog, new: Catalog, notes: Notes) -> None:
        self._notes = notes
        self._changes = GrantChanges(old, new)
        # Id of a value of the old state -> the value of the new state that says the same.
        self._same_settings: dict[int, TableSettings] = {}
        self._same_grants: dict[int, Grants] = {}
        self._pairs: dict[tuple[int, ...], tuple[str, ...]] = {}

    def compare(self, old: Table, new: Table) -> None:
        """Note what differs between two tables of one name."""
        if (
            self._same_settings.get(id(old.settings)) is new.settings
            and self._same_grants.get(id(old.grants)) is new.grants
            and old.location == new.location
            and old.uuid == new.uuid
        ):
            return
        self._compare_places(old, new)
        for what in self._settings_changes(old.settings, new.settings):
            self._notes.add("table", old.id, what)
        for what in self._grants_changes(old, new):
            self._notes.add("table", old.id, what)

    def _compare_places(self, old: Table, new: Table) -> None:
        add = self._notes.add
        before, after = old.settings, new.settings
        if old.location != new.location or before.bucket != after.bucket:
            add("table", old.id, "moved", partial(_move, _location, old, new))
        if old.uuid != new.uuid:
            add("table", old.id, "has another UUID", partial(_move, _uuid, old, new))
        for place in after.extra:
            if place not in before.extra:
                add("table", old.id, "location added", partial(str, place))
        for place in before.extra:
            if place not in after.extra:
                add("table", old.id, "location removed", partial(str, place))
        if before.metadata_place != after.metadata_place:
            add("table", old.id, "metadata path moved", partial(_move, _metadata_place, old, new))

    def _settings_changes(self, old: TableSettings, new: TableSettings) -> tuple[str, ...]:
        """Return what many tables may have in common; their places are compared one by one."""
        if self._same_settings.get(id(old)) is new:
            return ()
        if old == new:
            self._same_settings[id(old)] = new
        return self._remembered((id(old), id(new)), partial(_settings_between, old, new))

    def _grants_changes(self, old: Table, new: Table) -> tuple[str, ...]:
        if self._same_grants.get(id(old.grants)) is new.grants:
            return ()
        pair = (id(old.grants), id(new.grants), id(old.namespace), id(new.namespace))
        above = old.namespace.grants, new.namespace.grants
        found = self._remembered(pair, partial(self._changes.between, old.grants, new.grants, *above))
        if not found and self._changes.alike(old.grants, new.grants):
            self._same_grants[id(old.grants)] = new.grants
        return found

    def _remembered(self, pair: tuple[int, ...], compare: Callable[[], Iterable[str]]) -> tuple[str, ...]:
        found = self._pairs.get(pair)
        if found is None:
            if len(self._pairs) >= _MAX_REMEMBERED:
                self._pairs.clear()
            found = self._pairs[pair] = tuple(compare())
        return found


def _settings_between(old: TableSettings, new: TableSettings) -> Iterator[str]:
    if old.storage != new.storage:
        yield f": storage '{old.storage}' -> '{new.storage}'"
    if old.metadata is not new.metadata:
        yield f": metadata {old.metadata.value} -> {new.metadata.value}"
    if old.overwrite is not new.overwrite:
        yield f": overwrite {old.overwrite.value} -> {new.overwrite.value}"


def _by_name(grants: Grants, roles: dict[int, str]) -> dict[str, int]:
    return {roles.get(role, str(role)): mask for role, mask in grants.items()}


def _move(show: Callable[[Table], str], old: Table, new: Table) -> str:
    return f"{show(old)} -> {show(new)}"


def _location(table: Table) -> str:
    return str(Location(table.settings.bucket, table.location[:-1]))


def _uuid(table: Table) -> str:
    return table.uuid or "none"


def _metadata_place(table: Table) -> str:
    place = table.settings.metadata_place
    return "below its location" if place is None else str(place)
