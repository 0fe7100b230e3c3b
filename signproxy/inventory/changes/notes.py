"""Gather what changed in as few lines as an operator reads, however much it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from signproxy.telemetry.neutralise import neutralise

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

    __slots__ = ("_beyond", "_groups")

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
