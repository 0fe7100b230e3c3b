"""Say how long each phase of a forwarded request may take; there is no limit for all of it: objects have any size."""

from __future__ import annotations

import msgspec


class Times(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Seconds for each phase, counted from the end of the one before."""

    connect: float = 5.0
    """For a connection to a store to be there, its turn in the pool and TLS included."""
    answer: float = 60.0
    """From the end of a request to the head of its answer."""
    slow_answer: float = 600.0
    """The same for copies and for completing a multipart upload: stores work while the head waits."""
    idle: float = 60.0
    """Without a byte of a body to or from the store."""
    client_idle: float = 60.0
    """Without a byte of a body to or from the client."""
    keepalive: float = 4.0
    """How long an idle connection is kept: less than the store keeps it, or requests meet its end."""
