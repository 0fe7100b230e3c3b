"""Name what a process that serves has in common with those beside it."""

from __future__ import annotations

import msgspec

from signproxy.sealing import SealingSecret
from signproxy.server.process.sightings import Share


class Group(msgspec.Struct, frozen=True):
    """The workers of one server, seen from one of them."""

    secret: SealingSecret
    """Seals where the operator configured nothing to seal with; it ends with the server."""
    share: Share | None = None
    """Lets the others hear of a sighting; None where there are none."""

    @classmethod
    def alone(cls) -> Group:
        """Return the group of a process that serves alone."""
        return cls(SealingSecret.random())
