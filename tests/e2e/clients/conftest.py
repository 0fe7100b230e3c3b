"""Start one lake for all clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.clients.drive import Lake, run_lake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with run_lake(tmp_path_factory.mktemp("lake")) as running:
        yield running
