"""Keep the machine's own AWS set-up out of the tests, and every provider's traces out of the next test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from signproxy.credentials import slot
from signproxy.credentials.registry import BUILT_IN, ProviderRegistry
from signproxy.credentials.store import CredentialStore
from tests.credentials.memory import MemoryProvider
from tests.credentials.services import Service
from tests.credentials.stores import Clock


@pytest.fixture(autouse=True)
def aws_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home: no variable, no shared file and no metadata service but those of the test."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / ".aws/config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / ".aws/credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("BOTO_CONFIG", str(home / "boto.cfg"))
    return home


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MemoryProvider]]:
    """Every fake that a test leads to; retries come at once."""
    monkeypatch.setattr(slot, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(slot, "LAST_RETRY_SECONDS", 0.01)
    MemoryProvider.made.clear()
    yield MemoryProvider.made
    MemoryProvider.made.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(clock: Clock, made: list[MemoryProvider]) -> AsyncIterator[CredentialStore]:
    opened = CredentialStore(ProviderRegistry((BUILT_IN, "tests.credentials")), clock=clock)
    yield opened
    await opened.aclose()


@pytest.fixture
def service() -> Iterator[Service]:
    """AWS' services as moto has them."""
    made = Service()
    yield made
    made.close()
