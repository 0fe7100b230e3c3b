"""One caller's transfers leave room for those of others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from signproxy.config.s3 import S3LimitSettings
from signproxy.errors import Reason, Refused
from signproxy.server.s3.transfers import Transfers


def test_each_caller_and_all_together_have_a_limit() -> None:
    """A job with a thousand connections would take the memory, and the store, of everybody else."""
    transfers = Transfers(S3LimitSettings(in_flight=2, total_in_flight=3))
    with ExitStack() as going:
        for name in ("a", "a", "b"):
            going.enter_context(transfers.going(name))
        assert transfers.in_flight == 3
        for name, reason in (("a", Reason.IN_FLIGHT_LIMITED), ("b", Reason.OVERLOADED), ("c", Reason.OVERLOADED)):
            with pytest.raises(Refused) as caught, transfers.going(name):
                pass
            assert caught.value.reason is reason
        transfers.replace(S3LimitSettings(in_flight=3, total_in_flight=4))
        with transfers.going("a"):
            assert transfers.in_flight == 4
    assert transfers.in_flight == 0
    with transfers.going("a"):
        assert transfers.in_flight == 1


def test_a_transfer_that_fails_is_counted_out() -> None:
    """After as many failures as the limit allows nobody would be served any more."""
    transfers = Transfers(S3LimitSettings(in_flight=1, total_in_flight=1))
    for _ in range(3):
        with pytest.raises(RuntimeError), transfers.going("a"):
            raise RuntimeError
    assert transfers.in_flight == 0


def test_whoever_only_asks_is_counted_only_if_there_is_room() -> None:
    """A request that is left to another way would be counted twice, or not at all."""
    transfers = Transfers(S3LimitSettings(in_flight=1, total_in_flight=2))
    assert transfers.begin_at_once("a")
    assert not transfers.begin_at_once("a")
    assert transfers.begin_at_once("b")
    assert not transfers.begin_at_once("c")
    assert transfers.in_flight == 2
    transfers.end("a")
    assert transfers.begin_at_once("c")
