"""Turn plain values into typed ones, or name every place where they differ from the type."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import inspect

from signproxy.errors import DocumentInvalid, Finding, nearest

T = TypeVar("T")

MAX_FINDINGS = 50
"""More than an operator fixes in one go; keeps the report of a file of the wrong kind short."""

Fault = tuple[str, str]
"""Path and problem."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_\-]+")
_ARRAYS = (inspect.VarTupleType, inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.TupleType)
_KINDS: tuple[tuple[tuple[type[inspect.Type], ...], tuple[type, ...], str], ...] = (
    ((inspect.StructType, inspect.DictType), (dict,), "a mapping"),
    (_ARRAYS, (list, tuple), "a list"),
    ((inspect.BoolType,), (bool,), "true or false"),
    ((inspect.IntType,), (int,), "a whole number"),
    ((inspect.FloatType,), (int, float), "a number"),
    ((inspect.StrType,), (str,), "text"),
    ((inspect.EnumType, inspect.LiteralType), (str, int), "one of several values"),
    ((inspect.NoneType,), (type(None),), "nothing"),
)
"""msgspec's kinds, the values that are of them, and what both are called."""
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
            bounds = (
                ("at least", kind.ge, operator.ge),
                ("more than", kind.gt, operator.gt),
                ("at most", kind.le, operator.le),
                ("less than", kind.lt, operator.lt),
            )
            set_bounds = [(word, bound, holds) for word, bound, holds in bounds if bound is not None]
            if not all(holds(data, bound) for _, bound, holds in set_bounds):
                allowed = " and ".join(f"{word} {bound}" for word, bound, _ in set_bounds)
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
    for kinds, values, _ in _KINDS:
        if isinstance(kind, kinds):
            # To Python, true is a number.
            return isinstance(data, values) and (bool in values or not isinstance(data, bool))
    return True


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.EnumType():
            return "one of " + ", ".join(str(member.value) for member in kind.cls)
        case inspect.LiteralType():
            return "one of " + ", ".join(str(value) for value in kind.values)
        case _:
            return next((word for kinds, _, word in _KINDS if isinstance(kind, kinds)), "text")


def _got(data: object) -> str:
    """Name the kind of a value; the value itself may be a secret."""
    if isinstance(data, int | float) and not isinstance(data, bool):
        return "a number"
    return next((word for _, values, word in _KINDS if type(data) in values), type(data).__name__)


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


def decode(kind: type[T], data: object, *, file: str, path: str = "") -> T:
    """Return plain values as `kind`, a msgspec Struct or a container of such.

    Unknown keys are faults in every Struct, whatever it declares. Raise DocumentInvalid with every fault, up to
    MAX_FINDINGS, each with its path and, for a misspelt name, the nearest known one. `path` is where `data` stands
    in the file.
    """
    findings: list[Finding] = []
    for where, problem in faults(kind, data, path):
        if len(findings) == MAX_FINDINGS:
            findings.append(Finding(file, "", f"more than {MAX_FINDINGS} faults; the rest is not listed"))
            break
        findings.append(Finding(file, where, problem))
    if findings:
        raise DocumentInvalid(findings)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        # What the walk does not know of msgspec's types; a refusal all the same.
        raise DocumentInvalid([Finding(file, path, str(error))]) from None
