"""Hold a place among requests for as long as a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from signproxy.gate.limits import Lease, Places


@contextmanager
def placed(places: Places, principal: str) -> Iterator[None]:
    """Hold one as a request does. Raise Refused where there is none."""
    lease = Lease()
    lease.principal = principal
    try:
        lease.take(places)
        yield
    finally:
        lease.close()
