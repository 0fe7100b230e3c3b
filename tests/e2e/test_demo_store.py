"""Start the demo's store as the demo does, and end it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from signproxy.demo.store import DemoStore, DemoStoreFailed
from tests.e2e.stores import install
from tests.e2e.stores.direct import Key, code_of, signed
from tests.e2e.stores.process import status_of
from tests.e2e.stores.seam import RunningStore, Traits
from tests.e2e.wire import Wire

pytestmark = pytest.mark.ci


async def test_the_demo_has_a_store_of_its_own_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """`make run` is the first thing that a user tries, and Ctrl-C the second."""
    async with DemoStore(tmp_path, binary=install.seaweedfs()) as store:
        port = urlsplit(store.endpoint).port
        assert port is not None
        seen = RunningStore("demo", "", port, store.region, store.access_key, store.secret, Traits(), lambda: "")
        assert await asyncio.to_thread(_statuses, seen) == [200, 200, 403]
        assert store.secret not in repr(store)
        assert stat.S_IMODE((tmp_path / "identities.json").stat().st_mode) == 0o600
    assert status_of(port, "/healthz") == 0


def _statuses(store: RunningStore) -> list[int]:
    """Create a bucket, write an object, and try the latter with another secret."""
    with Wire(store.port) as wire:
        wrong = Key(store.access_key, "another", store.region)
        requests = (
            signed(store, "PUT", "lake"),
            signed(store, "PUT", "lake/key", body=b"content"),
            signed(store, "PUT", "lake/key", body=b"content", key=wrong),
        )
        answers = [wire.send(request) for request in requests]
    return [answer.status for answer in answers if code_of(answer) != "InternalError"]


async def test_a_store_that_does_not_start_says_why(tmp_path: Path) -> None:
    """A demo that hangs in silence is closed before its user learns what was missing."""
    broken = tmp_path / "weed"
    broken.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(DemoStoreFailed, match="no space left"):
        async with DemoStore(tmp_path / "data", binary=broken):
            pass
