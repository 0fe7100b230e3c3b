"""Read the keys out of a bulk delete's XML body, so strictly that no store can read other ones.

Whatever XML parsers are known to treat differently is refused, needed or not: document types, entities,
comments, CDATA, processing instructions, prefixes, foreign attributes and white space around a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.s3.key import MAX_KEY_BYTES, check_key

MAX_BODY_BYTES = 2 * 1024 * 1024
"""S3's own limit."""
MAX_KEYS = 1000
"""S3's own limit."""

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DOCUMENT = ""
_CHILDREN = {_DOCUMENT: ("Delete",), "Delete": ("Object", "Quiet")}
# What an Object may name besides its key: what they delete is not what a key says.
_CONDITIONS = ("VersionId", "ETag", "LastModifiedTime", "Size")
_WITH_TEXT = ("Key", "Quiet", *_CONDITIONS)
_XML_SPACE = " \t\r\n"
# An angle bracket that no other one closes soon. The longest tag that clients write has 60 bytes; a tag of a
# megabyte would keep expat busy with attributes before any handler could refuse it.
_UNCLOSED = re.compile(rb"<(?![^<>]{1,1024}>)")
_SHOWN = 64
"""Characters of a foreign name that a refusal repeats; the audit trail must not swell with the body."""


class DeleteRules(NamedTuple):
    """Which objects a bulk delete may name."""

    check: Callable[[str], None] = check_key
    """Refuses a key that may not be addressed."""
    conditions: bool = False
    """An object may name a version, an ETag, a time or a size too, and a key may come back with another of them."""
    blanks: bool = False
    """A key may begin or end with white space."""


STRICT = DeleteRules()


def delete_keys(body: bytes, rules: DeleteRules = STRICT) -> tuple[str, ...]:
    """Return the keys of a bulk delete in their order, each one once and exactly as written.

    Raise Refused with DELETE_BODY for everything but the document that S3 documents, all keys allowed.
    """
    if len(body) > MAX_BODY_BYTES:
        raise _refusal(f"{len(body)} bytes, at most {MAX_BODY_BYTES} are read")
    # Expat takes a byte order mark or a NUL for a sign of UTF-16, whatever encoding it is told.
    if b"\0" in body or body.startswith(b"\xef\xbb\xbf"):
        raise _refusal("a byte order mark or NUL")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise _refusal(f"not UTF-8 at byte {error.start}") from None
    # Expat never gets to see what only a document type could bring.
    if b"<!" in body:
        raise _refusal("a document type, comment or CDATA section")
    if body.count(b"<") != body.count(b">") or _UNCLOSED.search(body):
        raise _refusal("angle brackets that do not pair up, or a tag that is too long")
    return _parse(body, rules)


def _parse(body: bytes, rules: DeleteRules) -> tuple[str, ...]:
    # Imported here because most processes never see a bulk delete.
    from xml.parsers import expat  # noqa: PLC0415

    document = _Document(rules)
    parser = expat.ParserCreate("utf-8")
    # One call for a text instead of one for each of its line ends and references: 2 MiB could hold a million.
    parser.buffer_text = True
    parser.XmlDeclHandler = document.declaration
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.text
    parser.ProcessingInstructionHandler = document.processing_instruction
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise _refusal(f"not well-formed XML: {error}") from None
    if not document.keys:
        raise _refusal("no Object")
    return tuple(document.keys)


class _Document:
    """The part of a document that was read so far."""

    __slots__ = ("_keyed", "_objects", "_open", "_quiet", "_rules", "_text", "keys")

    def __init__(self, rules: DeleteRules) -> None:
        self._rules = rules
        # How many objects have their key.
        self._keyed = 0
        # A dictionary is an ordered set here.
        self.keys: dict[str, None] = {}
        self._objects = 0
        self._open = [_DOCUMENT]
        self._quiet = False
        self._text: list[str] = []

    def declaration(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            raise _refusal(f"XML version {version[:_SHOWN]!r}")
        if encoding is not None and encoding.lower() != "utf-8":
            raise _refusal(f"encoding {encoding[:_SHOWN]!r}")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1]
        if name not in self._children(parent):
            raise _refusal(f"element {name[:_SHOWN]!r} in {parent or 'the document'}")
        if attributes and (name != "Delete" or attributes != {"xmlns": _NAMESPACE}):
            raise _refusal(f"attributes of {name}")
        if name == "Object":
            self._objects += 1
            if self._objects > MAX_KEYS:
                raise _refusal(f"more than {MAX_KEYS} objects")
        elif name == "Key":
            # The object before this one was closed with its key.
            if self._keyed == self._objects:
                raise self._object_refusal("a second Key")
        elif name == "Quiet":
            if self._quiet:
                raise _refusal("a second Quiet")
            self._quiet = True
        self._open.append(name)
        self._text.clear()

    def text(self, text: str) -> None:
        # A long text comes in pieces.
        if self._open[-1] in _WITH_TEXT:
            self._text.append(text)
        elif text.lstrip(_XML_SPACE):
            raise _refusal(f"text in {self._open[-1]}")

    def end(self, name: str) -> None:
        self._open.pop()
        text = "".join(self._text)
        if name == "Key":
            self._close_key(text)
        elif name == "Object":
            if self._keyed != self._objects:
                raise self._object_refusal("no Key")
        elif name == "Quiet" and text not in ("true", "false"):
            raise _refusal("Quiet is neither true nor false")

    def _close_key(self, key: str) -> None:
        if len(key) > MAX_KEY_BYTES:
            raise self._object_refusal(f"{Reason.KEY_TOO_LONG.code}: key of {len(key)} characters")
        try:
            self._rules.check(key)
        except Refused as refusal:
            raise self._object_refusal(f"{refusal.reason.code}: {refusal.detail}") from None
        # Some parsers trim text (Python's xmltodict does unless told otherwise): they would delete another key.
        if key != key.strip() and not self._rules.blanks:
            raise self._object_refusal(f"white space around key {key!r}")
        if key in self.keys and not self._rules.conditions:
            raise self._object_refusal(f"key {key!r} is repeated")
        self.keys[key] = None
        self._keyed += 1

    def _children(self, parent: str) -> tuple[str, ...]:
        if parent == "Object":
            return ("Key", *_CONDITIONS) if self._rules.conditions else ("Key",)
        return _CHILDREN.get(parent, ())

    def _object_refusal(self, fault: str) -> Refused:
        return _refusal(f"object {self._objects}: {fault}")

    def processing_instruction(self, _target: str, _text: str) -> None:
        raise _refusal("a processing instruction")


def _refusal(fault: str) -> Refused:
    return Refused(Reason.DELETE_BODY, fault)
