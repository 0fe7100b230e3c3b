"""Show an operator a value that a stranger wrote: short, and without power over the terminal."""

from __future__ import annotations

from signproxy.telemetry.neutralise import neutralise

MAX_SHOWN = 80
"""Characters of one value; enough for an URL, and for a name to be recognised."""

_MAX_MEMBERS = 5


def shown(value: object, limit: int = MAX_SHOWN) -> str:
    """Return the value as one short line. What nests is only named: its depth is the stranger's choice."""
    match value:
        case list():
            more = ", …" if len(value) > _MAX_MEMBERS else ""
            return f"[{', '.join(_scalar(member, limit) for member in value[:_MAX_MEMBERS])}{more}]"
        case _:
            return _scalar(value, limit)


def _scalar(value: object, limit: int) -> str:
    match value:
        case str():
            return f"'{neutralise(value, limit)}'"
        case None | bool() | int() | float():
            return neutralise(repr(value), limit)
        case list():
            return "a list"
        case _:
            return "an object"
