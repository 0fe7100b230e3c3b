"""Read strict YAML into plain values.

The dialect is the plain core of YAML. Only `true` and `false` are booleans, so that `stamp: off` and a country
`no` stay text; dates, octal, sexagesimal and underscored numbers stay text, and so does a number with a leading
zero (an account id); keys are always text. JSON is read as well. Duplicate keys, tags, merge keys, a second
document and aliases that multiply are faults, for a reviewer would not see what takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import yaml

from signproxy.errors import DocumentInvalid, Finding

MAX_DEPTH = 32
"""Three times the deepest document that signproxy knows."""

MAX_ALIASED = 100_000
"""Nodes that aliases may repeat; ends documents of a few lines that unfold to gigabytes."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,18}(?:[eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2})")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str, file: str) -> object:
    """Return the document as dicts with text keys, lists, text, numbers, booleans and None; an empty one is `{}`.

    Raise DocumentInvalid with the line of the first fault.
    """
    try:
        return _Builder(file).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _fault(file, error.problem_mark or error.context_mark, what) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise _fault(file, None, f"not readable as text: {str(error).splitlines()[0]}") from None


class _Mark(Protocol):
    """Where a parser event begins; the two parsers of PyYAML have their own class each."""

    line: int


class _Builder:
    """Build one document from parser events, without recursion and without the loader's own types."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._anchors: dict[str, tuple[object, int]] = {}
        self._aliased = 0

    def build(self, events: Iterator[yaml.Event]) -> object:
        root: list[object] = []
        stack = [_Open(root, yaml.SequenceStartEvent(None, None, implicit=True))]
        documents = 0
        for event in events:
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise _fault(self._file, event.start_mark, "a file holds one document only")
                case yaml.ScalarEvent():
                    self._refuse_tag(event)
                    self._scalar(stack[-1], event)
                case yaml.AliasEvent():
                    self._alias(stack[-1], event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._refuse_tag(event)
                    if stack[-1].wants_key:
                        raise _fault(self._file, event.start_mark, "a key is text, not a mapping or a list")
                    if len(stack) > MAX_DEPTH:
                        raise _fault(self._file, event.start_mark, f"nested deeper than {MAX_DEPTH} levels")
                    stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event))
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    closed = stack.pop()
                    self._put(stack[-1], closed.start, closed.value, closed.size)
                case _:
                    pass
        value = root[0] if root else None
        return {} if value is None else value

    def _scalar(self, top: _Open, event: yaml.ScalarEvent) -> None:
        if top.wants_key and event.value == "<<" and not event.style:
            raise _fault(self._file, event.start_mark, "merge keys (<<) are not read; repeat the keys")
        self._put(top, event, event.value if top.wants_key or event.style else _plain(event.value), 1)

    def _put(self, top: _Open, event: yaml.NodeEvent, value: object, size: int) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            key = str(value)
            if key in top.value:
                raise _fault(self._file, event.start_mark, f"key {key!r} is given twice")
            top.key = key
        else:
            top.value[top.key] = value
            top.key = None

    def _alias(self, top: _Open, event: yaml.AliasEvent) -> None:
        # An anchor is known once its node is complete, so that no node can hold itself.
        if event.anchor not in self._anchors:
            raise _fault(self._file, event.start_mark, "this alias has no anchor; quote a value that begins with *")
        value, size = self._anchors[event.anchor]
        if top.wants_key and not isinstance(value, str):
            raise _fault(self._file, event.start_mark, "a key is text; this alias is something else")
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _fault(self._file, event.start_mark, f"aliases repeat more than {MAX_ALIASED} values")
        repeated = yaml.AliasEvent(None, event.start_mark)
        self._put(top, repeated, value, size)

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            raise _fault(self._file, event.start_mark, "tags are not read; quote a value that begins with !")


class _Open:
    """A mapping or list whose end has not come yet."""

    __slots__ = ("key", "size", "start", "value")

    def __init__(self, value: dict[str, object] | list[object], start: yaml.NodeEvent) -> None:
        self.value = value
        self.start = start
        self.key: str | None = None
        self.size = 1

    @property
    def wants_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


def _plain(text: str) -> object:
    """Resolve a scalar that was written without quotes."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _fault(file: str, mark: _Mark | None, problem: str) -> DocumentInvalid:
    return DocumentInvalid([Finding(file, f"line {mark.line + 1}" if mark is not None else "", problem)])
