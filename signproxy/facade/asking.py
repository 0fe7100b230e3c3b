"""Name who asks an upstream, for which call, and what takes in what its answers tell."""

from __future__ import annotations

from typing import Protocol

import msgspec

from signproxy.catalog.call import CatalogCall
from signproxy.catalog.call_body import CallBody
from signproxy.catalog.signer_grant import SignerGrant
from signproxy.catalog.upstream_spec import Effect
from signproxy.catalog.upstreams import Bound
from signproxy.gate.request import Request
from signproxy.gate.work import Account
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.sighting import Sighting
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog, Delegation


class Believes(Protocol):
    """Takes in what was seen, here and in the workers beside."""

    async def tell(
        self, sighting: Sighting, *, asked: float | None = None, sent: float | None = None
    ) -> SightingRefusal | None:
        """Take in a sighting; return what of it is not believed. The times are `time.monotonic()`'s."""
        ...


class AdmittedCall(msgspec.Struct, frozen=True):
    """A call that was admitted: whose it is, and what it is about."""

    catalog: Catalog
    bound: Bound
    subject: Subject
    bearer: str
    """The caller's own token, with which the upstream is asked."""
    request: Request
    call: CatalogCall
    body: CallBody | None
    effect: Effect
    dropped: str | None = None
    """The UUID of the table that is to be dropped, where it was known before."""
    chosen: bool = False
    """Its caller chose a place; what the upstream made of that is judged once more."""
    before: str | None = None
    """Where the table was that a commit is about; None where there was none, or nothing is committed."""
    modes: tuple[Delegation, ...] = ()
    """How the caller may reach the table's objects, in its own order: the first that can be had counts."""
    grant: SignerGrant | None = None
    """What the caller is told of the signer, but for what differs from table to table."""
    variant: str = ""
    """What tells answers to this caller from others."""
    conditional: bool = False
    """It was asked for only if it is another one than the caller has."""
    account: Account | None = None
    """Where the work of its answer is charged; None where that has a bound of its own."""
