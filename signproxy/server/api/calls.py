"""Tell which catalog call a route is, with and without a prefix."""

from __future__ import annotations

import msgspec

from signproxy.catalog.call import CallKind, CatalogCall, find_call
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import CatalogAddress
from signproxy.server.api.routes import Route, prefix_of

_WITHOUT_PREFIX = frozenset({CallKind.CONFIG.segments, CallKind.TOKENS.segments})


class Call(msgspec.Struct, frozen=True, gc=False):
    """A catalog call, and which catalog it is for."""

    address: CatalogAddress
    call: CatalogCall

    @property
    def name(self) -> str:
        """What it is called in events and metrics."""
        return self.call.kind.name.lower()

    @property
    def asks_for_token(self) -> bool:
        """Whether it asks for a token, and so may come without one."""
        return self.call.kind is CallKind.TOKENS


def find_call_of(route: Route, method: str) -> Call:
    """Return the call that a route is. Raise Refused if it is none."""
    parts = route.parts
    # Static routes win over a {prefix} of the same spelling.
    call = find_call(method, parts)
    if call is not None:
        return Call(route.address, call)
    below = parts[1:]
    call = None if below in _WITHOUT_PREFIX else find_call(method, below)
    if call is None:
        raise Refused(Reason.ROUTE_UNKNOWN, f"path {'/'.join(parts)!r}")
    return Call(CatalogAddress(route.address.name, prefix_of(parts[0])), call)
