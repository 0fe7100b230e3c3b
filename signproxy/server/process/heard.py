"""Date a sighting, so that processes which hear of several can tell which is the newest."""

from __future__ import annotations

import msgspec

from signproxy.inventory.learned.sighting import Answered, Live, Renamed, Sighting, Staged

Place = tuple[str, str, str]
"""Catalog, namespace and name."""


class Heard(msgspec.Struct, frozen=True, gc=False):
    """A sighting, and when it was true."""

    sighting: Sighting
    at: float
    """Seconds of the machine's monotonic clock, which its processes have in common."""
    sent: float | None = None
    """When the call was sent of which it was the answer, by the same clock; None where that is `at`."""

    @property
    def begun(self) -> float:
        """When the call was sent: what it tells may be as old."""
        return self.at if self.sent is None else self.sent


def places_of(sighting: Sighting) -> tuple[Place, ...]:
    """Return the places that a sighting is about."""
    match sighting:
        case Live(catalog=catalog, facts=facts) | Staged(catalog=catalog, facts=facts):
            return ((catalog, facts.namespace, facts.name),)
        case Renamed():
            return (
                (sighting.catalog, sighting.namespace, sighting.name),
                (sighting.catalog, sighting.to_namespace, sighting.to_name),
            )
        case Answered():
            # It is a principal's, and says nothing of where the table is.
            return ()
        case _:
            return ((sighting.catalog, sighting.namespace, sighting.name),)
