"""Write the XML of a bulk delete, so that every parser reads exactly the objects that it is written from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from signproxy.s3.bulk_delete import DeletedObject

_ROOT = '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_REFERENCES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    # Parsers turn these into spaces or line feeds where they stand as they are.
    "\t": "&#x9;",
    "\n": "&#xA;",
    "\r": "&#xD;",
}
# The last two end a line, and so become a line feed, for parsers of XML 1.1.
_SPECIAL = re.compile("[&<>\t\n\r\x85\u2028]")


def delete_document(objects: Iterable[DeletedObject], *, quiet: bool = False) -> bytes:
    """Return the document that names these objects in their order; what an XML parser read, XML can hold."""
    elements = "".join([_object(each) for each in objects])
    return f"{_ROOT}{elements}{'<Quiet>true</Quiet>' if quiet else ''}</Delete>".encode()


def _object(each: DeletedObject) -> str:
    conditions = "".join([_element(name, text) for name, text in each.conditions])
    return f"<Object>{_element('Key', each.key)}{conditions}</Object>"


def _element(name: str, text: str) -> str:
    return f"<{name}>{_SPECIAL.sub(_reference, text)}</{name}>"


def _reference(found: re.Match[str]) -> str:
    character = found[0]
    return _REFERENCES.get(character) or f"&#x{ord(character):X};"
