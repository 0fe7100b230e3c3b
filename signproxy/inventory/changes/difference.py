"""Tell how two policies differ, in words for an operator who has to know at night what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from signproxy.inventory.changes.notes import Notes, shown
from signproxy.inventory.changes.table_difference import GrantChanges, compare_tables
from signproxy.model import NAMESPACE_SEPARATOR, TableId
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.reach import namespace_at
from signproxy.policy.state import PolicyState
from signproxy.policy.table import BEFORE_NAME, NO_GRANTS, Grants
from signproxy.policy.volume import Volume
from signproxy.s3.storage import Storage


def difference(old: PolicyState, new: PolicyState) -> tuple[str, ...]:
    """Return what changed, one line for all that changed alike, the widest first; nothing where nothing did.

    Takes up to some seconds for policies of a million tables: not for an event loop.
    """
    if old is new or (old.rev == new.rev and old.single_issuer == new.single_issuer):
        return ()
    notes = Notes()
    _switches(old, new, notes)
    for name, store, changed in notes.both("storage", _storages_of(old), _storages_of(new)):
        for what in _fields(store, changed):
            notes.add("storage", name, f": {what}")
    counted = notes.both("catalog", old.catalogs, new.catalogs, detail=lambda each: f"{len(each.tables()):,} tables")
    both = [(before, after) for _, before, after in counted]
    for before, after in both:
        _catalog(before, after, notes)
    _principals(old, new, notes)
    for before, after in both:
        _namespaces(before, after, notes)
    for before, after in both:
        _volumes(before, after, notes)
    for before, after in both:
        compare_tables(before, after, notes)
        _learning(before, after, notes)
    return notes.lines()


def _switches(old: PolicyState, new: PolicyState, notes: Notes) -> None:
    if old.remote_signing != new.remote_signing:
        notes.add(
            "remote signing", "", "switched on, where its catalog agrees" if new.remote_signing else "switched off"
        )
    if old.default_catalog != new.default_catalog:
        notes.add("default catalog", "", f"{_or_none(old.default_catalog)} -> {_or_none(new.default_catalog)}")
    if old.single_issuer != new.single_issuer:
        notes.add(
            "names of principals", "", f"{'may leave out' if new.single_issuer else 'must begin with'} the issuer"
        )


def _storages_of(state: PolicyState) -> dict[str, Storage]:
    return {name: storage for catalog in state.catalogs.values() for name, storage in catalog.storages.items()}


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
            yield f"{field} {_or_none(before)} -> {_or_none(after)}"


def _members(name: str, old: Iterable[object], new: Iterable[object]) -> Iterable[str]:
    had, has = list(old), list(new)
    added = [f"{name} {_or_none(member)} added" for member in has if member not in had]
    removed = [f"{name} {_or_none(member)} removed" for member in had if member not in has]
    return [*added, *removed] or [f"{name} in another order"]


def _catalog(old: Catalog, new: Catalog, notes: Notes) -> None:
    name = new.name
    if old.remote_signing != new.remote_signing:
        notes.add("catalog", name, f": remote signing switched {'on' if new.remote_signing else 'off'}")
    switches = ("kind", "allow_external", "binding", "overlap", "tables_from", "authorizer")
    notes.compare("catalog", name, old, new, switches)
    for field, had, has in (
        ("prefix", old.prefixes, new.prefixes),
        ("storage", tuple(old.storages), tuple(new.storages)),
        ("delegation", _values(old.delegation), _values(new.delegation)),
        ("role", tuple(old.roles.values()), tuple(new.roles.values())),
        ("root of learned tables", _places(old, "roots"), _places(new, "roots")),
        ("location that callers may choose", _places(old, "caller_locations"), _places(new, "caller_locations")),
    ):
        if set(had) != set(has):
            for what in _members(field, had, has):
                notes.add("catalog", name, f": {what}")
    for what in GrantChanges(old, new).between(old.grants, new.grants):
        notes.add("catalog", name, what)


def _values(modes: Iterable[Delegation]) -> tuple[str, ...]:
    return tuple(mode.value for mode in modes)


def _places(catalog: Catalog, field: str) -> tuple[str, ...]:
    return () if catalog.learning is None else tuple(map(str, getattr(catalog.learning, field)))


def _principals(old: PolicyState, new: PolicyState, notes: Notes) -> None:
    """Note what principal roles stand for, which of them principals have, and whether the policy binds them."""
    for kind, had, has in (
        ("principal role", _catalog_roles(old), _catalog_roles(new)),
        ("principal", _roles(old.principals), _roles(new.principals)),
    ):
        for name, before, after in notes.both(kind, had, has, detail=", ".join):
            for role in after:
                if role not in before:
                    notes.add(kind, name, f"gained role {role}")
            for role in before:
                if role not in after:
                    notes.add(kind, name, f"lost role {role}")
    _offers(old, new, notes)
    for name in sorted(new.observed - old.observed):
        notes.add("principal", name, ": mode 'enforce' -> 'observe'")
    for name in sorted(old.observed - new.observed):
        notes.add("principal", name, ": mode 'observe' -> 'enforce'")


def _offers(old: PolicyState, new: PolicyState, notes: Notes) -> None:
    offered, offers = _delegations(old), _delegations(new)
    for word, these, others in (("is", offers, offered), ("is no longer", offered, offers)):
        for role, what in these:
            if (role, what) not in others:
                notes.add("principal role", role, f"{word} offered {what}")


def _delegations(state: PolicyState) -> list[tuple[str, str]]:
    """Return what the holders of each principal role are offered; `nothing` where that is what the policy says."""
    return [
        (role, f"{value} in catalog {_or_none(catalog)}")
        for role, held in sorted(state.delegations.items())
        for catalog, modes in sorted(held.items())
        for value in _values(modes) or ("nothing",)
    ]


def _roles(principals: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(map(_or_none, roles)) for name, roles in principals.items()}


def _catalog_roles(state: PolicyState) -> dict[str, tuple[str, ...]]:
    """Return the catalog roles that each principal role stands for, by name: ids are of one state alone."""
    catalogs = state.catalogs
    return {
        name: tuple(
            f"{_or_none(role)} of catalog {_or_none(catalog)}"
            for catalog, role in sorted(
                (each, catalogs[each].roles[role]) for each, ids in held.items() for role in ids
            )
        )
        for name, held in state.principal_roles.items()
    }


def _namespaces(old: Catalog, new: Catalog, notes: Notes) -> None:
    changes = GrantChanges(old, new)
    for name in {**old.namespaces, **new.namespaces}:
        before, after = old.namespaces.get(name), new.namespaces.get(name)
        dotted = ".".join((new.name, *name.split(NAMESPACE_SEPARATOR)))
        if before is None or after is None:
            notes.add("namespace", dotted, "added" if before is None else "removed")
        for what in changes.between(before.own if before else {}, after.own if after else {}):
            notes.add("namespace", dotted, what)


def _volumes(old: Catalog, new: Catalog, notes: Notes) -> None:
    changes = GrantChanges(old, new)
    for before in old.volumes:
        if new.volumes.named(before.id.name) is None:
            notes.add("volume", before.id, "removed", before.__str__)
    for after in new.volumes:
        known = old.volumes.named(after.id.name)
        if known is None:
            notes.add("volume", after.id, "added", after.__str__)
        else:
            _volume(known, after, notes)
        for what in changes.between({} if known is None else known.grants, after.grants):
            notes.add("volume", after.id, what)


def _volume(old: Volume, new: Volume, notes: Notes) -> None:
    if str(old) != str(new):
        notes.add("volume", new.id, "moved", lambda: f"{old} -> {new}")
    notes.compare("volume", new.id, old, new, ("storage",))
    notes.compare("volume", new.id, old.rules, new.rules, ("operations", "keys"))
    notes.compare("volume", new.id, old, new, ("overwrite",))


def _learning(old: Catalog, new: Catalog, notes: Notes) -> None:
    """Note every listing, and every grant on a table that is not declared, that was added, removed or changed."""
    before, after = old.learning, new.learning
    if before is None or after is None:
        # That the tables come from elsewhere says it all.
        return
    notes.compare("catalog", old.name, before, after, ("metadata", "overwrite"))
    known = {**before.listings, **after.listings}
    kind = "listing of table"
    for key, had, has in notes.both(kind, before.listings, after.listings, named=lambda key: known[key].id):
        notes.compare(kind, has.id, had, has, ("metadata", "overwrite", "uuid"))
        for what, places, others in (("added", has.places, had.places), ("removed", had.places, has.places)):
            for place in places:
                if place not in others:
                    notes.add(kind, known[key].id, f"location {what}", place.__str__)
    changes = GrantChanges(old, new)
    for key in {**before.grants, **after.grants}:
        namespace, _, name = key.partition(BEFORE_NAME)
        above = _above(old, namespace), _above(new, namespace)
        given = before.grants.get(key, above[0]), after.grants.get(key, above[1])
        for what in changes.between(*given, *above):
            notes.add("table", TableId(new.name, namespace, name), what)


def _above(catalog: Catalog, namespace: str) -> Grants:
    known = namespace_at(catalog, namespace)
    return NO_GRANTS if known is None else known.grants


def _or_none(value: object) -> str:
    return "none" if value == "" else shown(value)
