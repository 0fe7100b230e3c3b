"""Keep an audit line lossless for programs and harmless for its reader's terminal."""

from __future__ import annotations

from signproxy.telemetry.neutralise import neutralise

__all__ = ["harmless_json", "neutralise", "without_surrogates"]

# DEL, C1 controls and whatever hides, joins or turns text around. JSON itself escapes only what is below U+0020.
_ACTING = (
    range(0x7F, 0xA0), (0xAD, 0x61C, 0x180E, 0xFEFF), range(0x200B, 0x2010), range(0x2028, 0x202F),
    range(0x2060, 0x2070), range(0xFFF9, 0xFFFC), range(0xE0000, 0xE0080),
)  # fmt: skip


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


_ESCAPES = {point: _escape(chr(point)) for points in _ACTING for point in points}
"""A table, so that text full of them costs no call of Python for each: it is written on the event loop."""


def harmless_json(lines: bytes) -> bytes:
    r"""Return the same JSON with acting characters as ``\u`` escapes; it decodes to exactly the same values."""
    if lines.isascii() and b"\x7f" not in lines:
        return lines
    # Outside strings JSON is ASCII, so such a character always stands in a string, where an escape means the same.
    return lines.decode().translate(_ESCAPES).encode()


def without_surrogates(text: str) -> str:
    r"""Write unpaired surrogates as the six characters ``\udcNN``.

    The server keeps bytes of a header that are no UTF-8 that way; JSON has no place for them, and what a caller sent
    is evidence.
    """
    return text.encode("utf-8", "backslashreplace").decode()
