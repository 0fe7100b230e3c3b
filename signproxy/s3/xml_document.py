"""Read an XML answer of a store: its elements, what they say, and where they stand in the document.

The one reader of answers that are looked into or changed. What is changed is written anew from what was read, at the
place where it was read.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable

from signproxy.errors import Reason, Refused

_MAX_DEPTH = 16
"""No answer of S3 has half as many levels."""
_MAX_ELEMENTS = 120_000
"""Ten thousand buckets, which is the longest list, with all that S3 tells of each, are half of it."""
PIECE = 16 * 1024
"""Bytes that are read at a time: a millisecond, whatever they are."""
_SHOWN = 128
"""Characters of a fault that are told."""
_SPACE = b" \t\r\n"
# A log is not told just anything that a store says.
_ERROR_CODE = re.compile(r"[A-Za-z0-9.]{1,64}")


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
    reading = _Reading(document)
    try:
        for start in range(0, len(document), PIECE):
            reading.read(document[start : start + PIECE], final=False)
            yield
        reading.read(b"", final=True)
    finally:
        reading.close()
    return reading.root


def read_beginning(document: bytes) -> Element:
    """Return the root of a document as far as its first `PIECE` bytes can be read, in one go.

    It has no name where no element begins there. An element whose end was not read has no text, and no end of its own,
    as if it was empty and in the short form.
    """
    beginning = document[:PIECE]
    reading = _Reading(beginning)
    try:
        reading.read(beginning, final=len(beginning) == len(document))
    except Refused:
        # What was read before it stands.
        return reading.root
    finally:
        reading.close()
    return reading.root


def error_code(root: Element) -> str:
    """Return the code that an error document gives; empty where it gives none that S3 could have."""
    codes = [each.text.strip() for each in root.all("Code")]
    return codes[0] if root.name == "Error" and len(codes) == 1 and _ERROR_CODE.fullmatch(codes[0]) else ""


def root_at(document: bytes) -> int:
    """Return where a document goes on behind blanks, its declaration and more blanks, with which stores gain time.

    The blanks before the declaration are no XML: stores send them all the same, and clients skip them.
    """
    rest = document.lstrip(_SPACE)
    if rest.startswith(b"<?xml"):
        _, end, behind = rest.partition(b"?>")
        if end:
            rest = behind.lstrip(_SPACE)
    return len(document) - len(rest)


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

    __slots__ = ("_count", "_document", "_fault", "_open", "_parser", "_texts", "root")

    def __init__(self, document: bytes) -> None:
        # Imported here because most processes never see one.
        from xml.parsers import expat  # noqa: PLC0415

        self._document = document
        self._fault = expat.ExpatError
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        self.root = Element("", 0)
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def read(self, piece: bytes, *, final: bool) -> None:
        # Expat takes a NUL for a sign of UTF-16, whatever encoding it is told.
        if b"\0" in piece:
            raise invalid("a NUL")
        try:
            self._parser.Parse(piece, final)
        except self._fault as error:
            raise invalid(f"not well-formed: {error}") from None

    def close(self) -> None:
        # The two hold each other: a long document would stay in memory until the next collection.
        del self._parser

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
