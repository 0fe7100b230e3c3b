"""One caller's transfers leave room for those of others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate.limits import Places
from tests.places import placed


def test_each_caller_and_all_together_have_a_limit() -> None:
    """A job with a thousand connections would take the memory, and the store, of all others."""
    transfers = Places("transfers at a time", 2, 3)
    with ExitStack() as going:
        for name in ("a", "a", "b"):
            going.enter_context(placed(transfers, name))
        assert transfers.taken == 3
        for name, reason in (("a", Reason.IN_FLIGHT_LIMITED), ("b", Reason.OVERLOADED), ("c", Reason.OVERLOADED)):
            with pytest.raises(Refused) as caught, placed(transfers, name):
                pass
            assert caught.value.reason is reason
        transfers.replace(3, 4)
        with placed(transfers, "a"):
            assert transfers.taken == 4
    assert transfers.taken == 0
    with placed(transfers, "a"):
        assert transfers.taken == 1


def test_a_transfer_that_fails_is_counted_out() -> None:
    """After as many failures as the limit allows no request would be served any more."""
    transfers = Places("transfers at a time", 1, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError), placed(transfers, "a"):
            raise RuntimeError
    assert transfers.taken == 0


def test_a_request_that_only_asks_is_counted_only_if_there_is_room() -> None:
    """A request that is left to another way would be counted twice, or not at all."""
    transfers = Places("transfers at a time", 1, 2)
    assert transfers.begin_at_once("a")
    assert not transfers.begin_at_once("a")
    assert transfers.begin_at_once("b")
    assert not transfers.begin_at_once("c")
    assert transfers.taken == 2
    transfers.end("a")
    assert transfers.begin_at_once("c")
