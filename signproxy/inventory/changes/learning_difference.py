"""Compare what two policies say of tables that an upstream tells of."""

from __future__ import annotations

from enum import Enum

from signproxy.inventory.changes.notes import Notes
from signproxy.inventory.changes.table_difference import GrantChanges
from signproxy.model import TableId
from signproxy.policy.catalog import Catalog, Grants
from signproxy.policy.learning import Listing
from signproxy.policy.reach import namespace_at
from signproxy.policy.table import BEFORE_NAME, NO_GRANTS


def compare_learning(old: Catalog, new: Catalog, notes: Notes) -> None:
    """Note every listing, and every grant on a table that is not declared, that was added, removed or changed."""
    before, after = old.learning, new.learning
    if before is None or after is None:
        # That the tables come from elsewhere says it all.
        return
    for field in ("metadata", "overwrite"):
        _note_change(notes, "catalog", old.name, getattr(before, field), getattr(after, field), field)
    for key in {**before.listings, **after.listings}:
        _compare_listings(before.listings.get(key), after.listings.get(key), notes)
    changes = GrantChanges(old, new)
    for key in {**before.grants, **after.grants}:
        namespace, _, name = key.partition(BEFORE_NAME)
        table = TableId(new.name, namespace, name)
        above = _above(old, namespace), _above(new, namespace)
        for what in changes.between(before.grants.get(key, above[0]), after.grants.get(key, above[1]), *above):
            notes.add("table", table, what)


def _compare_listings(old: Listing | None, new: Listing | None, notes: Notes) -> None:
    if old is None:
        if new is not None:
            notes.add("listing of table", new.id, "added")
        return
    if new is None:
        notes.add("listing of table", old.id, "removed")
        return
    for field in ("metadata", "overwrite", "uuid"):
        _note_change(notes, "listing of table", new.id, getattr(old, field), getattr(new, field), field)
    for place in new.places:
        if place not in old.places:
            notes.add("listing of table", new.id, "location added", place.__str__)
    for place in old.places:
        if place not in new.places:
            notes.add("listing of table", new.id, "location removed", place.__str__)


def _note_change(notes: Notes, kind: str, name: object, old: object, new: object, field: str) -> None:
    if old != new:
        notes.add(kind, name, f": {field} {_shown(old)} -> {_shown(new)}")


def _shown(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else f"'{value}'"


def _above(catalog: Catalog, namespace: str) -> Grants:
    known = namespace_at(catalog, namespace)
    return NO_GRANTS if known is None else known.grants
