"""Shorten what a server only waits for: rigs that run one in the tests' own process take the fixture."""

from __future__ import annotations

import pytest

from signproxy.answers import bodies
from signproxy.audit import writer
from signproxy.gate import limits
from signproxy.server.api import listener
from signproxy.server.s3 import connection

MOMENT = 0.2
"""Seconds: longer than a client of a test needs, also on a busy machine."""
HELD = 0.02


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a moment where a server waits for seconds; a test that is about such a wait sets it again."""
    # Refusals that are held back.
    monkeypatch.setattr(limits, "HOLD_SECONDS", HELD)
    monkeypatch.setattr(limits, "_SPREAD", HELD / 2)
    # Clients that are still sending, or do not close their side.
    monkeypatch.setattr(bodies, "DISCARD_SECONDS", MOMENT)
    monkeypatch.setattr(connection, "LINGER_SECONDS", MOMENT)
    monkeypatch.setattr(listener, "CLOSE_SECONDS", MOMENT)
    # Events that come together.
    monkeypatch.setattr(writer, "BATCH_SECONDS", 0.0)
