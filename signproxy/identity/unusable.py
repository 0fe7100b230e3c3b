"""Say that keys, or the way to them, cannot be used; never leaves this room."""

from __future__ import annotations

from signproxy.errors import SignproxyError


class KeysUnusable(SignproxyError):
    """A key, a key set or the URL of one cannot be used; the text is for the operator."""
