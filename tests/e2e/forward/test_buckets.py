"""List buckets through signproxy: of all that a store has, those that the caller may know of."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from pathlib import Path

import pytest

from signproxy.s3.xml_document import read_document
from tests.e2e.forward.conftest import CONFORMANT, Doors
from tests.e2e.forward.mc_session import McSession
from tests.e2e.forward.session import Session
from tests.e2e.forward.signer import Endpoint, sign
from tests.e2e.stores import StoreKind
from tests.e2e.stores.direct import Owner
from tests.pieces import drained

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


@pytest.mark.parametrize("kind", CONFORMANT, ids=str)
def test_a_bucket_is_as_old_as_its_store_says(doors: Doors, kind: StoreKind) -> None:
    """Tools that sort or expire buckets by their age would take each for the oldest of all."""
    name = f"through-dated-{next(_numbers)}"
    with closing(Owner(doors.store(kind))) as owner:
        owner.must("PUT", name)
        seen = {}
        for endpoint in (Endpoint.direct(owner.store), doors.to(kind).endpoint()):
            with Session(endpoint, "") as session:
                body = session.send("list", sign(endpoint, "GET", "/").wire()).body
            (listed,) = drained(read_document(body)).all("Buckets")
            told = {bucket.value("Name"): bucket.value("CreationDate") for bucket in listed.all("Bucket")}
            seen[endpoint.name] = told[name]
            assert not any(created.startswith("1970") for created in told.values())
        assert seen["through"] == seen["direct"]
