"""Choose how a caller reaches the objects of a table: of what the client asks for, in its order, what it is offered."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from signproxy.catalog.signer_grant import Offer
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Delegation

_MODES = {mode.value: mode for mode in Delegation}
_SIGNS = Delegation.REMOTE_SIGNING

_KEPT_LENGTH = 128
"""Characters of a header that is read but once: clients send a handful of them, and all that is beyond is made up."""


def modes_asked(delegation: str) -> tuple[Delegation, ...]:
    """Return what the access-delegation header asks for, in its order; what it names besides is not known here."""
    return _kept(delegation) if len(delegation) <= _KEPT_LENGTH else _read(delegation)


def _read(delegation: str) -> tuple[Delegation, ...]:
    words = dict.fromkeys([word.strip() for word in delegation.split(",")])
    return tuple([_MODES[word] for word in words if word in _MODES])


_kept = lru_cache(maxsize=64)(_read)


def modes_offered(offered: Collection[Delegation], offer: Offer, delegation: str) -> tuple[Delegation, ...]:
    """Return what a caller with this access-delegation header gets, the first of it that can be had.

    By the specification a server may give none of what is asked for. A caller that is offered nothing at all is told
    so: raise Refused (DELEGATION_REFUSED).
    """
    asked = modes_asked(delegation)
    if asked and not offered:
        raise Refused(Reason.DELEGATION_REFUSED, f"asks for {delegation!r}, and is offered nothing")
    modes = tuple([mode for mode in asked if mode in offered])
    return (*modes, _SIGNS) if offer is Offer.ALWAYS and _SIGNS in offered and _SIGNS not in modes else modes
