"""Prove that PyIceberg reads and writes with the documented properties, and is refused what the policy refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from signproxy.cli.clients import Client
from tests.e2e.clients import install
from tests.e2e.clients.drive import (
    CATALOG,
    KEYS,
    NAMESPACE,
    ONCE,
    OWNED,
    READ_ONLY,
    SECRET,
    STORES,
    TABLE,
    Lake,
    Lakes,
)
from tests.e2e.clients.rig import Run
from tests.e2e.matrix import Matrix, Outcome, Row
from tests.e2e.server import CALLER
from tests.e2e.stores import VERSITYGW, StoreKind

CLIENT = "PyIceberg FsspecFileIO"
DRIVER = Path(__file__).parent / "pyiceberg_driver.py"

# Its threads share one file system and each registers the signer anew: for a moment there is none, or there are two,
# and requests go out unsigned or signed twice (apache/iceberg-python#3896).
ENVIRONMENT = {"PYICEBERG_MAX_WORKERS": "1"}

LARGE = 52 * 1024 * 1024
"""More than one part: s3fs' are of 50 MiB."""

_TABLE_PATH = f"namespaces/{NAMESPACE}/tables/{TABLE}"

# Every kind of route by hand.
ROUTES = {
    "polaris": {
        "s3.signer.uri": "{url}/api/catalog/",
        "s3.signer.endpoint": f"s3-sign/v1/{CATALOG}/{_TABLE_PATH}",
    },
    "specification": {"s3.signer.uri": "{url}/", "s3.signer.endpoint": f"v1/{CATALOG}/{_TABLE_PATH}/sign"},
    # The client's own default endpoint.
    "default": {"s3.signer.uri": "{url}/catalogs/lake"},
}

# What has to succeed, with what; the S3 operation is one that the step needs.
STEPS: tuple[tuple[str, str, Any], ...] = (
    ("PutObject", "write", 100),
    ("GetObject", "read", "0123456789" * 10),
    ("GetObject with ranges", "read_ranges", ["56789", "012", "2345"]),
    ("HeadObject", "length", 100),
    ("HeadObject", "exists", True),
    # A missing key is asked for twice: HEAD, then a list of what lies below it.
    ("ListObjectsV2", "exists_missing", False),
    ("PutObject", "write_empty", 0),
    ("CreateMultipartUpload", "write_multipart", LARGE),
    ("UploadPart", "write_multipart", LARGE),
    ("CompleteMultipartUpload", "length_multipart", LARGE),
    *(("PutObject", f"write {key}", len(key.encode())) for key in KEYS),
    *(("GetObject", f"read {key}", key) for key in KEYS),
)

# Each refused step ends with SignError; PyIceberg shows the status and its own request, not the signer's words.
REFUSED = (
    ("delete", 400, "delete_without_body"),
    ("denied_read", 403, "no_remote_sign"),
    ("denied_write", 403, "no_remote_sign"),
    # Not False: whether a foreign object exists is not told.
    ("denied_exists", 403, "no_remote_sign"),
    ("read_only_write", 403, "no_write_data"),
    ("metadata_write", 403, "metadata_protected"),
)


def _drive(lake: Lake, home: Path, name: str, properties: dict[str, str], **more: Any) -> Run:
    asked = {**lake.asked(f"pyiceberg-{name}", properties, LARGE), **more}
    return lake.drive((str(install.pyiceberg()), str(DRIVER)), asked, home, ENVIRONMENT)


def _check_steps(run: Run, lake: Lake, matrix: Matrix) -> None:
    store = lake.rig.store
    for operation, step, expected in STEPS:
        with matrix.row(Row(CLIENT, install.PYICEBERG_VERSION, store.name, store.version, operation)):
            assert run.value(step) == expected, step
            assert run.operations()[operation.partition(" ")[0]] > 0, operation


