"""Read the objects out of a bulk delete's XML body, so strictly that no store can read other ones.

Whatever XML parsers are known to treat differently is refused, needed or not: document types, entities,
comments, CDATA, processing instructions, prefixes, foreign attributes and, where the client's own body is sent, white
space around a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import Worded
from signproxy.s3.key import MAX_KEY_BYTES, check_key

MAX_BODY_BYTES = 2 * 1024 * 1024
"""S3's own limit."""
MAX_KEYS = 1000
"""S3's own limit."""
MAX_TEXT = 8 * MAX_KEY_BYTES
"""Characters of a key, or of what an object names besides, that are read. A key that is too long for S3 is told to the
client as its own fault up to here; no client of S3 writes longer texts."""

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DOCUMENT = ""
_CHILDREN = {_DOCUMENT: ("Delete",), "Delete": ("Object", "Quiet")}
# What an Object may name besides its key: what they delete is not what a key says.
_CONDITIONS = ("VersionId", "ETag", "LastModifiedTime", "Size")
_WITH_TEXT = ("Key", "Quiet", *_CONDITIONS)
_NOT_ACCEPTED = "The body of the bulk delete is not the XML that is accepted"
"""Whether conditions are accepted depends on the rules, so the fault says which element is not."""
_BY_KEY_ALONE = (
    "In a table a bulk delete names objects by their key alone: {} is not accepted; leave it out. "
    "Only volumes accept it"
)
_XML_SPACE = " \t\r\n"
# An angle bracket that no other one closes soon. The longest tag that clients write has 60 bytes; a tag of a
# megabyte would keep expat busy with attributes before any handler could refuse it.
_UNCLOSED = re.compile(rb"<(?![^<>]{1,1024}>)")
_PIECE = 4 * 1024
"""Bytes that are read at a time: a fifth of a millisecond, whatever they are."""
_SHOWN = 64
"""Characters of a foreign name that a refusal repeats; the audit trail must not swell with the body."""


class DeleteRules(NamedTuple):
    """Which objects a bulk delete may name."""

    check: Callable[[str], None] | None = check_key
    """Refuses a key that may not be addressed, and with it the whole document; None where that is asked of each key
    later."""
    conditions: bool = False
    """An object may name a version, an ETag, a time or a size too."""
    written_anew: bool = False
    """The store gets a document written from what is read here, so a key may come twice, or with white space around
    it: each key is judged as it is, and parsers that would read a client's own document otherwise never see it."""


STRICT = DeleteRules()


class DeletedObject(msgspec.Struct, frozen=True, gc=False):
    """What one element of a bulk delete asks for."""

    key: str
    conditions: tuple[tuple[str, str], ...] = ()
    """Version, ETag, time and size: the name of the element and its text, in their order."""


class BulkDelete(msgspec.Struct, frozen=True, gc=False):
    """What a bulk delete asks for."""

    objects: tuple[DeletedObject, ...]
    """In their order; as many as the document names."""
    quiet: bool = False
    """Only errors are told of."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys in their order, each one once."""
        # A dictionary is an ordered set here.
        return tuple(dict.fromkeys([each.key for each in self.objects]))


def read_bulk_delete(body: bytes, rules: DeleteRules = STRICT) -> BulkDelete:
    """Return what a bulk delete asks for, keys exactly as written.

    Raise Refused with DELETE_MARKUP, DELETE_SIZE or DELETE_BODY for everything but the document that S3 documents; with
    the reason of the rules' check for a key; with DELETE_WHITE_SPACE or DELETE_REPEATED for one that is trimmed by some
    parsers, or named twice, in a document that is sent as it is.
    """
    pieces = reading(body, rules)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            read: BulkDelete = end.value
            return read


def reading(body: bytes, rules: DeleteRules = STRICT) -> Generator[None, None, BulkDelete]:
    """Do what `read_bulk_delete` does, and let others have their turn between two pieces of the body."""
    if len(body) > MAX_BODY_BYTES:
        raise _refusal(f"{len(body)} bytes, at most {MAX_BODY_BYTES} are read", Reason.DELETE_SIZE)
    # Expat takes a byte order mark or a NUL for a sign of UTF-16, whatever encoding it is told.
    if b"\0" in body or body.startswith(b"\xef\xbb\xbf"):
        raise _refusal("a byte order mark or NUL", Reason.DELETE_MARKUP)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise _refusal(f"not UTF-8 at byte {error.start}", Reason.DELETE_MARKUP) from None
    # Expat never gets to see what only a document type could bring.
    if b"<!" in body:
        raise _refusal("a document type, comment or CDATA section", Reason.DELETE_MARKUP)
    if body.count(b"<") != body.count(b">") or _UNCLOSED.search(body):
        raise _refusal("angle brackets that do not pair up, or a tag that is too long")
    yield
    return (yield from _parse(body, rules))


