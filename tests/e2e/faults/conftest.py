"""Lay out a deployment of one process, and one of a supervisor with two workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults.deployment import Deployment

Deploy = Callable[..., Deployment]

POLL_SECONDS = 0.2
"""How often files are looked at here: a tenth of the default, so that a test waits a tenth as long."""

ONE_ON_EVERY_CHANGE = pytest.mark.parametrize(
    "workers", (pytest.param(1, id="one", marks=pytest.mark.ci), pytest.param(2, id="two"))
)
"""For what each process does by itself: two of them are looked at only where everything is run."""


@pytest.fixture
def deploy(tmp_path: Path) -> Deploy:
    """Return what makes a deployment of so many workers."""

    def made(workers: int = 1, **sections: Any) -> Deployment:
        deployment = Deployment(tmp_path / "signproxy", reload={"poll_seconds": POLL_SECONDS}, **sections)
        if workers > 1:
            deployment.set("workers", workers)
        return deployment

    return made
