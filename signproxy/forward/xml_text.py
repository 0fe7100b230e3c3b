"""Read the text of an XML element as the element means it."""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def unescaped(text: str) -> str:
    """Resolve the references of XML. `html.unescape` knows 2,000 more, which would make two keys of one."""
    if "\r" in text:
        # Every XML parser reads a line end so.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _REFERENCE.sub(_resolved, text) if "&" in text else text


def _resolved(found: re.Match[str]) -> str:
    decimal, hexadecimal, name = found.groups()
    if name is not None:
        return _NAMED[name]
    code = int(decimal) if decimal is not None else int(hexadecimal, 16)
    return chr(code) if code <= 0x10FFFF else found[0]
