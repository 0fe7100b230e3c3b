"""Tell how settings differ, and which of their changes a running server takes over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from functools import reduce
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import inspect

from signproxy.config.identity import StaticToken
from signproxy.config.paths import bare, says
from signproxy.config.settings import Settings
from signproxy.documents import child, described
from signproxy.telemetry.neutralise import neutralise

Section = TypeVar("Section", bound=msgspec.Struct)

RELOADABLE = tuple(
    "admin.role admin.tls container_credentials context credentials drain identity limits listen.tls policy public_url "
    "s3.base_domains s3.identities s3.keys s3.limits s3.pod s3.public_url s3.steer s3.tls s3.upstream signing storages "
    "upstreams".split()
)
"""Sections and keys that take effect while the server runs. Everything else is read at the start: a listener that is
open, processes that run and an audit trail that is written cannot be exchanged below the requests that use them."""

MAX_CHANGES = 100
"""More than an operator reads; a settings file of the wrong kind must not fill the log."""

MAX_SHOWN = 80
"""Characters of a value."""

MAX_MEMBERS = 5
"""Members of a list."""


class TakesEffect(Enum):
    """When a change takes effect."""

    RELOAD = "reload"
    RESTART = "restart"


class SettingChange(msgspec.Struct, frozen=True):
    """One setting that is another now."""

    path: str
    words: str
    """What it was and is, or that it was added; never a value that may be a secret."""
    effect: TakesEffect

    @property
    def text(self) -> str:
        """The whole change in one line."""
        return f"{self.path}: {self.words}" if self.path else self.words


def difference(old: Settings, new: Settings) -> tuple[SettingChange, ...]:
    """Return what changed, in the order of the settings' reference."""
    changes: list[SettingChange] = []
    beyond = 0
    effects = {TakesEffect.RELOAD}
    for path, words in _walk(described(Settings), old, new, ""):
        effect = _effect(path, old, new)
        if len(changes) < MAX_CHANGES:
            changes.append(SettingChange(neutralise(path), words, effect))
        else:
            beyond += 1
            effects.add(effect)
    if beyond:
        effect = TakesEffect.RESTART if TakesEffect.RESTART in effects else TakesEffect.RELOAD
        changes.append(SettingChange("", f"and {beyond} more settings", effect))
    return tuple(changes)


def in_force(old: Settings, new: Settings) -> Settings:
    """Return the settings that a server which runs with the old ones has once it was given the new ones."""
    taken = [path for path in RELOADABLE if _effect(path, old, new) is TakesEffect.RELOAD]
    return reduce(lambda settings, path: _with(settings, new, path.split(".")), taken, old)


def effect_of(path: str) -> TakesEffect:
    """Return when a change of the setting takes effect, as a rule: TLS is switched on and off by a restart alone."""
    return TakesEffect.RELOAD if any(f"{path}.".startswith(f"{each}.") for each in RELOADABLE) else TakesEffect.RESTART


def _effect(path: str, old: Settings, new: Settings) -> TakesEffect:
    section, _, below = f"{path}.".partition(".")
    if section in ("listen", "admin", "s3") and below.startswith("tls."):
        before, after = getattr(old, section), getattr(new, section)
        # Clients are connected, or about to connect, as they were told to.
        if not (before.tls.enabled and after.tls.enabled):
            return TakesEffect.RESTART
    return effect_of(path)


def _with(into: Section, other: Section, keys: list[str]) -> Section:
    """Return settings with one section, or key of a section, taken from other settings."""
    value = getattr(other, keys[0])
    if len(keys) > 1:
        value = _with(getattr(into, keys[0]), value, keys[1:])
    return msgspec.structs.replace(into, **{keys[0]: value})


def _walk(kind: inspect.Type, old: object, new: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and words of everything that differs."""
    if old == new:
        return
    match bare(kind):
        case inspect.StructType(fields=fields):
            for field in fields:
                below = child(path, field.encode_name)
                before, after = getattr(old, field.name), getattr(new, field.name)
                if says(field.type, "file_properties"):
                    yield from _named(before, after, below, _hidden)
                else:
                    yield from _walk(field.type, before, after, below)
        case inspect.DictType(value_type=value_type):
            yield from _named(old, new, path, lambda *differing: _walk(value_type, *differing))
        case inspect.VarTupleType(item_type=item_type) if isinstance(bare(item_type), inspect.StructType):
            # The only such list. Known by their digests, tokens stay the same when others come before them.
            before, after = _by_digest(old), _by_digest(new)
            yield from _tokens(item_type, before, after, path)
        case _ if isinstance(old, tuple) and isinstance(new, tuple):
            yield path, _members(old, new)
        case _:
            yield path, f"{_shown(old)} -> {_shown(new)}"


def _named(
    old: object, new: object, path: str, walk: Callable[[object, object, str], Iterator[tuple[str, str]]]
) -> Iterator[tuple[str, str]]:
    """Yield what differs between two mappings."""
    before, after = _mapping(old), _mapping(new)
    for name in (*before, *(name for name in after if name not in before)):
        below = child(path, name)
        if name not in after:
            yield below, "removed"
        elif name not in before:
            yield below, "added"
        elif before[name] != after[name]:
            yield from walk(before[name], after[name], below)


def _tokens(
    kind: inspect.Type, old: dict[str, StaticToken], new: dict[str, StaticToken], path: str
) -> Iterator[tuple[str, str]]:
    for digest, token in old.items():
        if digest not in new:
            yield child(path, token.principal), "token removed"
        else:
            yield from _walk(kind, token, new[digest], child(path, token.principal))
    for digest, token in new.items():
        if digest not in old:
            yield child(path, token.principal), "token added"


def _hidden(_old: object, _new: object, path: str) -> Iterator[tuple[str, str]]:
    yield path, "changed"


def _members(old: tuple[object, ...], new: tuple[object, ...]) -> str:
    before, after = set(old), set(new)
    parts = [
        f"{word} {_listed(members)}"
        for word, members in (
            ("added", [member for member in new if member not in before]),
            ("removed", [member for member in old if member not in after]),
        )
        if members
    ]
    return "; ".join(parts) or "in another order"


def _listed(members: Collection[object]) -> str:
    more = f" and {len(members) - MAX_MEMBERS} more" if len(members) > MAX_MEMBERS else ""
    return ", ".join(map(_shown, islice(members, MAX_MEMBERS))) + more


def _shown(value: object) -> str:
    match value:
        case None:
            return "left out"
        case "" | ():
            return "nothing"
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case str():
            # The query of a URL is where keys of services are put.
            address, mark, _ = value.partition("?") if "://" in value else (value, "", "")
            return f"'{neutralise(address, MAX_SHOWN)}{'?…' if mark else ''}'"
        case tuple():
            return _listed(value)
        case _:
            return neutralise(str(value), MAX_SHOWN)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _by_digest(value: object) -> dict[str, StaticToken]:
    members = value if isinstance(value, tuple) else ()
    return {token.sha256: token for token in members if isinstance(token, StaticToken)}
