"""Compare what two policies say of their volumes."""

from __future__ import annotations

from enum import Enum

from signproxy.inventory.changes.notes import Notes
from signproxy.inventory.changes.table_difference import GrantChanges
from signproxy.policy.catalog import Catalog
from signproxy.policy.volume import Volume


def compare_volumes(old: Catalog, new: Catalog, notes: Notes) -> None:
    """Note every volume that was added, removed or changed, and what was granted on it."""
    changes = GrantChanges(old, new)
    for before in old.volumes:
        if new.volumes.named(before.id.name) is None:
            notes.add("volume", before.id, "removed", before.__str__)
    for after in new.volumes:
        known = old.volumes.named(after.id.name)
        if known is None:
            notes.add("volume", after.id, "added", after.__str__)
        else:
            _compare(known, after, notes)
        for what in changes.between({} if known is None else known.grants, after.grants):
            notes.add("volume", after.id, what)


def _compare(old: Volume, new: Volume, notes: Notes) -> None:
    if str(old) != str(new):
        notes.add("volume", new.id, "moved", lambda: f"{old} -> {new}")
    for what, before, after in (
        ("storage", old.storage, new.storage),
        ("operations", old.rules.operations, new.rules.operations),
        ("keys", old.rules.keys, new.rules.keys),
        ("overwrite", old.overwrite, new.overwrite),
    ):
        if before != after:
            notes.add("volume", new.id, f": {what} {_shown(before)} -> {_shown(after)}")


def _shown(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else f"'{value}'"
