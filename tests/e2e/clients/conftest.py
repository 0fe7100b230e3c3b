"""Lay out the lakes of all clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.clients.drive import Lakes
from tests.e2e.conftest import Shelf


@pytest.fixture(scope="session")
def lakes(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakes]:
    with ExitStack() as stack:
        yield Lakes(shelf, tmp_path_factory, stack)
