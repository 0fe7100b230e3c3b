"""List buckets through signproxy: of all that a store has, those that the caller may know of."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.mc_session import McSession
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner

_numbers = itertools.count()


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_a_bucket_that_a_client_made_is_found_and_those_of_others_are_not(
    doors: Doors, tmp_path: Path, kind: StoreKind
) -> None:
    """A volume for buckets of a pattern would be of no use to a client that looks what there is."""
    number = next(_numbers)
    with closing(Owner(doors.store(kind))) as owner:
        owner.must("PUT", f"others-{number}")
        session = McSession(doors.to(kind).endpoint(), f"through-listed-{number}", tmp_path)
        session.run("mb", "@")
        session.run("ls", "s")
        session.run("rb", "@")
        session.run("ls", "s")
        made, listed, removed, after = session.said
        assert made.works
        assert listed.works
        assert removed.works
        assert '"key": "BUCKET/"' in "".join(listed.lines)
        assert "BUCKET" not in "".join(after.lines)
        keys = {json.loads(line)["key"].rstrip("/") for line in listed.lines}
        assert all(key.startswith(("BUCKET", "through-", "lake")) for key in keys), keys
