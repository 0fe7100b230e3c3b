"""Keep the machine's own AWS set-up out of the tests, and serve a session service that does what it is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.credentials.services import Service


@pytest.fixture(autouse=True)
def aws_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home: no variable, no shared file and no metadata service but those of the test."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


@pytest.fixture
def service() -> Iterator[Service]:
    """AWS' services as moto has them."""
    made = Service()
    yield made
    made.close()
