"""Name every reason that keeps keys from being handed out."""

from __future__ import annotations

from signproxy.errors import Reason

OF_VENDING = frozenset(
    {
        Reason.SCOPE_NOT_VENDABLE,
        Reason.SCOPE_TOO_LARGE,
        Reason.SESSION_TOO_SHORT,
        Reason.SESSION_UNPROVED,
        Reason.SESSIONS_THROTTLED,
        Reason.SESSIONS_UNAVAILABLE,
        Reason.SESSIONS_REFUSED,
        Reason.SESSIONS_INVALID,
    }
)
"""Each is provoked in `test_sts` or `test_mints`."""
