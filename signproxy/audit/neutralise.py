"""Keep an audit line lossless for programs and harmless for its reader's terminal."""

from __future__ import annotations

import re

from signproxy.telemetry.neutralise import neutralise

__all__ = ["harmless_json", "neutralise", "without_surrogates"]

# DEL, C1 controls and whatever hides, joins or turns text around. JSON itself escapes only what is below U+0020.
_ACTING = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def harmless_json(lines: bytes) -> bytes:
    r"""Return the same JSON with acting characters as ``\u`` escapes; it decodes to exactly the same values."""
    if lines.isascii() and b"\x7f" not in lines:
        return lines
    # Outside strings JSON is ASCII, so such a character always stands in a string, where an escape means the same.
    return _ACTING.sub(_escape, lines.decode()).encode()


def without_surrogates(text: str) -> str:
    r"""Write unpaired surrogates as the six characters ``\udcNN``.

    The server keeps bytes of a header that are no UTF-8 that way; JSON has no place for them, and what a caller sent
    is evidence.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
