"""Fill in the templates of `clients.yaml`: forms of configurations, and what is said beside them.

A line that begins with `?a,!b ` is there if the value `a` is not empty and `b` is. One that begins with `*name ` is
there for each entry of that list. What follows is filled in as `str.format` does it; a value can be quoted for its
reader, as in `{value:sql}`. A value of several lines stands alone; `{lines:execute}` has them executed by Python.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from signproxy.documents import decode, load_yaml

_LINE = re.compile(r"(?:(?P<mark>[?*])(?P<names>[a-z0-9_,!]+)(?: |$))?(?P<text>.*)")
_WIDTH = 110
"""Columns of a comment."""


class SignedTemplates(msgspec.Struct, frozen=True):
    """What is printed for clients that have their requests signed."""

    title: str
    notes: str
    properties: str
    forms: dict[str, dict[str, str]]


class OwnTemplate(msgspec.Struct, frozen=True):
    """What is known of a client that signs by itself, and its forms; the first one is the default."""

    title: str
    forms: dict[str, str]
    why: str = "it signs every request itself, with keys"
    """Why its requests cannot be signed by another party."""
    needs_catalog: bool = False
    """Whether it reads tables alone, and finds the S3 listener by what the facade tells it."""
    renews: bool = False
    """Whether it gets itself another key before one ends; the others have one key for all of their life."""


class OwnTemplates(msgspec.Struct, frozen=True):
    """What is printed for clients that sign by themselves."""

    notes: str
    parts: dict[str, str]
    clients: dict[str, OwnTemplate]


class ClientTemplates(msgspec.Struct, frozen=True):
    """All of the file."""

    signed: SignedTemplates
    own: OwnTemplates


class Quotable(str):
    """A text that a template can ask for as another language writes it."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        write = _QUOTES.get(spec)
        return super().__format__(spec) if write is None else write(str(self))


Values = Mapping[str, str | list[str]]


def filled(template: str, values: Values, **lists: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a template. A value that is not given is empty, as far as conditions go."""
    for line in template.splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None  # noqa: S101 - any line is of this form
        mark, names, text = found.group("mark", "names", "text")
        if mark == "?" and any(bool(values.get(name.removeprefix("!"))) is ("!" in name) for name in names.split(",")):
            continue
        name, _, spec = text.strip("{}").partition(":")
        several = values.get(name)
        if isinstance(several, list):
            yield from map(_in_python, several) if spec else several
            continue
        for entry in lists[names] if mark == "*" else ({},):
            given = {**values, **entry}
            yield text.format_map({name: Quotable(value) for name, value in given.items() if isinstance(value, str)})


def commented(mark: str, notes: Iterable[str]) -> Iterator[str]:
    """Yield notes as comments that fit a terminal."""
    for note in notes:
        yield from textwrap.wrap(note, _WIDTH, initial_indent=f"{mark} ", subsequent_indent=f"{mark}   ")


def _in_python(statement: str) -> str:
    """Return a statement of SQL as Python that executes it; the variable `token` may stand in it."""
    return f"connection.execute({'f' if '{token}' in statement else ''}{statement.removesuffix(';')!r})"


def _doubled(quote: str) -> Callable[[str], str]:
    return lambda text: f"{quote}{text.replace(quote, quote * 2)}{quote}"


_QUOTES: dict[str, Callable[[str], str]] = {
    "sql": _doubled("'"),
    "name": _doubled('"'),
    "tick": _doubled("`"),
    "shell": shlex.quote,
    "json": json.dumps,
    # Java reads the file, and takes a backslash for the beginning of an escape.
    "java": lambda text: text.replace("\\", "\\\\"),
}


def _read() -> ClientTemplates:
    path = Path(__file__).with_name("clients.yaml")
    return decode(ClientTemplates, load_yaml(path.read_text(encoding="utf-8"), path.name), file=path.name)


TEMPLATES = _read()