@pytest.mark.ci
@pytest.mark.parametrize("scheme", ("http", "https"))
@pytest.mark.parametrize("kind", STORES, ids=str)
def test_every_store_works_with_what_client_config_prints(
    lakes: Lakes, matrix: Matrix, tmp_path: Path, kind: StoreKind, scheme: str
) -> None:
    """Over https bodies are sent in chunks with a checksum behind them; signed as less, they become garbage."""
    lake = lakes.on(kind)
    rig = lake.rig
    origin = rig.tls.origin if scheme == "https" else rig.relay.origin
    properties = lake.properties(Client.PYICEBERG, install.PYICEBERG_VERSION, origin=origin)
    warehouse = f"s3://{rig.bucket}/warehouse"
    owned = f"{warehouse}/{NAMESPACE}/{OWNED}/{scheme}"
    run = _drive(lake, tmp_path, scheme, properties, owned=owned, warehouse=warehouse)
    run.check_trail({CALLER})
    _check_steps(run, lake, matrix)
    assert run.value("read_only_read") == SECRET.decode()
    for step, status, _ in REFUSED:
        name, message = run.error(step)
        assert (name, f"request {status}:" in message) == ("SignError", True), (step, name, message)
    assert sorted(run.refusals().elements()) == sorted(reason for _, _, reason in REFUSED)
    # What was refused shows how the rest was sent.
    assert ("STREAMING-UNSIGNED-PAYLOAD-TRAILER" in run.error("denied_write")[1]) is (scheme == "https")
    key = f"{rig.bucket}/warehouse/{NAMESPACE}/{TABLE}/pyiceberg-{scheme}/data/plain.txt"
    assert rig.owner.must("GET", key).body == b"0123456789" * 10

    def row(operation: str, outcome: Outcome = Outcome.WORKS, detail: str = "") -> Row:
        version, store = install.PYICEBERG_VERSION, rig.store
        return Row(CLIENT, version, store.name, store.version, operation, outcome=outcome, detail=detail)

    with matrix.row(row("delete of one file, DeleteObjects without its body", Outcome.REFUSED, "delete_without_body")):
        assert "request 400:" in run.error("delete")[1]
    # A whole table, created, appended to twice and scanned, in a catalog that leaves all writing to the client.
    with matrix.row(row("a table whose metadata it writes itself")):
        assert run.value("table_create").endswith(".metadata.json")
        assert run.value("table_append") == 2
        assert [found["city"] for found in run.value("table_scan")] == ["a/b", "a/b", "New York", "New York"]
    with matrix.row(row("a file of a write-once table")):
        assert (run.value("once_write"), run.value("once_read")) == (5, "first")
        # Which of the two it is depends on whether the store gave the code a body.
        assert run.error("once_overwrite")[0] in ("OSError", "FileExistsError")
    # Everything is signed for the table that it belongs to, though all went to one route.
    tables = {event["table"] for event in run.events if event["decision"] == "allow"}
    assert tables == {TABLE, OWNED, READ_ONLY, ONCE}


@pytest.mark.parametrize("route", ("advertised", *ROUTES))
def test_every_route_works(lakes: Lakes, matrix: Matrix, tmp_path: Path, route: str) -> None:
    """Catalogs hand out any of these; a route that only one kind of client can use is a support case."""
    lake = lakes.on(VERSITYGW)
    if route == "advertised":
        properties = lake.advertised()
    else:
        properties = {
            "s3.signer": "S3V4RestSigner",
            "token": lake.token,
            **{name: value.format(url=lake.url) for name, value in ROUTES[route].items()},
        }
    # A REST catalog has a `uri`; a FileIO alone cannot do without one, used or not.
    run = _drive(lake, tmp_path, route, {"uri": lake.url} | properties | lake.store_properties())
    run.check_trail({CALLER})
    _check_steps(run, lake, matrix)
    of_one_table = route in {"polaris", "specification"}
    # The tables beside it, the write-once one included, with what is asked of them.
    assert run.refusals()["outside_table"] == (8 if of_one_table else 0)
    assert run.error("denied_read")[0] == "SignError"
    assert run.error("metadata_write")[0] == "SignError"


def test_some_releases_of_s3fs_never_ask_for_a_signature(lakes: Lakes, matrix: Matrix, tmp_path: Path) -> None:
    """Users of these see the store's 403 and nothing of signproxy; the page says which releases they are."""
    lake = lakes.on(VERSITYGW)
    properties = lake.properties(Client.PYICEBERG, install.PYICEBERG_VERSION)
    asked = lake.asked("pyiceberg-unsigned", properties, 1)
    command = (str(install.pyiceberg(install.S3FS_UNSIGNED)), str(DRIVER))
    run = lake.drive(command, asked, tmp_path, ENVIRONMENT)
    store = lake.rig.store
    version = f"{install.PYICEBERG_VERSION} with s3fs {install.S3FS_UNSIGNED}"
    bug = "requests go out unsigned, and the signer is never asked (apache/iceberg-python#3625)"
    with matrix.row(
        Row(CLIENT, version, store.name, store.version, "PutObject", outcome=Outcome.CLIENT_BUG, detail=bug)
    ):
        assert run.error("write")[0] == "PermissionError"
        assert run.events == []
        assert {(call.access_key, call.status) for call in run.calls} == {("", 403)}


@pytest.mark.ci
def test_a_wrong_token_is_told(lakes: Lakes, tmp_path: Path) -> None:
    """An expired token must not look like a missing file."""
    lake = lakes.on(VERSITYGW)
    properties = lake.properties(Client.PYICEBERG, install.PYICEBERG_VERSION)
    run = _drive(lake, tmp_path, "token", {**properties, "token": "wrong"})
    assert run.calls == []
    name, message = run.error("exists_missing")
    assert (name, "request 401:" in message) == ("SignError", True)
