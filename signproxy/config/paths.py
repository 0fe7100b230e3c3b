"""Find the file names among the values of a document, so that they are read relative to the right directory."""

from __future__ import annotations

from pathlib import Path

from msgspec import inspect

from signproxy.documents import described


def anchor(kind: object, document: dict[str, object], directory: Path) -> None:
    """Make each relative file name of the document relative to `directory`, in place; wrong types are left alone."""
    _struct(described(kind), document, directory)


def says(kind: inspect.Type, mark: str) -> bool:
    """Whether a field is declared with a mark."""
    return isinstance(kind, inspect.Metadata) and bool((kind.extra or {}).get(mark))


def bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without what is said about it."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def is_file_property(name: str) -> bool:
    """Whether a provider's property names a file, by the convention of all providers."""
    return name == "file" or name.endswith("_file")


def _struct(kind: inspect.Type, document: object, directory: Path) -> None:
    if not isinstance(document, dict):
        return
    match bare(kind):
        case inspect.StructType(fields=fields):
            for field in fields:
                if field.encode_name not in document:
                    continue
                value = document[field.encode_name]
                if says(field.type, "file_properties"):
                    _properties(value, directory)
                elif says(field.type, "path"):
                    document[field.encode_name] = _anchored(value, directory)
                else:
                    _struct(field.type, value, directory)
        case inspect.DictType(value_type=value_type):
            for value in document.values():
                _struct(value_type, value, directory)
        case _:
            pass


def _anchored(value: object, directory: Path) -> object:
    match value:
        case str() if value:
            return str(directory / value)
        case list():
            return [_anchored(each, directory) for each in value]
        case _:
            return value


def _properties(document: object, directory: Path) -> None:
    if isinstance(document, dict):
        for name, value in document.items():
            if is_file_property(name) and isinstance(value, str) and value:
                document[name] = str(directory / value)
