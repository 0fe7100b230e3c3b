"""Show where a store is laxer than S3, and that it is not with signproxy in front of it."""

from __future__ import annotations

import itertools
from contextlib import closing

import pytest

from tests.e2e.forward.conftest import Doors
from tests.e2e.forward.laxness import ATTEMPTS, Attempt, Scene, lay_out
from tests.e2e.forward.session import contents
from tests.e2e.forward.signer import Endpoint
from tests.e2e.stores import SEAWEEDFS, SWIFT, VERSITYGW, StoreKind
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.stores.minio import MINIO
from tests.e2e.wire import Wire

STORES = (
    pytest.param(VERSITYGW, marks=pytest.mark.ci, id="versitygw"),
    pytest.param(SEAWEEDFS, marks=pytest.mark.ci, id="seaweedfs"),
    SWIFT,
    MINIO,
)
LITERAL = frozenset({SWIFT.name})
"""Stores for which `a//b` and `a/../b` are names like any other: there is nothing to close."""

_NUMBERS = itertools.count()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
@pytest.mark.parametrize("kind", STORES, ids=str)
def test_what_a_store_takes_in_error_is_refused_before_it(doors: Doors, kind: StoreKind, attempt: Attempt) -> None:
    """Who relies on a lax store's checks has none, and who puts signproxy before it must have them all."""
    number = next(_NUMBERS)
    with closing(Owner(doors.store(kind))) as owner:
        direct = f"direct-lax-{number}"
        lay_out(owner, direct)
        with Wire(owner.store.port) as wire:
            answer = wire.send(attempt.wire(Scene(Endpoint.direct(owner.store), direct)))
        happened = attempt.happened(owner, direct)
        assert happened is (kind.name in attempt.open_on), f"{kind} has changed: {answer.status} {code_of(answer)}"
        # What the store refuses itself it may refuse in its own words: they are passed on.
        own = frozenset() if happened else frozenset({code_of(answer)})

        through = f"through-lax-{number}"
        lay_out(owner, through)
        before = contents(owner, through)
        endpoint = doors.to(kind).endpoint()
        with Wire(endpoint.port) as wire:
            answer = wire.send(attempt.wire(Scene(endpoint, through)))
        assert not attempt.happened(owner, through), (answer.status, answer.body[:500])
        if kind.name in LITERAL and "segments" in attempt.name and answer.ok:
            return
        assert code_of(answer) in attempt.codes | own, (answer.status, answer.body[:500])
        assert contents(owner, through) == before


@pytest.mark.ci
def test_there_is_something_to_close() -> None:
    """A table without open rows would prove that the stores are strict, and nothing of signproxy."""
    for name, least in (("minio", 9), ("seaweedfs", 8), ("versitygw", 4), ("swift", 1)):
        assert sum(name in attempt.open_on for attempt in ATTEMPTS) >= least, name
