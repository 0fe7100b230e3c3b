"""Show text that a stranger wrote without letting it act on the reader's terminal."""

from __future__ import annotations


def neutralise(text: str, limit: int | None = None) -> str:
    r"""Return the text with every control, bidi, invisible and unpaired character written as an escape.

    A key with ``\x1b[2J`` would clear the screen that shows it; one with U+202E would read backwards and hide where
    it differs from a location. Letters of any script stay. Past `limit` characters the text is cut, and says so.
    """
    cut = ""
    if limit is not None and len(text) > limit:
        cut = f"… ({len(text)} characters)"
        text = text[:limit]
    # `isprintable` is false for exactly the categories that can act or hide: Cc, Cf, Cs, Co, Cn, Zl, Zp and Zs
    # except the plain space.
    if text.isprintable():
        return text + cut
    return "".join(each if each.isprintable() else _escape(each) for each in text) + cut


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
