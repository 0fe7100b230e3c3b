"""Ask for everything that S3 can do where there are tables alone: a refusal has its name, and changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from signproxy.errors import Reason
from tests.e2e.conftest import Shelf
from tests.e2e.forward.door import Door, run_door, storage_of, table_policy
from tests.e2e.forward.full_flow import run_all
from tests.e2e.forward.session import contents
from tests.e2e.forward.signer import content_md5, sign, target_of, upload
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.stores import VERSITYGW, RunningStore
from tests.e2e.stores.contents import buckets_of
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.stores.install import VERSITYGW_VERSION
from tests.s3.operation_rows import ROWS
from tests.s3.operation_rows import Row as Asked

pytestmark = pytest.mark.ci

CLIENT = "every operation of S3, by default"
BUCKET = "tables-alone"
KEY = "wh/own/data/file"
PAGE = Path(__file__).parents[3] / "docs" / "operations-table.md"
"""Where users look up what is refused, and why."""

_UPLOAD_ID = "upload1"
_LISTED = re.compile(r"^\| ([A-Za-z0-9 ]+) \| .*? \| (served|`[a-z_]+`) \| [^|]* \| [^|]* \|$", re.MULTILINE)


class House(NamedTuple):
    store: RunningStore
    door: Door


@pytest.fixture(scope="module")
def house(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    store = shelf.get(VERSITYGW)
    with closing(Owner(store)) as owner:
        owner.must("PUT", BUCKET)
        owner.must("PUT", f"{BUCKET}/{KEY}", body=b"content")
    storage = storage_of(store, [BUCKET], opt_ins={})
    policy = table_policy(storage, BUCKET, {"own": ["TABLE_FULL_METADATA", "TABLE_WRITE_DATA"]})
    with run_door(tmp_path_factory.mktemp("default"), store, policy) as door:
        yield House(store, door)


def told() -> dict[str, str]:
    """Return what the documentation says of each operation in a table: served, or the reason of the refusal."""
    section = PAGE.read_text().partition("## Through the S3 listener")[2]
    return {name: said.strip("`") for names, said in _LISTED.findall(section) for name in names.split(" or ")}


def _query(asked: Asked) -> str:
    """Return a query as clients send it, where the table's own is shorter."""
    if asked.operation == "ListObjects":
        return "prefix=wh%2Fown%2Fdata%2F"
    parts = [part if "=" in part else f"{part}=" for part in asked.query.split("&") if part]
    return "&".join("prefix=wh%2Fown%2Fdata%2F" if part.startswith("prefix=") else part for part in parts)


@pytest.mark.parametrize("asked", ROWS, ids=lambda asked: asked.operation)
def test_each_operation_is_what_the_documentation_says(house: House, matrix: Matrix, asked: Asked) -> None:
    """A user who finds an operation refused has to find the reason, in the event as on the page."""
    endpoint = house.door.endpoint()
    path = {"service": "", "bucket": BUCKET, "object": f"{BUCKET}/{KEY}.{asked.operation}"}[asked.level]
    headers = {
        name: value.replace("/lake/wh/t1/data/source.parquet", f"/{BUCKET}/{KEY}")
        for name, value in asked.headers.items()
    }
    target = target_of(path) if path else "/"
    if asked.method in ("PUT", "POST"):
        body = (
            b"<Delete><Object><Key>wh/own/data/none</Key></Object></Delete>"
            if asked.operation == "DeleteObjects"
            else b""
        )
        if body:
            headers["content-md5"] = content_md5(body)
        wire = upload(endpoint, asked.method, target, _query(asked), body=body, headers=headers)
    else:
        wire = sign(endpoint, asked.method, target, _query(asked), headers=headers).wire()
    answer = house.door.send(wire)
    event = house.door.event(answer.headers["x-signproxy-event-id"])
    expected = told()[asked.operation]
    row = Row(CLIENT, "", house.store.name, house.store.version, asked.operation, way="through the S3 listener")
    if expected != "served":
        row = row._replace(outcome=Outcome.REFUSED, detail=expected)
    with matrix.row(row):
        if expected == "served":
            # An id that was not handed out here is the only thing that is wrong with some.
            assert event["reason"] == ("upload_id" if _UPLOAD_ID in asked.query else "allowed"), answer.body
        else:
            assert (event["decision"], event["reason"]) == ("deny", expected)
            assert "upstream_status" not in event
            assert answer.status == 403
            assert asked.method == "HEAD" or code_of(answer) == "AccessDenied"


def test_the_page_tells_of_every_operation() -> None:
    """An operation that the table does not have cannot be looked up."""
    assert {asked.operation for asked in ROWS} <= told().keys()
    assert sum(said != "served" for said in told().values()) > 80


def test_a_public_suite_changes_nothing_and_every_refusal_has_its_reason(house: House, tmp_path: Path) -> None:
    """Among two thousand requests that are meant for a whole store, one that slips through is enough."""
    with closing(Owner(house.store)) as owner:
        before = contents(owner, BUCKET), buckets_of(owner)
        flow = run_all(house.door.endpoint_without_token(), tmp_path / "home")
        assert len(flow.names) > 600, VERSITYGW_VERSION
        assert (contents(owner, BUCKET), buckets_of(owner)) == before
    events = house.door.events()
    known = {reason.code for reason in Reason}
    counted = Counter((event["decision"], event["reason"]) for event in events)
    assert sum(counted.values()) > 500
    assert {reason for _, reason in counted} <= known
    # A fault of ours, or of the store, is none of the client's.
    assert not [key for key in counted if key[0] == "error"], counted
