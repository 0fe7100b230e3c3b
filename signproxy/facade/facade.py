"""Hold what the ways of catalog calls share: catalogs that have an upstream, as their clients see them."""

from __future__ import annotations

from functools import partial

import msgspec

from signproxy.catalog.upstreams import Bound, Upstreams
from signproxy.facade.call_answers import CallAnswers
from signproxy.facade.grants import Granting
from signproxy.facade.seen import Seen
from signproxy.gate.calls import known_catalog
from signproxy.gate.gate import Gate
from signproxy.gate.request import CatalogAddress
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned.asked import SealedContext
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from signproxy.telemetry.families import CounterFamily
from signproxy.vending.vending import Vending


class Facade(msgspec.Struct, frozen=True, kw_only=True):
    """The catalogs that have an upstream, for one generation of settings."""

    for_upstream = True

    gate: Gate
    granting: Granting
    authenticator: Authenticator
    upstreams: Upstreams
    seen: Seen
    vending: Vending
    calls: CounterFamily

    @property
    def answers(self) -> CallAnswers:
        """What turns answers into those of callers."""
        return CallAnswers(self.gate, self.granting, self.seen, self.vending)

    def carried(self, context: str, subject: Subject, now: float) -> SealedContext:
        """Return what a sign request brought back, to be opened once it is needed."""
        return partial(self.granting.contexts.open, context, subject.caller.name, now)

    def count(self, call: str, status: int) -> None:
        """Count a call that was answered."""
        self.calls.labels(call, f"{status // 100}xx").inc()

    def bound(self, state: PolicyState, subject: Subject, address: CatalogAddress) -> tuple[Catalog, Bound | None]:
        """Return the catalog if the caller may know of it, and its upstream, if it has one. Raise Refused."""
        catalog = known_catalog(state, subject, address)
        return catalog, None if catalog.learning is None else self.upstreams.of(catalog.name)
