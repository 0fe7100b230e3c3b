"""Hold a place among requests for as long as a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from signproxy.gate.lease import Lease, PlaceKeeper


@contextmanager
def placed(places: PlaceKeeper, principal: str) -> Iterator[None]:
    """Hold one as a request does. Raise Refused where there is none."""
    lease = Lease()
    try:
        lease.take(places, principal)
        yield
    finally:
        lease.close()
