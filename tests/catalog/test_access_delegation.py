"""Of what a client asks for, in its order, it gets what it is offered."""

from __future__ import annotations

import pytest

from signproxy.catalog.access_delegation import modes_asked, modes_offered
from signproxy.catalog.signer_grant import Offer
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Delegation

SIGNS, VENDS = Delegation.REMOTE_SIGNING, Delegation.VENDED_CREDENTIALS


@pytest.mark.parametrize(
    ("offer", "delegation", "offered"),
    (
        (Offer.ON_REQUEST, "", False),
        (Offer.ON_REQUEST, "vended-credentials", False),
        (Offer.ON_REQUEST, "remote-signing", True),
        (Offer.ON_REQUEST, "vended-credentials, remote-signing", True),
        (Offer.ALWAYS, "", True),
        (Offer.ALWAYS, "vended-credentials", True),
    ),
)
def test_signing_is_offered_on_request_or_always(offer: Offer, delegation: str, *, offered: bool) -> None:
    """iceberg-go refuses a table that offers it; others would read with keys of their own."""
    assert modes_offered((SIGNS,), offer, delegation) == ((SIGNS,) if offered else ())


def test_the_header_is_a_list_of_names() -> None:
    """A name that contains another one asks for something else."""
    assert modes_asked("no-remote-signing") == modes_asked("remote-presigning") == ()


@pytest.mark.parametrize(
    ("delegation", "modes"),
    (
        ("vended-credentials,remote-signing", (VENDS, SIGNS)),
        ("remote-signing, vended-credentials", (SIGNS, VENDS)),
        (" vended-credentials ,vended-credentials", (VENDS,)),
        ("teleport,vended-credentials,,", (VENDS,)),
        ("Vended-Credentials", ()),
        ("vended-credentials;remote-signing", ()),
        ("", ()),
        (",", ()),
    ),
)
def test_the_order_is_the_client_s(delegation: str, modes: tuple[Delegation, ...]) -> None:
    """A client that can sign and prefers it would be handed keys."""
    assert modes_asked(delegation) == modes
    assert modes_offered((SIGNS, VENDS), Offer.ON_REQUEST, delegation) == modes
    assert modes_offered((VENDS,), Offer.ON_REQUEST, delegation) == tuple(mode for mode in modes if mode is VENDS)


def test_a_client_that_is_given_signatures_unasked_is_given_what_it_asked_for_first() -> None:
    """Keys that were asked for would never be handed out."""
    assert modes_offered((SIGNS, VENDS), Offer.ALWAYS, "vended-credentials") == (VENDS, SIGNS)
    assert modes_offered((VENDS,), Offer.ALWAYS, "") == ()


def test_a_caller_that_is_offered_nothing_is_told_so() -> None:
    """It would look for the fault in its own keys."""
    with pytest.raises(Refused) as caught:
        modes_offered((), Offer.ALWAYS, "vended-credentials")
    assert caught.value.reason is Reason.DELEGATION_REFUSED
    # A client that has its own access asks for none.
    assert modes_offered((), Offer.ALWAYS, "") == ()
