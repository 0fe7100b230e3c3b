"""Compare plain values with a msgspec type, and name every place where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice

import msgspec
from msgspec import inspect

from signproxy.errors import nearest

Fault = tuple[str, str]
"""Path and problem."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_ARRAYS = (inspect.VarTupleType, inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.TupleType)
_SHOWN = 40
"""Characters of a wrong value that a message repeats."""


def faults(kind: object, data: object, path: str = "") -> Iterator[Fault]:
    """Yield every fault of `data` against `kind`, in the order of the document."""
    yield from _walk(described(kind), data, path)


@lru_cache(maxsize=256)
def described(kind: object) -> inspect.Type:
    """Return what msgspec knows of a type; it takes milliseconds to find out."""
    return inspect.type_info(kind)


def child(path: str, key: str | int) -> str:
    """Return the path of a member: `a.b`, `a['odd key']` or `a[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _BARE_KEY.fullmatch(key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def path_of(*keys: str | int) -> str:
    """Return the path that leads through the keys from the root."""
    return reduce(child, keys, "")


def _walk(kind: inspect.Type, data: object, path: str) -> Iterator[Fault]:
    if isinstance(kind, inspect.Metadata):
        yield from _walk(kind.type, data, path)
    elif isinstance(kind, inspect.UnionType):
        yield from _union(kind, data, path)
    elif not _fits(kind, data):
        yield path, f"{_expected(kind)} expected, got {_got(data)}{_hint(kind, data)}"
    elif isinstance(data, dict):
        yield from _mapping(kind, data, path)
    elif isinstance(data, list | tuple):
        yield from _array(kind, data, path)
    else:
        yield from _scalar(kind, data, path)


def _mapping(kind: inspect.Type, data: Mapping[str, object], path: str) -> Iterator[Fault]:
    if isinstance(kind, inspect.StructType):
        yield from _struct(kind, data, path)
    elif isinstance(kind, inspect.DictType):
        for key, value in data.items():
            yield from _walk(kind.key_type, key, child(path, key))
            yield from _walk(kind.value_type, value, child(path, key))
        yield from _length(kind.min_length, kind.max_length, len(data), path)


def _array(kind: inspect.Type, data: Sequence[object], path: str) -> Iterator[Fault]:
    if isinstance(kind, inspect.TupleType):
        if len(kind.item_types) != len(data):
            yield path, f"{len(kind.item_types)} items expected, got {len(data)}"
        for index, (item_type, item) in enumerate(zip(kind.item_types, data, strict=False)):
            yield from _walk(item_type, item, child(path, index))
        return
    if isinstance(kind, inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType):
        for index, item in enumerate(data):
            yield from _walk(kind.item_type, item, child(path, index))
        yield from _length(kind.min_length, kind.max_length, len(data), path)


def _struct(kind: inspect.StructType, data: Mapping[str, object], path: str) -> Iterator[Fault]:
    fields = {field.encode_name: field for field in kind.fields}
    names = [*fields, *([kind.tag_field] if kind.tag_field else [])]
    sound = True
    for key, value in data.items():
        if key in fields:
            for fault in _walk(fields[key].type, value, child(path, key)):
                sound = False
                yield fault
        elif key != kind.tag_field:
            sound = False
            known = nearest(key, names) or f"; known keys: {', '.join(names)}"
            yield child(path, key), f"unknown key{known}"
    for name, field in fields.items():
        if field.required and name not in data:
            sound = False
            yield child(path, name), "this key is missing"
    if sound and hasattr(kind.cls, "__post_init__"):
        # msgspec runs it too, but its path leaves out the keys of mappings.
        try:
            msgspec.convert(data, kind.cls)
        except msgspec.ValidationError as error:
            problem, _, where = str(error).partition(" - at `$")
            yield path + where.rstrip("`"), problem


def _union(kind: inspect.UnionType, data: object, path: str) -> Iterator[Fault]:
    structs = [member for member in kind.types if isinstance(member, inspect.StructType)]
    if isinstance(data, dict) and structs and structs[0].tag_field is not None:
        tags = {str(member.tag): member for member in structs}
        tag_field = structs[0].tag_field
        tag = data.get(tag_field)
        if tag is None:
            yield child(path, tag_field), f"this key is missing; one of {', '.join(tags)} is expected"
        elif str(tag) not in tags:
            yield child(path, tag_field), _unlisted(tag, tuple(tags))
        else:
            yield from _walk(tags[str(tag)], data, path)
        return
    members = [member for member in kind.types if _fits(member, data)]
    if not members:
        expected = " or ".join(_expected(member) for member in kind.types if not isinstance(member, inspect.NoneType))
        yield path, f"{expected} expected, got {_got(data)}"
        return
    # Members of one kind (an enum beside text) may each take the value; the first one's faults are shown.
    shown = [list(islice(_walk(member, data, path), 2)) for member in members]
    if all(shown):
        yield from _walk(members[0], data, path)


def _scalar(kind: inspect.Type, data: object, path: str) -> Iterator[Fault]:
    match kind:
        case inspect.EnumType():
            values = [member.value for member in kind.cls]
            if data not in values:
                yield path, _unlisted(data, values)
        case inspect.LiteralType():
            if data not in kind.values:
                yield path, _unlisted(data, kind.values)
        case inspect.IntType() | inspect.FloatType() if isinstance(data, int | float):
            bounds = ((kind.ge, "at least"), (kind.gt, "more than"), (kind.le, "at most"), (kind.lt, "less than"))
            holds = (
                kind.ge is None or data >= kind.ge,
                kind.gt is None or data > kind.gt,
                kind.le is None or data <= kind.le,
                kind.lt is None or data < kind.lt,
            )
            if not all(holds):
                allowed = " and ".join(f"{word} {bound}" for bound, word in bounds if bound is not None)
                yield path, f"{data} is out of range: {allowed}"
        case inspect.StrType() if isinstance(data, str):
            yield from _length(kind.min_length, kind.max_length, len(data), path)
            if kind.pattern is not None and not re.search(kind.pattern, data):
                # Not repeated: a token pasted where its digest belongs would stand in the log.
                yield path, f"is not of the form {kind.pattern}"
        case _:
            pass


def _length(least: int | None, most: int | None, length: int, path: str) -> Iterator[Fault]:
    if least is not None and length < least:
        yield path, "must not be empty" if least == 1 else f"is too short: at least {least}"
    if most is not None and length > most:
        yield path, f"is too long: at most {most}, got {length}"


def _unlisted(value: object, allowed: Sequence[object]) -> str:
    names = [str(name) for name in allowed]
    return f"{_quoted(value)} is none of {', '.join(names)}{nearest(str(value), names)}"


def _fits(kind: inspect.Type, data: object) -> bool:
    """Whether the value is of the right kind, whatever it holds."""
    match kind:
        case inspect.StructType() | inspect.DictType():
            return isinstance(data, dict)
        case _ if isinstance(kind, _ARRAYS):
            return isinstance(data, list | tuple)
        case inspect.BoolType():
            return isinstance(data, bool)
        case inspect.IntType():
            return isinstance(data, int) and not isinstance(data, bool)
        case inspect.FloatType():
            return isinstance(data, int | float) and not isinstance(data, bool)
        case inspect.StrType():
            return isinstance(data, str)
        case inspect.EnumType() | inspect.LiteralType():
            return isinstance(data, str | int) and not isinstance(data, bool)
        case inspect.NoneType():
            return data is None
        case _:
            return True


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case _ if isinstance(kind, _ARRAYS):
            return "a list"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.EnumType():
            return "one of " + ", ".join(str(member.value) for member in kind.cls)
        case inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in kind.values)
        case inspect.NoneType():
            return "nothing"
        case _:
            return "text"


def _got(data: object) -> str:
    """Name the kind of a value; the value itself may be a secret."""
    match data:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return type(data).__name__


def _hint(kind: inspect.Type, data: object) -> str:
    if isinstance(kind, inspect.StrType) and isinstance(data, bool | int | float):
        return "; put it in quotes"
    if isinstance(kind, inspect.BoolType) and isinstance(data, str) and data.lower() in ("yes", "no", "on", "off"):
        return "; only true and false are booleans here"
    if isinstance(kind, _ARRAYS) and isinstance(data, str):
        return "; write [value] for a single one"
    return ""


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
