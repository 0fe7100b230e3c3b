"""Tell how two policies differ, in words for an operator who has to know at night what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial

import msgspec

from signproxy.inventory.changes.learning_difference import compare_learning
from signproxy.inventory.changes.notes import Notes
from signproxy.inventory.changes.table_difference import GrantChanges, compare_tables, dotted_in
from signproxy.inventory.changes.volume_difference import compare_volumes
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import S3Endpoint, Storage


def difference(old: PolicyState, new: PolicyState) -> tuple[str, ...]:
    """Return what changed, one line for all that changed alike, the widest first; nothing where nothing did.

    Takes up to some seconds for policies of a million tables: not for an event loop.
    """
    if old is new or (old.rev == new.rev and old.single_issuer == new.single_issuer):
        return ()
    notes = Notes()
    _switches(old, new, notes)
    _storages(_storages_of(old), _storages_of(new), notes)
    for name in _either(old.catalogs, new.catalogs):
        _catalog(name, old.catalogs.get(name), new.catalogs.get(name), notes)
    _principal_roles(old, new, notes)
    _principals(old.principals, new.principals, notes)
    _modes(old.observed, new.observed, notes)
    both = [(catalog, new.catalogs[name]) for name, catalog in old.catalogs.items() if name in new.catalogs]
    for before, after in both:
        _namespaces(before, after, notes)
    for before, after in both:
        compare_volumes(before, after, notes)
    for before, after in both:
        compare_tables(before, after, notes)
        compare_learning(before, after, notes)
    return notes.lines()


def _switches(old: PolicyState, new: PolicyState, notes: Notes) -> None:
    if old.remote_signing != new.remote_signing:
        notes.add(
            "remote signing", "", "switched on, where its catalog agrees" if new.remote_signing else "switched off"
        )
    if old.default_catalog != new.default_catalog:
        notes.add("default catalog", "", f"{_shown(old.default_catalog)} -> {_shown(new.default_catalog)}")
    if old.single_issuer != new.single_issuer:
        notes.add(
            "names of principals", "", f"{'may leave out' if new.single_issuer else 'must begin with'} the issuer"
        )


def _storages_of(state: PolicyState) -> dict[str, Storage]:
    return {name: storage for catalog in state.catalogs.values() for name, storage in catalog.storages.items()}


def _storages(old: Mapping[str, Storage], new: Mapping[str, Storage], notes: Notes) -> None:
    for name in _either(old, new):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            notes.add("storage", name, "added" if before is None else "removed")
        elif before != after:
            for what in _fields(before, after):
                notes.add("storage", name, f": {what}")


def _fields(old: msgspec.Struct, new: msgspec.Struct) -> Iterable[str]:
    """Yield each field that differs, and how."""
    for field in old.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before == after:
            continue
        if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            yield from (f"{field}.{what}" for what in _fields(before, after))
        elif isinstance(before, tuple) and isinstance(after, tuple):
            yield from _members(field, before, after)
        else:
            yield f"{field} {_shown(before)} -> {_shown(after)}"


def _members(name: str, old: tuple[object, ...], new: tuple[object, ...]) -> Iterable[str]:
    added = [f"{name} {_shown(member)} added" for member in new if member not in old]
    removed = [f"{name} {_shown(member)} removed" for member in old if member not in new]
    return [*added, *removed] or [f"{name} in another order"]


def _catalog(name: str, old: Catalog | None, new: Catalog | None, notes: Notes) -> None:
    if old is None or new is None:
        catalog, what = (new, "added") if old is None else (old, "removed")
        tables = 0 if catalog is None else len(catalog.tables())
        notes.add("catalog", name, what, lambda: f"{tables:,} tables")
        return
    if old.remote_signing != new.remote_signing:
        notes.add("catalog", name, f": remote signing switched {'on' if new.remote_signing else 'off'}")
    for field in ("kind", "allow_external", "binding", "overlap", "tables_from", "authorizer"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            notes.add("catalog", name, f": {field} {_shown(before)} -> {_shown(after)}")
    for field, had, has in (
        ("prefix", old.prefixes, new.prefixes),
        ("storage", tuple(old.storages), tuple(new.storages)),
        ("role", tuple(old.roles.values()), tuple(new.roles.values())),
        ("root of learned tables", _roots(old), _roots(new)),
        ("location that callers may choose", _caller_locations(old), _caller_locations(new)),
    ):
        if set(had) != set(has):
            for what in _members(field, had, has):
                notes.add("catalog", name, f": {what}")
    for what in GrantChanges(old, new).between(old.grants, new.grants):
        notes.add("catalog", name, what)


def _roots(catalog: Catalog) -> tuple[str, ...]:
    return () if catalog.learning is None else tuple(map(str, catalog.learning.roots))


def _caller_locations(catalog: Catalog) -> tuple[str, ...]:
    return () if catalog.learning is None else tuple(map(str, catalog.learning.caller_locations))


def _principal_roles(old: PolicyState, new: PolicyState, notes: Notes) -> None:
    had, has = _catalog_roles(old), _catalog_roles(new)
    for name in _either(had, has):
        before, after = had.get(name), has.get(name)
        if before is None or after is None:
            roles = sorted(before or after or ())
            detail = partial(", ".join, [f"{_shown(role)} of catalog {_shown(catalog)}" for catalog, role in roles])
            notes.add("principal role", name, "added" if before is None else "removed", detail)
            continue
        for catalog, role in sorted(after - before):
            notes.add("principal role", name, f"gained role {_shown(role)} of catalog {_shown(catalog)}")
        for catalog, role in sorted(before - after):
            notes.add("principal role", name, f"lost role {_shown(role)} of catalog {_shown(catalog)}")


def _catalog_roles(state: PolicyState) -> dict[str, frozenset[tuple[str, str]]]:
    """Return the catalog roles that each principal role stands for, by name: ids are of one state alone."""
    return {
        name: frozenset(
            (catalog, state.catalogs[catalog].roles[role]) for catalog, roles in catalogs.items() for role in roles
        )
        for name, catalogs in state.principal_roles.items()
    }


def _principals(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]], notes: Notes) -> None:
    for name in _either(old, new):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if before is None or after is None:
            detail = partial(", ".join, map(_shown, before or after or ()))
            notes.add("principal", name, "added" if before is None else "removed", detail)
            continue
        for role in after:
            if role not in before:
                notes.add("principal", name, f"gained role {_shown(role)}")
        for role in before:
            if role not in after:
                notes.add("principal", name, f"lost role {_shown(role)}")


def _modes(old: frozenset[str], new: frozenset[str], notes: Notes) -> None:
    for name in sorted(new - old):
        notes.add("principal", name, ": mode 'enforce' -> 'observe'")
    for name in sorted(old - new):
        notes.add("principal", name, ": mode 'observe' -> 'enforce'")


def _namespaces(old: Catalog, new: Catalog, notes: Notes) -> None:
    changes = GrantChanges(old, new)
    for name in _either(old.namespaces, new.namespaces):
        before, after = old.namespaces.get(name), new.namespaces.get(name)
        if before is None or after is None:
            notes.add("namespace", dotted_in(new, name), "added" if before is None else "removed")
        for what in changes.between(before.own if before else {}, after.own if after else {}):
            notes.add("namespace", dotted_in(new, name), what)


def _either(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return every name, those of old first."""
    return [*old, *(name for name in new if name not in old)]


def _shown(value: object) -> str:
    match value:
        case "":
            return "none"
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case S3Endpoint():
            return f"{value.scheme}://{value.authority} ({', '.join(style.value for style in value.styles)})"
        case _:
            return f"'{value}'"
