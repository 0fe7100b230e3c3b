"""Read an XML answer of a store: its elements, what they say, and where they stand in the document.

The one reader of answers that are looked into or changed. What is changed is written anew from what was read, at the
place where it was read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from signproxy.errors import Reason, Refused

if TYPE_CHECKING:
    from xml.parsers.expat import XMLParserType

_MAX_DEPTH = 16
"""No answer of S3 has half as many levels."""
_MAX_ELEMENTS = 120_000
"""Ten thousand buckets, which is the longest list, with all that S3 tells of each, are half of it."""
_PIECE = 16 * 1024
"""Bytes that are read at a time: a millisecond, whatever they are."""
_SHOWN = 128
"""Characters of a fault that are told."""


class Element:
    """An element of a document."""

    __slots__ = ("children", "end", "name", "start", "text")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.text = ""
        """Its own, without that of its children."""
        self.children: list[Element] = []
        self.start = start
        """Where it begins, in bytes of the document."""
        self.end = start
        """Where its end tag begins; its own beginning where it has none, because it is empty and in the short form."""

    @property
    def is_short(self) -> bool:
        """Whether it is written as one tag."""
        return self.end == self.start

    def all(self, name: str) -> list[Element]:
        """Return the children of this name."""
        return [child for child in self.children if child.name == name]

    def one(self, name: str) -> Element | None:
        """Return the child of this name, if there is one; raise Refused where there are more, or it has children."""
        found = self.all(name)
        if not found:
            return None
        if len(found) > 1 or found[0].children:
            raise invalid(f"{len(found)} elements {name!r} in {self.name!r}, or one that holds others")
        return found[0]

    def value(self, name: str) -> str:
        """Return the text of the child of this name; empty where there is none."""
        found = self.one(name)
        return "" if found is None else found.text


def read_document(document: bytes) -> Generator[None, None, Element]:
    """Return the root of a document, and let others have their turn between two pieces of it.

    Raise Refused with STORE_INVALID for what is no document, has a document type, or is out of all bounds.
    """
    # Imported here because most processes never see one.
    from xml.parsers import expat  # noqa: PLC0415

    # Expat takes a NUL for a sign of UTF-16, whatever encoding it is told.
    if b"\0" in document:
        raise invalid("a NUL")
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    reading = _Reading(document, parser)
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.text
    try:
        for start in range(0, len(document), _PIECE):
            parser.Parse(document[start : start + _PIECE], False)
            yield
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise invalid(f"not well-formed: {error}") from None
    return reading.root


def replaced(document: bytes, changes: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return a document with the bytes between two places, each pair behind the one before, replaced."""
    parts: list[bytes] = []
    at = 0
    for start, end, text in changes:
        parts += (document[at:start], text)
        at = end
    return b"".join((*parts, document[at:]))


class _Reading:
    """The part of a document that was read so far."""

    __slots__ = ("_count", "_document", "_open", "_parser", "_texts", "root")

    def __init__(self, document: bytes, parser: XMLParserType) -> None:
        self._document = document
        self._parser = parser
        self.root = Element("", 0)
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > _MAX_ELEMENTS or len(self._open) >= _MAX_DEPTH:
            raise invalid(f"more than {_MAX_ELEMENTS} elements, or {_MAX_DEPTH} levels")
        element = Element(name, self._parser.CurrentByteIndex)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def text(self, text: str) -> None:
        self._texts[-1].append(text)

    def end(self, _name: str) -> None:
        element = self._open.pop()
        element.text = "".join(self._texts.pop())
        end = self._parser.CurrentByteIndex
        # Behind a tag in the short form expat stands at what follows it, which may be the end tag of the parent.
        if element.text or element.children or self._document[end - 2 : end] != b"/>":
            element.end = end


def _refuse_doctype(*_declared: object) -> None:
    raise invalid("a document type")


def invalid(fault: str) -> Refused:
    """Return the refusal of a store's answer."""
    return Refused(Reason.STORE_INVALID, f"XML: {fault[:_SHOWN]}")
