"""Choose how a caller reaches the objects of a table: of what the client asks for, in its order, what it is offered."""

from __future__ import annotations

from collections.abc import Collection

from signproxy.catalog.signer_grant import Offer
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Delegation

_MODES = {mode.value: mode for mode in Delegation}


def modes_asked(delegation: str) -> tuple[Delegation, ...]:
    """Return what the access-delegation header asks for, in its order; what it names besides is not known here."""
    words = dict.fromkeys(word.strip() for word in delegation.split(","))
    return tuple(_MODES[word] for word in words if word in _MODES)


def modes_offered(offered: Collection[Delegation], offer: Offer, delegation: str) -> tuple[Delegation, ...]:
    """Return what a caller with this access-delegation header gets, the first of it that can be had.

    By the specification a server may give none of what is asked for. A caller that is offered nothing at all is told
    so: raise Refused (DELEGATION_REFUSED).
    """
    asked = modes_asked(delegation)
    if asked and not offered:
        raise Refused(Reason.DELEGATION_REFUSED, f"asks for {delegation!r}, and is offered nothing")
    modes = tuple(mode for mode in asked if mode in offered)
    signs = Delegation.REMOTE_SIGNING
    return (*modes, signs) if offer is Offer.ALWAYS and signs in offered and signs not in modes else modes
