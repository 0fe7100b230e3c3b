"""Run SDKs of other languages against each store and through signproxy: each step, and what is stored, is the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.foreign import install
from tests.e2e.forward.foreign.comparison import DONE, STORED, Allowed, Step, differences, stored
from tests.e2e.forward.foreign.report import PHASES, USE, run_driver
from tests.e2e.forward.install import OBSTORE_VERSION, readers
from tests.e2e.forward.signer import Endpoint
from tests.e2e.matrix import Matrix, Row
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_numbers = itertools.count()


class Driver(NamedTuple):
    """A client, and how it is run."""

    name: str
    version: Callable[[], str]
    command: Callable[[], tuple[str, ...]]
    least: int
    """Steps that succeed on every store: a client that reaches nothing would find no difference."""
    kept: int
    """Objects that are stored before the clean-up: a bucket that is empty both ways would prove nothing."""
    allowed: tuple[Allowed, ...] = ()

    def __str__(self) -> str:
        return self.name


def _obstore() -> tuple[str, ...]:
    return str(readers()), str(Path(__file__).parent / "obstore_driver.py")


DRIVERS = (
    Driver("AWS SDK for JavaScript v3", lambda: install.JS_VERSION, install.js_driver, 50, 15),
    Driver("AWS SDK for Java v2", lambda: install.JAVA_VERSION, install.java_driver, 60, 25),
    Driver("AWS SDK for Go v2", install.go_version, install.go_driver, 40, 12),
    Driver("obstore", lambda: OBSTORE_VERSION, _obstore, 35, 10),
)


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_an_sdk_gets_what_it_gets_without_signproxy(
    doors: Doors, matrix: Matrix, tmp_path: Path, kind: StoreKind, driver: Driver
) -> None:
    """An application changes its endpoint and nothing else; each step that differs breaks one of them."""
    store, number = doors.store(kind), next(_numbers)
    seen: dict[str, list[Step]] = {}
    with closing(Owner(store)) as owner:
        for endpoint in (Endpoint.direct(store), doors.to(kind).endpoint()):
            bucket = f"{endpoint.name}-sdk-{number}"
            owner.must("PUT", bucket)
            steps = seen[endpoint.name] = []
            for phase in PHASES:
                told = run_driver(driver.command(), endpoint, bucket, tmp_path / endpoint.name, phase)
                steps += [one.as_step() for one in told]
                steps += stored(f"after the phase {phase}", owner, bucket)
    row = Row(driver.name, driver.version(), store.name, store.version, "every step", way="through the S3 listener")
    with matrix.row(row):
        assert sum(step.outcome == DONE for step in seen["through"]) >= driver.least
        kept = [
            step
            for step in seen["through"]
            if step.outcome == STORED and step.name.startswith(f"after the phase {USE}")
        ]
        assert len(kept) >= driver.kept
        found = differences(store.name, seen["direct"], seen["through"], driver.allowed)
        assert not found, "\n".join(found)
