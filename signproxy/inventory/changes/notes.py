"""Gather what changed in as few lines as an operator reads, however much it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import TypeVar

from signproxy.s3.storage import S3Endpoint
from signproxy.telemetry.neutralise import neutralise

T = TypeVar("T")

MAX_LINES = 20
"""What fits on a screen beside the question."""

MAX_EXAMPLES = 3
"""Names of things that changed alike; the rest is counted."""

MAX_GROUPS = 1_000
"""Kinds of changes that are told apart; a new policy of a million tables must not take memory for each."""

_MAX_NAME = 200
"""Characters; a location may have a thousand."""


class Notes:
    """Changes in the order in which they were noted; those that are alike make one line."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        self._beyond: Counter[str] = Counter()

    def add(self, kind: str, name: object, what: str, detail: Callable[[], str] = str) -> None:
        """Note that something of a kind (`table`), by its name, changed: what (`added`, `: kind a -> b`), and how.

        Name and detail become text only for the few that are shown.
        """
        group = self._groups.get((kind, what))
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self._beyond[kind] += 1
                return
            group = self._groups[kind, what] = _Group()
        group.count += 1
        if len(group.examples) < MAX_EXAMPLES:
            group.examples.append((str(name), detail()))

    def compare(self, kind: str, name: object, old: object, new: object, fields: Iterable[str]) -> None:
        """Note each of these fields in which two values differ."""
        for field in fields:
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                self.add(kind, name, f": {field} {shown(before)} -> {shown(after)}")

    def both(
        self,
        kind: str,
        old: Mapping[str, T],
        new: Mapping[str, T],
        named: Callable[[str], object] = str,
        detail: Callable[[T], str] = lambda _: "",
    ) -> Iterator[tuple[str, T, T]]:
        """Note what is in one of two states alone, and yield what is in both, those of the old one first."""
        for name in {**old, **new}:
            if name not in old:
                self.add(kind, named(name), "added", partial(detail, new[name]))
            elif name not in new:
                self.add(kind, named(name), "removed", partial(detail, old[name]))
            else:
                yield name, old[name], new[name]

    def lines(self) -> tuple[str, ...]:
        """Return the changes, and how many there are beyond MAX_LINES."""
        groups = list(self._groups.items())
        told = [neutralise(_line(kind, what, group)) for (kind, what), group in groups[:MAX_LINES]]
        beyond = self._beyond.copy()
        for (kind, _), group in groups[MAX_LINES:]:
            beyond[kind] += group.count
        if beyond:
            counts = ", ".join(_counted(count, kind) for kind, count in beyond.items())
            told.append(f"and more changes: {counts}")
        return tuple(told)


def shown(value: object) -> str:
    """Return a value as an operator writes it."""
    match value:
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case S3Endpoint():
            return f"{value.scheme}://{value.authority} ({', '.join(style.value for style in value.styles)})"
        case _:
            return f"'{value}'"


class _Group:
    """Things that changed alike."""

    __slots__ = ("count", "examples")

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[tuple[str, str]] = []


def _line(kind: str, what: str, group: _Group) -> str:
    if group.count == 1:
        name, detail = group.examples[0]
        subject = f"{kind} '{_cut(name)}'" if name else kind
        return f"{subject}{_joined(what)} ({_cut(detail)})" if detail else f"{subject}{_joined(what)}"
    names = ", ".join(f"'{_cut(name)}' {_cut(detail)}".rstrip() for name, detail in group.examples)
    more = group.count - len(group.examples)
    rest = f" and {more:,} more" if more else ""
    return f"{_counted(group.count, kind)}{_joined(what)} ({names}{rest})"


def _joined(what: str) -> str:
    return what if what.startswith(":") else f" {what}"


def _cut(text: str) -> str:
    return neutralise(text, _MAX_NAME)


def _counted(count: int, kind: str) -> str:
    return f"{count:,} {kind}" if count == 1 else f"{count:,} {kind}s"