def by_key_alone(condition: str, detail: str) -> Refused:
    """Return the refusal of what an object of a table is named by besides its key."""
    # It is a document that S3 knows; what is refused is what it asks for.
    return Worded(Reason.DELETE_BODY, _BY_KEY_ALONE.format(condition), code="InvalidArgument", detail=detail)


def _parse(body: bytes, rules: DeleteRules) -> Generator[None, None, BulkDelete]:
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
        for start in range(0, len(body), _PIECE):
            parser.Parse(body[start : start + _PIECE], False)
            yield
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise _refusal(f"not well-formed XML: {error}") from None
    if not document.objects:
        raise _refusal("no Object", Reason.DELETE_SIZE)
    return BulkDelete(tuple(document.objects), document.quiet)


class _Document:
    """The part of a document that was read so far."""

    __slots__ = ("_conditions", "_count", "_key", "_keys", "_open", "_quiet", "_rules", "_text", "objects", "quiet")

    def __init__(self, rules: DeleteRules) -> None:
        self._rules = rules
        self.objects: list[DeletedObject] = []
        self.quiet = False
        # Objects that were begun.
        self._count = 0
        # Of the object that is read: its key, once it is there, and what else it names.
        self._key: str | None = None
        self._conditions: dict[str, str] = {}
        self._keys: set[str] = set()
        self._open = [_DOCUMENT]
        # Whether there was such an element.
        self._quiet = False
        self._text: list[str] = []

    def declaration(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            raise _refusal(f"XML version {version[:_SHOWN]!r}", Reason.DELETE_MARKUP)
        if encoding is not None and encoding.lower() != "utf-8":
            raise _refusal(f"encoding {encoding[:_SHOWN]!r}", Reason.DELETE_MARKUP)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1]
        if name not in self._children(parent):
            fault = f"element {name[:_SHOWN]!r} in {parent or 'the document'}"
            if parent == "Object" and name in _CONDITIONS:
                raise by_key_alone(name, fault)
            raise _refusal(fault)
        if attributes and (name != "Delete" or attributes != {"xmlns": _NAMESPACE}):
            raise _refusal(f"attributes of {name}")
        if name == "Object":
            self._count += 1
            if self._count > MAX_KEYS:
                raise _refusal(f"more than {MAX_KEYS} objects", Reason.DELETE_SIZE)
            self._key = None
            self._conditions = {}
        elif name in self._conditions or (name == "Key" and self._key is not None):
            # Of two, one parser reads the first and another the last.
            raise self._object_refusal(f"a second {name}")
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
            if self._key is None:
                raise self._object_refusal("no Key")
            self.objects.append(DeletedObject(self._key, tuple(self._conditions.items())))
        elif name == "Quiet":
            if text not in ("true", "false"):
                raise _refusal("Quiet is neither true nor false")
            self.quiet = text == "true"
        elif name in _CONDITIONS:
            if len(text) > MAX_TEXT:
                raise self._object_refusal(f"{name} of {len(text)} characters, at most {MAX_TEXT} are read")
            self._conditions[name] = text

    def _close_key(self, key: str) -> None:
        check = self._rules.check
        # Before the key is looked at: a refusal repeats it.
        longest = MAX_TEXT if check is None else MAX_KEY_BYTES
        if len(key) > longest:
            fault = f"key of {len(key)} characters, at most {longest} are read"
            raise self._object_refusal(fault, Reason.KEY_TOO_LONG)
        if check is not None:
            try:
                check(key)
            except Refused as refusal:
                raise self._object_refusal(refusal.detail, refusal.reason) from None
        if not self._rules.written_anew:
            # Some parsers trim text (Python's xmltodict does unless told otherwise): they would delete another key.
            if key != key.strip():
                raise self._object_refusal(f"white space around key {key!r}", Reason.DELETE_WHITE_SPACE)
            if key in self._keys:
                raise self._object_refusal(f"key {key!r} is repeated", Reason.DELETE_REPEATED)
            self._keys.add(key)
        self._key = key

    def _children(self, parent: str) -> tuple[str, ...]:
        if parent == "Object":
            return ("Key", *_CONDITIONS) if self._rules.conditions else ("Key",)
        return _CHILDREN.get(parent, ())

    def _object_refusal(self, fault: str, reason: Reason = Reason.DELETE_BODY) -> Refused:
        return _refusal(f"object {self._count}: {fault}", reason)

    def processing_instruction(self, _target: str, _text: str) -> None:
        raise _refusal("a processing instruction", Reason.DELETE_MARKUP)


def _refusal(fault: str, reason: Reason = Reason.DELETE_BODY) -> Refused:
    # What is wrong is found in the caller's own body, so it may be told.
    rule = _NOT_ACCEPTED if reason is Reason.DELETE_BODY else reason.value.message
    return Worded(reason, f"{rule}: {fault}", detail=fault)
