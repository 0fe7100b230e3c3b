"""Run one provider for all tests of a module, and put signproxy before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.deployment import Deployment
from tests.e2e.idp.provider import IdentityProvider, run_identity_provider


@pytest.fixture(scope="module")
def idp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    with run_identity_provider(tmp_path_factory.mktemp("idp")) as provider:
        yield provider


@pytest.fixture
def provider(idp: IdentityProvider) -> Iterator[IdentityProvider]:
    """Return the running provider; what a test does to its documents ends with the test."""
    yield idp
    idp.mend()


@pytest.fixture
def deployment(request: pytest.FixtureRequest, tmp_path: Path, provider: IdentityProvider) -> Deployment:
    made = Deployment(tmp_path / "signproxy")
    if "workers" in request.fixturenames and (workers := request.getfixturevalue("workers")) > 1:
        made.set("workers", workers)
    made.trust(provider.issuer)
    return made
