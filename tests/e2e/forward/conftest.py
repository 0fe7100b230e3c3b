"""Open one door to each store, in front of buckets in which everything may be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.e2e.conftest import Shelf
from tests.e2e.forward.door import Door, run_door, storage_of, volume_policy
from tests.e2e.stores import SWIFT, VERSITYGW, RunningStore, StoreKind
from tests.e2e.stores.minio import MINIO

PATTERN = "through-*"
"""The buckets of the volume; those that a test looks at direct have other names."""
LISTED = "lake"

CONFORMANT = (pytest.param(VERSITYGW, marks=pytest.mark.ci, id="versitygw"), SWIFT, MINIO)
"""What conformance is asked of; the first is quick enough for every change."""


@dataclass(frozen=True, slots=True)
class Doors:
    """A door to each store, opened when it is first asked for."""

    shelf: Shelf
    directories: pytest.TempPathFactory
    stack: ExitStack
    opened: dict[str, Door] = field(default_factory=dict)

    def store(self, kind: StoreKind) -> RunningStore:
        """Return the store behind a door."""
        return self.shelf.get(kind)

    def to(self, kind: StoreKind) -> Door:
        """Return the door to a store."""
        if kind.name not in self.opened:
            store = self.store(kind)
            policy = volume_policy(storage_of(store, [LISTED]), [PATTERN])
            made = run_door(self.directories.mktemp(f"door-{kind.name}"), store, policy)
            self.opened[kind.name] = self.stack.enter_context(made)
        return self.opened[kind.name]


@pytest.fixture(scope="session")
def doors(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with ExitStack() as stack:
        yield Doors(shelf, tmp_path_factory, stack)
