"""Prove that PyIceberg reads and writes with the documented properties, and is refused what the policy refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients import install, readme
from tests.e2e.clients.drive import BUCKET, CATALOG, KEYS, LARGE, NAMESPACE, OWNED, SECRET, TABLE, Lake, Run
from tests.e2e.matrix import Matrix, Row

CLIENT = "PyIceberg FsspecFileIO"
DRIVER = Path(__file__).parent / "pyiceberg_driver.py"

# Its threads share one file system and each registers the signer anew: for a moment there is none, or there are two,
# and requests go out unsigned or signed twice (apache/iceberg-python#3896).
ENVIRONMENT = {"PYICEBERG_MAX_WORKERS": "1"}

_TABLE_PATH = f"namespaces/{NAMESPACE}/tables/{TABLE}"

# Where users find the properties, and every kind of route by hand.
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
    # Not False: whether a foreign object exists is nobody's business.
    ("denied_exists", 403, "no_remote_sign"),
    ("read_only_write", 403, "no_write_data"),
    ("metadata_write", 403, "metadata_protected"),
)


def _drive(lake: Lake, home: Path, name: str, properties: dict[str, str], **more: str) -> Run:
    # A REST catalog has a `uri`; a FileIO alone cannot do without one, used or not.
    properties = {"uri": lake.url, **readme.store_properties(lake), **properties}
    asked = {**lake.asked(f"pyiceberg-{name}", properties), **more}
    return lake.drive((str(install.pyiceberg()), "-W", "ignore", str(DRIVER)), asked, home, ENVIRONMENT)


def _check_steps(run: Run, lake: Lake, matrix: Matrix) -> None:
    for operation, step, expected in STEPS:
        with matrix.row(
            Row(CLIENT, install.PYICEBERG_VERSION, lake.store.name, lake.store.version, operation),
        ):
            assert run.value(step) == expected, step
            assert run.operations()[operation.partition(" ")[0]] > 0, operation
    assert run.error("length_missing")[0] == "FileNotFoundError"
    assert run.value("manifest_write") == 2


@pytest.mark.ci
def test_the_documented_configuration_works(lake: Lake, matrix: Matrix, tmp_path: Path) -> None:
    """The README's block is what users paste; each key that it gets wrong is a client that signs nothing."""
    properties = readme.pyiceberg_properties(lake)
    warehouse = f"s3://{BUCKET}/warehouse"
    run = _drive(lake, tmp_path, "readme", properties, owned=f"{warehouse}/{NAMESPACE}/{OWNED}", warehouse=warehouse)
    run.check_trail()
    _check_steps(run, lake, matrix)
    assert run.value("read_only_read") == SECRET.decode()
    for step, status, _ in REFUSED:
        name, message = run.error(step)
        assert (name, f"request {status}:" in message) == ("SignError", True), (step, name, message)
    assert sorted(run.refusals().elements()) == sorted(reason for _, _, reason in REFUSED)
    # A whole table, created, appended to twice and scanned, in a catalog that leaves all writing to the client.
    with matrix.row(Row(CLIENT, install.PYICEBERG_VERSION, lake.store.name, lake.store.version, "a table of its own")):
        assert run.value("table_create").endswith(".metadata.json")
        assert run.value("table_append") == 2
        assert [row["city"] for row in run.value("table_scan")] == ["a/b", "a/b", "New York", "New York"]
    # Everything is signed for the table that it belongs to, though all went to one route.
    assert {event["table"] for event in run.events if event["decision"] == "allow"} == {TABLE, OWNED, "customers"}


@pytest.mark.ci
def test_uploads_over_https_work(lake: Lake, matrix: Matrix, tmp_path: Path) -> None:
    """Over https bodies are sent in chunks with a checksum behind them; signed as less, they become garbage."""
    run = _drive(lake, tmp_path, "https", {**readme.pyiceberg_properties(lake), "s3.endpoint": lake.tls.origin})
    run.check_trail()
    _check_steps(run, lake, matrix)
    stored = lake.owner.must("GET", f"{BUCKET}/warehouse/{NAMESPACE}/{TABLE}/pyiceberg-https/data/plain.txt")
    assert stored.body == b"0123456789" * 10
    # What was refused shows how the rest was sent.
    assert "STREAMING-UNSIGNED-PAYLOAD-TRAILER" in run.error("denied_write")[1]


@pytest.mark.parametrize("route", ("advertised", *ROUTES))
def test_every_route_works(lake: Lake, matrix: Matrix, tmp_path: Path, route: str) -> None:
    """Catalogs hand out any of these; a route that only one kind of client can use is a support case."""
    if route == "advertised":
        properties = readme.advertised_properties(lake)
    else:
        properties = {
            "s3.signer": "S3V4RestSigner",
            "token": lake.server.token,
            **{name: value.format(url=lake.url) for name, value in ROUTES[route].items()},
        }
    run = _drive(lake, tmp_path, route, properties)
    run.check_trail()
    _check_steps(run, lake, matrix)
    of_one_table = route in {"polaris", "specification"}
    assert run.refusals()["outside_table"] == (5 if of_one_table else 0)
    assert run.error("denied_read")[0] == "SignError"
    assert run.error("metadata_write")[0] == "SignError"


def test_a_wrong_token_is_told(lake: Lake, tmp_path: Path) -> None:
    """An expired token must not look like a missing file."""
    run = _drive(lake, tmp_path, "token", {**readme.pyiceberg_properties(lake), "token": "wrong"})
    assert run.requests == []
    name, message = run.error("exists_missing")
    assert (name, "request 401:" in message) == ("SignError", True)
