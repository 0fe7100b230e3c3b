"""Tell what each setting is in the end, and where that was said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec import inspect

from signproxy.config.environment import COMMAND_LINE
from signproxy.config.load import Merged
from signproxy.config.paths import is_file_property, says
from signproxy.config.settings import Settings
from signproxy.config.storage import ProviderSettings
from signproxy.documents import child, described

MASK = "***"
DEFAULT = "default"

Plain = str | int | float | bool | None | list[str | int] | dict[str, str]


class Leaf(NamedTuple):
    """The value of a setting, as it would stand in a file, and who gave it."""

    value: Plain
    source: str


Tree = Leaf | dict[str, "Tree"] | list["Tree"]

_PLAIN_PROPERTIES = {
    "static": frozenset({"profile"}),
    "chain": frozenset({"profile", "region", "methods"}),
    "assume-role": frozenset({"role_arn", "session_name", "duration_seconds", "region", "endpoint"}),
}
"""What signproxy's own providers take and is no secret. Whatever a plug-in takes may be one."""

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_SECRETS = (
    # A key where the name of its file belongs.
    re.compile(r"-----BEGIN "),
    # A JSON Web Token.
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}"),
    # An access key of AWS.
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)
_OPAQUE = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+/=_-]{32,}")
"""What has no word in it: secret keys, session tokens, passwords that a machine made. Digests have no capitals."""
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]+(?=@)")
_QUERY = re.compile(r"(?<=\?).+", re.DOTALL)


def effective(settings: Settings, merged: Merged) -> dict[str, Tree]:
    """Return every setting with its value and its source. Secrets are masked; file names are absolute."""
    return _Effective(merged).section(settings, merged.document, "")


def defaults() -> dict[str, Tree]:
    """Return every setting as it is where nothing is set."""
    return effective(Settings(), Merged("", "", {}, []))


class _Effective:
    """Walk settings beside the document that they were made of."""

    def __init__(self, merged: Merged) -> None:
        self._merged = merged
        self._lines = _lines(merged.text)

    def section(self, struct: msgspec.Struct, document: object, path: str) -> dict[str, Tree]:
        kind = described(type(struct))
        if not isinstance(kind, inspect.StructType):  # pragma: no cover - for the type checker: a Struct's is
            raise TypeError(type(struct))
        found: dict[str, Tree] = {}
        for field in kind.fields:
            value = getattr(struct, field.name)
            below, where = _member(document, field.encode_name), child(path, field.encode_name)
            if says(field.type, "file_properties") and isinstance(struct, ProviderSettings):
                found[field.encode_name] = self._properties(struct, below, where)
            elif says(field.type, "path"):
                found[field.encode_name] = Leaf(_paths(value), self._source(below, where))
            else:
                found[field.encode_name] = self._value(value, below, where)
        return found

    def _value(self, value: object, document: object, path: str) -> Tree:
        match value:
            case msgspec.Struct():
                return self.section(value, document, path)
            case Mapping() if value:
                return {
                    str(name): self._value(each, _member(document, name), child(path, name))
                    for name, each in value.items()
                }
            case tuple() if any(isinstance(each, msgspec.Struct) for each in value):
                return [
                    self._value(each, _member(document, index), child(path, index)) for index, each in enumerate(value)
                ]
            case _:
                return Leaf(_plain(value), self._source(document, path))

    def _properties(self, provider: ProviderSettings, document: object, path: str) -> Tree:
        if not provider.properties:
            return Leaf({}, self._source(document, path))
        return {
            name: Leaf(
                _property(provider.class_, name, value), self._source(_member(document, name), child(path, name))
            )
            for name, value in provider.properties.items()
        }

    def _source(self, document: object, path: str) -> str:
        if document is _ABSENT:
            return DEFAULT
        for assignment in reversed(self._merged.assignments):
            if assignment.covers(path):
                return COMMAND_LINE if assignment.source == COMMAND_LINE else assignment.name
        line = self._lines.get(path)
        return f"{self._merged.file}:{line}" if line else self._merged.file


_ABSENT = object()
"""Stands for what the document does not have."""


def _member(document: object, key: str | int) -> object:
    if isinstance(document, dict):
        return document.get(key, _ABSENT)
    if isinstance(document, list | tuple) and isinstance(key, int):
        return document[key]
    return _ABSENT


def _plain(value: object) -> Plain:
    match value:
        case str():
            return _text(value)
        case Enum():
            return str(value.value)
        case tuple():
            return [each if isinstance(each, int) else str(_plain(each)) for each in value]
        case Mapping():
            return {}
        case None | bool() | int() | float():
            return value
        case _:  # pragma: no cover - no setting has another type, and a new one must not be shown unmasked
            raise TypeError(type(value))


def _paths(value: str | tuple[str, ...]) -> Plain:
    return _path(value) if isinstance(value, str) else [_path(each) for each in value]


def _path(value: str) -> str:
    """Return what a file elsewhere could say too."""
    if any(secret.search(value) for secret in _SECRETS):
        return MASK
    return str(Path.cwd() / value) if value else ""


def _text(value: str) -> str:
    if _OPAQUE.fullmatch(value) or any(secret.search(value) for secret in _SECRETS):
        return MASK
    return _QUERY.sub(MASK, _USER_INFO.sub(MASK, value)) if "://" in value else value


def _property(provider: str, name: str, value: str) -> str:
    if is_file_property(name):
        return _path(value)
    known = name in _PLAIN_PROPERTIES.get(provider, ())
    # The name of a variable is none of the two; whatever else stands there may be what belongs into the variable.
    if provider == "static" and name.endswith("_env"):
        known = bool(_VARIABLE.fullmatch(value))
    return _text(value) if known else MASK


def _lines(text: str) -> dict[str, int]:
    """Return the line on which each path of a file is; the file has been read strictly before."""
    lines: dict[str, int] = {}
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _note_lines(yaml.compose(text, Loader=loader), "", lines)
    return lines


def _note_lines(node: yaml.Node | None, path: str, lines: dict[str, int]) -> None:
    match node:
        case yaml.MappingNode():
            for key, value in node.value:
                where = child(path, str(key.value))
                lines[where] = key.start_mark.line + 1
                _note_lines(value, where, lines)
        case yaml.SequenceNode():
            for index, value in enumerate(node.value):
                where = child(path, index)
                lines[where] = value.start_mark.line + 1
                _note_lines(value, where, lines)
        case _:
            pass
