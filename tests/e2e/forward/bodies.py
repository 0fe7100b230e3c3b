"""Name the bodies that are sent, small, large, and large enough for a part."""

from __future__ import annotations

BODY = b"0123456789" * 7
LARGE = bytes(range(256)) * 700
"""Three pieces of any framing."""
PART = b"p" * (5 * 1024 * 1024)
"""As small as a part that is not the last may be."""
